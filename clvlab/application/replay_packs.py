"""The catalog of replay packs as it is published."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from clvlab.answers.packs import PackFixture, PackFixturesResponse, PackQuality, ReplayPackInfo, ReplayPackListResponse
from clvlab.application.fixtures import FixtureFilter, FixtureTable
from clvlab.application.runs.binding import open_catalogued
from clvlab.application.tables import PAGE, ArrowTable, arrow_stream
from clvlab.cache import BoundedCache
from clvlab.errors import PackError, UnknownPackError
from clvlab.packs.catalog import Catalog
from clvlab.packs.grades import grade_of
from clvlab.packs.manifest import KickoffKind
from clvlab.packs.reader import Pack

_FIXTURES_BYTES = 64 << 20


def _fixture_tables() -> BoundedCache[FixtureTable]:
    return BoundedCache(_FIXTURES_BYTES, lambda table: table.size_bytes)


@dataclass(frozen=True)
class ReplayPacks:
    """Use cases of the catalog; no path leaves it."""

    catalog: Catalog
    _genuine: dict[str, bool] = field(default_factory=dict)  # by content hash, which covers the raw capture
    _tables: BoundedCache[FixtureTable] = field(default_factory=_fixture_tables)

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

    def fixtures(
        self, pack_id: str, wanted: FixtureFilter, cursor: str | None = None, limit: int = PAGE
    ) -> PackFixturesResponse:
        """List fixtures of a pack in order of their id.

        Raises
        ------
        UnknownPackError
        PageError
        """
        pack = open_catalogued(self.catalog, pack_id)
        table = self._table(pack)
        page, total, next_cursor = table.page(wanted, cursor, limit)
        capture = pack.manifest.capture
        return {
            "pack_id": pack.pack_id,
            "content_hash": pack.content_hash,
            "kickoff": (pack.manifest.kickoff or KickoffKind.SCHEDULED).value,
            "gaps": [] if capture is None else [{"from_ts_ms": g.from_ts_ms, "to_ts_ms": g.to_ts_ms} for g in capture.gaps],
            "quality": cast("PackQuality | None", table.quality),
            "fixtures": cast("list[PackFixture]", page.to_dicts()),
            "total": total,
            "next_cursor": next_cursor,
        }

    def fixtures_as_arrow(
        self, pack_id: str, wanted: FixtureFilter, cursor: str | None = None, limit: int | None = None
    ) -> ArrowTable:
        """Return fixtures as ``fixtures`` does, as ``FIXTURE_ROWS`` in Arrow; all that match unless a limit is given."""
        page, _, next_cursor = self._table(open_catalogued(self.catalog, pack_id)).page(wanted, cursor, limit)
        return ArrowTable(arrow_stream(page), next_cursor)

    def _table(self, pack: Pack) -> FixtureTable:
        # The quality report stands beside the content hash, not under it.
        key = (pack.content_hash, pack.manifest.quality_sha256)
        try:
            return self._tables.get(key, lambda: FixtureTable.of(pack))
        except PackError as error:  # to a caller a pack that is not whole is not there
            raise UnknownPackError(f"unknown or unverified pack {pack.pack_id!r}") from error

    def _info(self, pack: Pack) -> ReplayPackInfo:
        if pack.content_hash not in self._genuine:  # normalising a capture again takes as long as importing it
            self._genuine[pack.content_hash] = pack.is_genuine
        return {
            "pack_id": pack.pack_id,
            "content_hash": pack.content_hash,
            "provenance": pack.provenance,
            "is_genuine": self._genuine[pack.content_hash],
            "grade": grade_of(is_genuine=self._genuine[pack.content_hash]).value,
            "fixtures": list(pack.fixture_ids),
        }
