"""A fixture of a catalogued pack, by the names that competitions, deploys and backtests use."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from clvlab.api.answer import ReplayBinding
from clvlab.errors import UnknownFixtureError, UnknownPackError
from clvlab.packs.reader import Pack

_LISTED_PACKS = 10


class PackSource(Protocol):
    def open(self, pack_id: str) -> Pack: ...

    def entries(self) -> dict[str, dict[str, str]]: ...

    def packs(self) -> list[Pack]: ...


@dataclass(frozen=True, slots=True)
class Bound:
    """Fixtures of a verified pack; a run over them is ``ranked`` if the catalog has the pack.

    ``fixture_ids`` are sorted, and ``None`` if the request names one fixture or none.
    """

    pack: Pack
    fixture_id: int
    ranked: bool = True
    fixture_ids: Sequence[int] | None = None

    @property
    def fixtures(self) -> Sequence[int]:
        return self.fixture_ids or [self.fixture_id]

    def payload(self) -> ReplayBinding:
        content_hash = self.pack.content_hash
        return binding_of(self.pack.pack_id, self.fixture_id, content_hash, self.fixture_ids)


def binding_of(pack_id: str, fixture_id: int, content_hash: str, fixture_ids: Sequence[int] | None) -> ReplayBinding:
    one: ReplayBinding = {"pack_id": pack_id, "fixture_id": fixture_id, "content_hash": content_hash}
    return one if fixture_ids is None else {**one, "fixture_ids": list(fixture_ids)}


def open_catalogued(catalog: PackSource, pack_id: str) -> Pack:
    """Open a pack of the catalog, or an upload of the owner; the error names the pack and no path."""
    try:
        return catalog.open(pack_id)
    except UnknownPackError as error:
        raise UnknownPackError(f"unknown or unverified pack {pack_id!r}") from error


def bind(
    catalog: PackSource,
    pack_id: str | None,
    fixture_id: int | None,
    fixture_ids: Collection[int] | Literal["all"] | None = None,
) -> Bound:
    """Resolve a pack and its fixtures; by default the only verified pack and its lowest fixture."""
    pack = _only_pack(catalog) if pack_id is None else open_catalogued(catalog, pack_id)
    ranked = catalog.entries().get(pack.pack_id, {}).get("content_hash") == pack.content_hash
    if fixture_ids is not None:
        wanted = sorted(pack.fixture_ids if fixture_ids == "all" else set(fixture_ids))
        for unknown in set(wanted) - set(pack.fixture_ids):
            raise UnknownFixtureError(unknown, pack.pack_id, pack.fixture_ids)
        if wanted:
            return Bound(pack, wanted[0], ranked, wanted)
    if fixture_id is None and pack.fixture_ids:
        return Bound(pack, min(pack.fixture_ids), ranked)
    if fixture_id is None or fixture_id not in pack.fixture_ids:
        raise UnknownFixtureError(fixture_id or 0, pack.pack_id, pack.fixture_ids)
    return Bound(pack, fixture_id, ranked)


def _only_pack(catalog: PackSource) -> Pack:
    packs = catalog.packs()
    if len(packs) != 1:
        known = ", ".join(pack.pack_id for pack in packs[:_LISTED_PACKS]) + (", ..." if len(packs) > _LISTED_PACKS else "")
        raise UnknownPackError(
            f"a pack_id is needed: the catalog has {len(packs)} verified packs" + (f": {known}" if packs else "")
        )
    return packs[0]
