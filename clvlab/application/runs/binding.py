"""A fixture of a catalogued pack, as competitions, deploys and backtests of the service name it."""

from __future__ import annotations

from dataclasses import dataclass

from clvlab.answers.answer import ReplayBinding
from clvlab.errors import UnknownFixtureError, UnknownPackError
from clvlab.packs.catalog import Catalog
from clvlab.packs.reader import Pack

_SHOWN_PACKS = 10


@dataclass(frozen=True, slots=True)
class Bound:
    """A fixture of a verified pack."""

    pack: Pack
    fixture_id: int

    def payload(self) -> ReplayBinding:
        """Return what is frozen of it."""
        return {"pack_id": self.pack.pack_id, "fixture_id": self.fixture_id, "content_hash": self.pack.content_hash}


def open_catalogued(catalog: Catalog, pack_id: str) -> Pack:
    """Open a pack of the catalog.

    Raises
    ------
    UnknownPackError
        Not listed, or not what its entry says; the message names the pack and nothing of the disk.
    """
    try:
        return catalog.open(pack_id)
    except UnknownPackError as error:
        raise UnknownPackError(f"unknown or unverified pack {pack_id!r}") from error


def bind(catalog: Catalog, pack_id: str | None, fixture_id: int | None) -> Bound:
    """Resolve a pack and a fixture of it; without a fixture its lowest, without a pack the only verified one.

    Raises
    ------
    UnknownPackError
        Not listed, not verified, or none named where the catalog has not exactly one that is verified.
    UnknownFixtureError
    """
    pack = _only_pack(catalog) if pack_id is None else open_catalogued(catalog, pack_id)
    if fixture_id is None and pack.fixture_ids:
        return Bound(pack, min(pack.fixture_ids))
    if fixture_id is None or fixture_id not in pack.fixture_ids:
        raise UnknownFixtureError(fixture_id or 0, pack.pack_id, pack.fixture_ids)
    return Bound(pack, fixture_id)


def _only_pack(catalog: Catalog) -> Pack:
    packs = catalog.packs()
    if len(packs) != 1:
        known = ", ".join(pack.pack_id for pack in packs[:_SHOWN_PACKS]) + (", ..." if len(packs) > _SHOWN_PACKS else "")
        raise UnknownPackError(
            f"a pack_id is needed: the catalog has {len(packs)} verified packs" + (f": {known}" if packs else "")
        )
    return packs[0]
