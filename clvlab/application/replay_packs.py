"""The catalog of replay packs as it is published."""

from __future__ import annotations

from dataclasses import dataclass, field

from clvlab.answers.packs import ReplayPackInfo, ReplayPackListResponse
from clvlab.application.runs.binding import open_catalogued
from clvlab.packs.catalog import Catalog
from clvlab.packs.reader import Pack


@dataclass(frozen=True)
class ReplayPacks:
    """Use cases of the catalog; no path leaves it."""

    catalog: Catalog
    _genuine: dict[str, bool] = field(default_factory=dict)  # by content hash, which covers the raw capture

    def all(self) -> ReplayPackListResponse:
        """List verified, allowlisted packs."""
        return {"packs": [self._info(pack) for pack in self.catalog.packs()]}

    def info(self, pack_id: str) -> ReplayPackInfo:
        """Describe one pack.

        Raises
        ------
        UnknownPackError
        """
        return self._info(open_catalogued(self.catalog, pack_id))

    def _info(self, pack: Pack) -> ReplayPackInfo:
        if pack.content_hash not in self._genuine:  # normalising a capture again takes as long as importing it
            self._genuine[pack.content_hash] = pack.is_genuine
        return {
            "pack_id": pack.pack_id,
            "content_hash": pack.content_hash,
            "provenance": pack.provenance,
            "is_genuine": self._genuine[pack.content_hash],
            "fixtures": list(pack.fixture_ids),
        }
