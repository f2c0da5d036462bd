"""A pack in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from clvlab.base.files import replace_file
from clvlab.base.names import names_checked
from clvlab.errors import StatisticsError, ViewError, WindowError
from clvlab.lab.validation import fixture_ids_argument
from clvlab.law.closing import Window
from clvlab.law.schema import Schema
from clvlab.packs import reader
from clvlab.packs.manifest import KickoffKind, about
from clvlab.packs.views.view_file import view_file
from clvlab.report.export import Exportable
from clvlab.report.html import Html
from clvlab.statistics.paths import HOURS
from clvlab.words import counted

if TYPE_CHECKING:  # imported where it is used, so that a first backtest waits for nothing else
    from clvlab.law.markets import UnreadKey
    from clvlab.packs.matching.fixtures import MatchResult
    from clvlab.packs.quality import Quality
    from clvlab.packs.views.derivation import DerivedPack
    from clvlab.report.price_path import PricePath


class Pack(Exportable):
    """A hash-verified pack.

    Parameters
    ----------
    pack
        The stored pack.
    hold_out
        A function that leaves out the currently held-out fixtures, including those of plans made after the pack was opened.
    """

    def __init__(self, pack: reader.Pack, hold_out: Callable[[reader.Pack], reader.Pack] | None = None) -> None:
        self._pack, self._hold_out = pack, hold_out

    @property
    def source(self) -> reader.Pack:
        """The pack without currently held-out fixtures."""
        if self._hold_out is not None:
            self._pack = self._hold_out(self._pack)  # while no plan changes, this is the same object with its caches
        return self._pack

    def __reduce__(self) -> tuple[type[Pack], tuple[reader.Pack]]:
        """Pickle without held-out fixtures."""
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
    def grade(self) -> str:
        """The pack's own evidence for the origin of its messages: ``not shown`` or ``self-consistent``."""
        return self.source.grade.value

    @property
    def fixture_ids(self) -> tuple[int, ...]:
        return self.source.fixture_ids

    @property
    def frame(self) -> pl.DataFrame:
        """One row per fixture: id, names, kickoff, rows, announced kickoff, and the facts that agents may know."""
        manifest = self.source.manifest
        actual = manifest.kickoff is KickoffKind.ACTUAL
        announced = [one.scheduled_ts_ms if actual else one.kickoff_ts_ms for one in manifest.fixtures]
        known = about(manifest.fixtures).with_columns(announced_ts_ms=pl.Series(announced, dtype=pl.Int64))
        return self.source.fixtures.join(known, on="fixture_id", how="left", maintain_order="left")

    @property
    def quality(self) -> Quality | None:
        """The report of the import; `None` for a pack that was not imported."""
        return self.source.quality

    @cached_property
    def _quality(self) -> Quality | None:
        from clvlab.report.cards import quality_of

        return self.source.quality or quality_of(self.source)

    @property
    def results(self) -> pl.DataFrame | None:
        """One row per side of a settled market, if the source had results; agents never see them."""
        return self.source.results

    @names_checked
    def where(
        self,
        *,
        league: str | Iterable[str] | None = None,
        season: str | int | Iterable[str] | None = None,
        after: date | str | None = None,
        before: date | str | None = None,
        fixtures: Iterable[int] | None = None,
        markets: str | Iterable[str] | None = None,
        max_overround: float | None = None,
        min_books: int | None = None,
        drop_close_older_than_s: int | None = None,
    ) -> Pack:
        """Return a view of the pack: a filtered pack without a copy.

        ``.removed`` says how much each filter left out. The content hash follows from this pack's hash and the filters.

        Parameters
        ----------
        league, season
            One or several names, in the pack's spelling: ``E0``, ``2025-26``.
        after, before
            Kickoffs at or after ``after`` and before ``before``: a day from midnight UTC, or a time with its zone. Fixtures
            without a kickoff are left out.
        fixtures
            Fixture ids.
        markets
            Prefixes of market keys. Agents see no other markets, and the remaining messages decide where a window ends.
            ``Window(market_allowlist=...)`` scores some markets and shows all.
        max_overround
            A message with a larger overround, such as 0.15, is marked suspended, without prices.
        min_books
            A message of a market with prices from fewer books is also marked suspended, in a pack that keeps its books.
        drop_close_older_than_s
            An older closing message does not count: decisions on its market have the reason ``closing_stale``.

        Raises
        ------
        ViewError
            The pack does not have a league, season or fixture; a value is not valid; or the view is empty.

        Examples
        --------
        >>> from clvlab.lab import open_pack
        >>> view = open_pack("season").where(after="2026-02-01", markets="1X2")
        >>> view.removed["removed"].to_list()
        [180, 600]
        """
        from clvlab.packs.views.rule import rule
        from clvlab.packs.views.view import view_of

        chosen = rule(
            league=league,
            season=season,
            after=after,
            before=before,
            fixtures=fixtures,
            markets=markets,
            max_overround=max_overround,
            min_books=min_books,
            drop_close_older_than_s=drop_close_older_than_s,
        )
        return Pack(view_of(self.source, chosen), self._hold_out)

    @property
    def removed(self) -> pl.DataFrame:
        """One row per filter of a view, in their order, with the number of removed items; empty for other packs."""
        from clvlab.packs.views.derivation import DerivedPack
        from clvlab.packs.views.view import REMOVED, removed

        source = self.source
        return removed(source) if isinstance(source, DerivedPack) else pl.DataFrame(schema=REMOVED)

    @names_checked
    def save(self, path: str | Path) -> Path:
        """Write a view file; ``open_pack`` opens it if the packs of the view are in the same folder, or come with clvlab.

        Raises
        ------
        ViewError
            The pack is not derived from others, or the path does not end in ``.json``.
        """
        content = view_file(self.source)
        if not content:
            raise ViewError(f"{self.pack_id!r} is a pack with its own files, not a view: keep its folder")
        if Path(path).suffix != ".json":
            raise ViewError(f"a view file ends in .json, not as {str(path)!r}")
        replace_file(Path(path), content)
        return Path(path)

    @names_checked
    def ticks(self, fixture_ids: Sequence[int] | None = None) -> pl.DataFrame:
        """Return the ticks of all or some fixtures, one row per (fixture_id, tick_seq, market_key, side).

        Raises
        ------
        PackFormatError, UnknownFixtureError
            The argument is not a list of fixture ids, or the pack does not have an id.
        """
        return self.source.tape(fixture_ids_argument(fixture_ids)).ticks().collect(engine="in-memory")

    @names_checked
    def ladders(self, fixture_ids: Sequence[int] | None = None) -> pl.DataFrame:
        """Return the offers in all or some fixtures, one row per change of a level; see "Ladders" in the pack format.

        Raises
        ------
        UnsupportedError
            The pack keeps no ladders.
        PackFormatError, UnknownFixtureError
            As ``ticks``.
        """
        return self.source.ladders(fixture_ids_argument(fixture_ids)).collect(engine="in-memory")

    @names_checked
    def price_path(
        self, window: Window | None = None, *, hours: Sequence[float] = HOURS, level: float = 0.95,
        fixture_ids: Sequence[int] | None = None,
    ) -> PricePath:  # fmt: skip
        """Return the path of prices: whether they drift from opening to close and result, and when the move was known.

        Parameters
        ----------
        window
            Window that closes fixtures and selects markets; by default it ends at the kickoff.
        hours
            Hours before the close at which the share of the move is measured.
        level
            Level of the intervals, over fixtures.
        fixture_ids
            Fixture ids; all by default. Held-out ones are refused when the ticks are read.

        Raises
        ------
        StatisticsError
            Hours are not above 0, or the level is not in 0..1.

        Examples
        --------
        >>> from clvlab.lab import open_pack
        >>> open_pack("starter").price_path().known["hours"].to_list()[:3]
        [72.0, 48.0, 24.0]
        """
        from clvlab.report.price_path import price_path

        if window is not None and not isinstance(window, Window):
            raise WindowError(f"a window is a clvlab.Window, not {window!r:.80}")
        if isinstance(hours, str) or not isinstance(hours, Iterable):
            raise StatisticsError(f"hours before the close are a list of numbers, such as [24, 1], not {hours!r:.80}")
        return price_path(self.source, window, tuple(hours), level, fixture_ids_argument(fixture_ids))

    @property
    def hold_out(self) -> Callable[[reader.Pack], reader.Pack] | None:
        """A function that leaves out the fixtures that plans hold out; `None` outside a laboratory."""
        return self._hold_out

    def __repr__(self) -> str:
        from clvlab.packs.views.derivation import DerivedPack, derived_words

        verified = f", {self.source.verification}" if self.source.verification else ""
        made = f", {derived_words(self.source)}" if isinstance(self.source, DerivedPack) else ""
        size = f"{counted(len(self.fixture_ids), 'fixture')}, {self.source.rows} rows"
        label = f"{self.provenance}, origin {self.source.verified_grade}"
        return f"Pack {self.pack_id!r} ({label}): {size}{made}{verified}; next: clvlab.backtest(pack)"

    def _repr_html_(self) -> Html:
        from clvlab.report.cards import pack_card

        return pack_card(self.source, self._quality)


