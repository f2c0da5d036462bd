"""A fixture of a catalogued pack, by the names that competitions, deploys and backtests use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

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
    """A fixture of a verified pack; a run over it is ``ranked`` if the catalog has the pack."""

    pack: Pack
    fixture_id: int
    ranked: bool = True

    def payload(self) -> ReplayBinding:
        return {"pack_id": self.pack.pack_id, "fixture_id": self.fixture_id, "content_hash": self.pack.content_hash}


def open_catalogued(catalog: PackSource, pack_id: str) -> Pack:
    """Open a pack of the catalog, or an upload of the owner; the error names the pack and no path."""
    try:
        return catalog.open(pack_id)
    except UnknownPackError as error:
        raise UnknownPackError(f"unknown or unverified pack {pack_id!r}") from error


def bind(catalog: PackSource, pack_id: str | None, fixture_id: int | None) -> Bound:
    """Resolve a pack and one of its fixtures; by default the only verified pack and its lowest fixture."""
    pack = _only_pack(catalog) if pack_id is None else open_catalogued(catalog, pack_id)
    ranked = catalog.entries().get(pack.pack_id, {}).get("content_hash") == pack.content_hash
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
