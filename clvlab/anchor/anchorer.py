"""Anchorers, which commit manifest hashes publicly or do nothing. Chain libraries are imported at first use."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from clvlab.anchor.settings import AnchorSettings
from clvlab.errors import AnchorUnavailableError, MissingExtraError
from clvlab.proof.anchor import Anchor, AnchorTrust, Seen

_T = TypeVar("_T")


class Anchorer(Protocol):
    @property
    def cluster(self) -> str:
        """Name of the chain, never ``None``."""
        ...

    @property
    def enabled(self) -> bool: ...

    def commit(self, run_id: str, manifest_hash: str) -> Anchor:
        """Anchor a hash and return the outcome. It may take seconds, and may be called again."""
        ...

    def seen(self, anchor: Anchor) -> Seen | None:
        """Return the chain's answer about the anchor's signature; ``None`` if the chain can't be reached."""
        ...

    def recorded(self, run_id: str) -> Seen | None:
        """Return the chain's answer when the run was anchored, from the run's record; ``None`` without a record."""
        ...

    @property
    def trust(self) -> AnchorTrust: ...


def blocking(run: Callable[[], _T]) -> _T:
    """Call a function that runs an event loop. If a loop is already running, as in a notebook, use a new thread."""
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()


class NullAnchor:
    """Anchors nothing and says so. With an RPC URL it can read anchors of others."""

    def __init__(self, settings: AnchorSettings | None = None) -> None:
        self._settings = settings or AnchorSettings()

    @property
    def cluster(self) -> str:
        return self._settings.cluster

    @property
    def enabled(self) -> bool:
        return False

    @property
    def trust(self) -> AnchorTrust:
        return self._settings.trust()

    def commit(self, run_id: str, manifest_hash: str) -> Anchor:  # noqa: ARG002
        return Anchor(cluster=self.cluster)

    def seen(self, anchor: Anchor) -> Seen | None:
        signature = anchor.signature
        if signature is None or not self._settings.rpc_url:
            return None

        import asyncio  # only where a chain is asked

        try:
            return blocking(lambda: asyncio.run(self._seen(signature)))
        except AnchorUnavailableError:
            return None

    def recorded(self, run_id: str) -> Seen | None:  # noqa: ARG002
        return None

    async def _seen(self, signature: str) -> Seen:
        try:
            from clvlab.anchor.chain import Chain
        except ImportError as error:
            raise MissingExtraError("anchor", error.name) from error
        async with Chain(self._settings, min(self._settings.patience_s, self._settings.timeout_s)) as chain:
            return await chain.seen(signature)