def merge_holdouts(made: reader.Pack, packs: Sequence[Pack]) -> Pack:
    """Return a pack derived from several, bound by the plans of all their laboratories."""
    return Pack(made, joint_hold_out(packs))


def joint_hold_out(packs: Sequence[Pack]) -> Callable[[reader.Pack], reader.Pack] | None:
    """Return a function that leaves out the fixtures held out by plans in any laboratory of these packs."""
    filters = list(dict.fromkeys(pack.hold_out for pack in packs if pack.hold_out is not None))
    return partial(_hold_out_all, filters) if len(filters) > 1 else next(iter(filters), None)


def _hold_out_all(filters: Sequence[Callable[[reader.Pack], reader.Pack]], pack: reader.Pack) -> reader.Pack:
    held, doubtful = dict[int, str](), dict[int, str]()
    for own in (each(pack) for each in filters):
        held |= dict(own.held_out)
        doubtful |= dict(own.doubtful)
    return pack.holding_out(held, doubtful)


# Joined sources.


# One row per matched pair, per refused group, and per fixture without a match.
MATCHING: Schema = {
    "source": pl.String,
    "outcome": pl.String,
    "fixture_ids": pl.List(pl.Int64),
    "other_fixture_ids": pl.List(pl.Int64),
    "names": pl.String,
    "other_names": pl.String,
    "turned": pl.Boolean,
    "alike": pl.Float64,
    "kickoff_gap_s": pl.Int64,
    "price_gap_bps": pl.Int64,
    "reason": pl.String,
}


