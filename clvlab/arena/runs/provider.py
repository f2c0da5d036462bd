"""Proofs by the provider of the prices of a stored run: asked for, and judged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from clvlab.arena.runs.bundles import read_stored
from clvlab.base.files import file_bytes
from clvlab.errors import AnchorUnavailableError, BundleError, EvidenceError, MissingExtraError
from clvlab.proof.checks import Check, Verdict
from clvlab.proof.verify import Verification, verify
from clvlab.sources.capture.feed import ProvingFeed, proving
from clvlab.sources.providers import feed_of, feed_settings
from clvlab.sources.txline.proofs import MAX_PROOFS_BYTES, Ask, ProvedPrices, check_proofs, proofs_of, scored_states
from clvlab.words import counted

if TYPE_CHECKING:  # imported where it is used, so that a first verification waits for nothing else
    from clvlab.anchor.settings import AnchorSettings
    from clvlab.packs.reader import Pack

PROOFS_FILE = "provider-proofs.jsonl"


def prove(path: Path, pack: Pack, feed: ProvingFeed | None = None) -> tuple[bytes, int]:
    """Return the proofs of a stored run's scored entries and closes, and how many are missing.

    They come from the pack, or else from TxLINE: from ``feed``, or by the variables ``CLVLAB_TXLINE_*``.

    Raises
    ------
    BundleError
        The run does not verify.
    SourceError, FeedError
        The pack is not of TxLINE, or is not that of the run; TxLINE does not answer.
    """
    run, receipts = read_stored(path)
    verification = verify(run, receipts)
    if not verification.passed:
        raise BundleError(f"run {run.run_id} does not verify, so no price of it is proved")
    with _lazy(feed) as ask:
        return proofs_of(pack, scored_states(verification, run.events), ask)


@contextmanager
def _lazy(feed: ProvingFeed | None) -> Iterator[Ask]:
    """Give a function that asks TxLINE; its keys are read when a proof is first asked for."""
    with ExitStack() as stack:
        opened: list[Ask] = []

        def ask(message_id: str, ts_ms: int) -> bytes | None:
            if not opened:
                own = feed or feed_of(feed_settings(), "txline")
                if not proving(own, "none", "scored", "all"):
                    raise BundleError(f"the feed {own.name!r} proves no messages")
                opened.append(stack.enter_context(own.proving()))
            return opened[0](message_id, ts_ms)

        yield ask


def judge_prices(path: Path, verification: Verification, proofs: Path, settings: AnchorSettings | None = None) -> Check:
    """Judge a file of the provider's proofs for a verified run, up to the day's account if the settings name a node."""
    try:
        proved = check_prices_of(path, verification, proofs)
    except EvidenceError as error:
        return Check(Verdict.FAIL, str(error))
    if settings is None or settings.rpc_url is None:
        return Check(Verdict.PASS, f"{proved.text}; no node was asked for the roots of its days")
    return _on_chain(proved, settings)


def check_prices_of(path: Path, verification: Verification, proofs: Path) -> ProvedPrices:
    """Return what a file of proofs shows of a verified run; ``EvidenceError`` if a proof does not hold or is missing."""
    pre_match = verification.started is not None and verification.started["window"]["end_rule"] == "pre_match"
    states = scored_states(verification, read_stored(path)[0].events)
    return check_proofs(states, file_bytes(proofs, MAX_PROOFS_BYTES), is_pre_match=pre_match)


def _on_chain(proved: ProvedPrices, settings: AnchorSettings) -> Check:
    try:
        from clvlab.anchor.accounts import roots_missing
    except ImportError as error:
        raise MissingExtraError("anchor", error.name) from error
    try:
        missing = roots_missing(settings, proved.batches)
    except AnchorUnavailableError as error:
        return Check(Verdict.PENDING, f"{proved.text}; the roots of its days can't be asked for: {error}")
    days = counted(len(proved.batches), "day")
    if missing:
        return Check(Verdict.FAIL, f"{proved.text}; but {missing[0]}")
    return Check(Verdict.PASS, f"{proved.text}; the accounts of {days} on {settings.cluster!r} hold them")
