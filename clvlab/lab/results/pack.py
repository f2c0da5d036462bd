"""A pack in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

import polars as pl

from clvlab.drawing.showing import Shown
from clvlab.errors import StatisticsError, WindowError
from clvlab.lab.results.fixtures import fixture_ids_given
from clvlab.lab.results.pack_card import measured, pack_card
from clvlab.lab.results.path import PricePath, price_path
from clvlab.law.closing import Window
from clvlab.naming import names_checked
from clvlab.packs import reader
from clvlab.packs.about import about
from clvlab.packs.manifest import KickoffKind
from clvlab.packs.quality import Quality
from clvlab.statistics.paths import HOURS


class Pack(Shown):
    """A hash-verified pack.

    Parameters
    ----------
    pack
        As it was read.
    shut
        Returns it without what plans hold out by now: a pack that was opened before a plan is bound by it as well.
    """

    def __init__(self, pack: reader.Pack, shut: Callable[[reader.Pack], reader.Pack] | None = None) -> None:
        self._pack, self._shut = pack, shut

    @property
    def source(self) -> reader.Pack:
        """The pack as it may be read now."""
        if self._shut is not None:
            self._pack = self._shut(self._pack)  # the same object, and what it has cached, while nothing changes
        return self._pack

    def __reduce__(self) -> tuple[type[Pack], tuple[reader.Pack]]:
        """Go to another process as it may be read now."""
        return Pack, (self.source,)

    @property
    def pack_id(self) -> str:
        return self.source.pack_id

    @property
    def content_hash(self) -> str:
        return self.source.content_hash

    @property
    def provenance(self) -> str:
        return self.source.provenance

    @property
    def is_genuine(self) -> bool:
        return self.source.is_genuine

    @property
    def fixture_ids(self) -> tuple[int, ...]:
        return self.source.fixture_ids

    @property
    def frame(self) -> pl.DataFrame:
        """One row per fixture: id, names, kickoff and rows; the kickoff as it was announced, and what else agents may know."""
        manifest = self.source.manifest
        actual = manifest.kickoff is KickoffKind.ACTUAL
        announced = [one.scheduled_ts_ms if actual else one.kickoff_ts_ms for one in manifest.fixtures]
        known = about(manifest.fixtures).with_columns(announced_ts_ms=pl.Series(announced, dtype=pl.Int64))
        return self.source.fixtures.join(known, on="fixture_id", how="left", maintain_order="left")

    @property
    def quality(self) -> Quality | None:
        """What the import that made the pack found; null for a pack that was not imported."""
        return self.source.quality

    @cached_property
    def _quality(self) -> Quality | None:
        return self.source.quality or measured(self.source)

    @property
    def results(self) -> pl.DataFrame | None:
        """One row per side of a settled market, where the source had results; agents never see them."""
        return self.source.results

    @names_checked
    def ticks(self, fixture_ids: Sequence[int] | None = None) -> pl.DataFrame:
        """Return the ticks, one row per (fixture_id, tick_seq, market_key, side); of all fixtures, or of some by their ids.

        Raises
        ------
        PackFormatError, UnknownFixtureError
            No list of fixture ids, or one that the pack does not have.
        """
        return self.source.tape(fixture_ids_given(fixture_ids)).ticks().collect(engine="in-memory")

    @names_checked
    def price_path(
        self, window: Window | None = None, *, hours: Sequence[float] = HOURS, level: float = 0.95,
        fixture_ids: Sequence[int] | None = None,
    ) -> PricePath:  # fmt: skip
        """Return whether prices drift on their way from opening to close and result, and when the move was known.

        Parameters
        ----------
        window
            Where fixtures close, and which markets count; to the kickoff by default.
        hours
            Hours before the close at which is asked how much of the move had been made.
        level
            Level of the intervals, over fixtures.
        fixture_ids
            Some of the fixtures; all by default. What a plan holds out is refused when the ticks are read.

        Raises
        ------
        StatisticsError
            Hours that are not above 0, or a level outside 0..1.

        Examples
        --------
        >>> from clvlab.lab import open_pack
        >>> open_pack("starter").price_path().known["hours"].to_list()[:3]
        [72.0, 48.0, 24.0]
        """
        if window is not None and not isinstance(window, Window):
            raise WindowError(f"a window is a clvlab.Window, not {window!r:.80}")
        if isinstance(hours, str) or not isinstance(hours, Iterable):
            raise StatisticsError(f"hours before the close are a list of numbers, such as [24, 1], not {hours!r:.80}")
        return price_path(self.source, window, tuple(hours), level, fixture_ids_given(fixture_ids))

    def __repr__(self) -> str:
        rows = sum(fixture.rows for fixture in self.source.manifest.fixtures)
        verified = f", {self.source.verification}" if self.source.verification else ""
        return (
            f"Pack {self.pack_id!r} ({self.provenance}): {len(self.fixture_ids)} fixtures, {rows:,} rows{verified}; "
            "next: clvlab.backtest(pack)"
        )

    def _repr_html_(self) -> str:
        return pack_card(self.source, self._quality)