class Joined(Pack):
    """Sources joined by ``clvlab.join_sources()``.

    Attributes
    ----------
    matching
        One row per matched pair, per refused group of fixtures with its reason, and per fixture without a match.
    """

    source: DerivedPack

    def __init__(
        self, pack: DerivedPack, hold_out: Callable[[reader.Pack], reader.Pack] | None, matched: Sequence[MatchResult]
    ) -> None:
        super().__init__(pack, hold_out)
        self.matching = _matching(pack, matched)

    @cached_property
    def unread(self) -> list[UnreadKey]:
        """Markets of the sources whose keys can't be read, so they match no other market."""
        from clvlab.law.markets import unread_keys

        parents = self.source.derivation.parents
        return unread_keys(sorted({key for parent in parents for key in parent.tape().series["market_key"].unique()}))

    def __repr__(self) -> str:
        taken, refused = (self.matching.filter(outcome=outcome).height for outcome in ("taken", "refused"))
        return f"{super().__repr__()}; {taken:,} matched, {refused:,} refused: .matching"


def _matching(pack: DerivedPack, matched: Sequence[MatchResult]) -> pl.DataFrame:
    names = [{one.fixture_id: " - ".join(one.names) for one in parent.manifest.fixtures} for parent in pack.derivation.parents]
    others = zip(pack.derivation.parents[1:], names[1:], matched, strict=True)
    rows = [row for parent, theirs, found in others for row in _rows(parent.pack_id, names[0], theirs, found)]
    return pl.DataFrame(rows, schema=MATCHING, orient="row")


def _rows(source: str, ours: dict[int, str], theirs: dict[int, str], found: MatchResult) -> Iterator[tuple[Any, ...]]:
    for pair in found.pairs:
        named = ours[pair.first], theirs[pair.second]
        measures = pair.swapped, pair.alike, pair.kickoff_gap_s, pair.price_gap_bps
        yield source, "taken", [pair.first], [pair.second], *named, *measures, None
    for one in found.refused:
        named = "; ".join(ours[number] for number in one.first), "; ".join(theirs[number] for number in one.second)
        yield source, "refused", list(one.first), list(one.second), *named, None, None, None, None, one.reason
    for number in found.first_alone:
        yield source, "alone", [number], [], ours[number], "", None, None, None, None, "the other source has no such fixture"
    for number in found.second_alone:
        yield (
            source,
            "alone",
            [],
            [number],
            "",
            theirs[number],
            None,
            None,
            None,
            None,
            "the first source has no such fixture",
        )
