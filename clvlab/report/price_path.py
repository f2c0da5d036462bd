"""The path of a pack's prices from opening to close and result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from clvlab.law.closing import Window
from clvlab.packs.reader import Pack
from clvlab.packs.rows import Payout
from clvlab.report import axes as drawing
from clvlab.report.axes import BLUE, GREY, RED
from clvlab.report.export import Exportable, check_settings
from clvlab.report.html import Html, card
from clvlab.statistics import known_moves, path_slopes, price_points
from clvlab.statistics.paths import HOURS, LEGS, check_hours
from clvlab.statistics.verdict import Tone, Verdict
from clvlab.words import counted, interval, kinds_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# The pictures of a price path.


def draw_known(known: pl.DataFrame, ax: Any) -> Any:
    """Draw the share of the move by hours before the close, with a thin line for each market."""
    whole = None
    for (market,), rows in known.group_by("market", maintain_order=True):
        hours, share = (rows[name].to_numpy().astype(float) for name in ("hours", "share"))
        if whole is None:
            whole = market
            low, high = (rows[name].to_numpy().astype(float) for name in ("low", "high"))
            ax.fill_between(hours, 100 * low, 100 * high, color=BLUE, alpha=0.2, linewidth=0)
            ax.plot(hours, 100 * share, color=BLUE, marker="o", markersize=3, linewidth=1.4, label=str(market), zorder=3)
        else:
            ax.plot(hours, 100 * share, color=GREY, linewidth=0.7, alpha=0.8)
    if known["hours"].n_unique() > 1:
        ax.set_xscale("log")
    places = known["hours"].unique().sort()
    ax.set_xticks(places, [f"{hour:g}" for hour in places])
    ax.minorticks_off()
    ax.invert_xaxis()
    ax.set_ylim(0, 100)
    ax.set(xlabel="hours before the close", ylabel="share of the move, %", title="What was known of the move to the close")
    return ax


def draw_slopes(slopes: pl.DataFrame, leg: str, title: str, ax: Any) -> Any:
    """Draw the slope of one leg by market, with its interval, in red if zero is outside the interval."""
    rows = slopes.filter(pl.col("leg") == leg).drop_nulls("slope")
    places = np.arange(rows.height)[::-1]
    for place, row in zip(places, rows.iter_rows(named=True), strict=True):
        known = row["low"] is not None
        colour = RED if known and not row["low"] <= 0 <= row["high"] else BLUE
        if known:
            ax.hlines(place, row["low"], row["high"], color=colour, linewidth=1.5)
        ax.scatter([row["slope"]], [place], s=16, facecolors=colour if known else "none", edgecolors=colour, zorder=3)
    ax.axvline(0, color=GREY, linewidth=0.8)
    ax.set_ylim(-0.7, max(rows.height, 1) - 0.3)
    names = [name if len(name) <= 30 else f"{name[:14]}…{name[-15:]}" for name in rows["market"]]
    ax.set_yticks(places, [f"{name} ({n:,})" for name, n in zip(names, rows["n"], strict=True)], parse_math=False)
    ax.set(xlabel="slope, 0 where prices are fair", title=title)
    return ax


ALL = "all markets"
_MOST_MARKETS = 12
_ROUGH_BELOW = 80  # number of fixtures; below it, a test at .05 rejects fair prices more often
_READING = (
    "A slope is 0 where prices are fair. Opening: above 0, favourites shorten. Close: above 0, favourites win more often than "
    "the close says. Reversal: below 0, results take back part of what prices moved before the close, because prices went too "
    "far or because closes are noisy; above 0, prices had further to go."
)


@dataclass(frozen=True)
class PricePath(Exportable):
    """The path of prices from opening to result; made by ``Pack.price_path()``.

    Attributes
    ----------
    source
        The pack.
    window
        Window that closes fixtures and selects markets.
    hours
        Hours before the close at which the share of the move is measured, descending.
    level
        Level of the intervals, over fixtures.
    fixture_ids
        The fixtures; ``None`` means all.
    """

    source: Pack
    window: Window = field(default_factory=Window)
    hours: tuple[float, ...] = HOURS
    level: float = 0.95
    fixture_ids: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_settings(self.level)

    @cached_property
    def points(self) -> pl.DataFrame:
        """One row per side with a closing price: ``open``, ``close``, ``at`` the hours, ``won`` (1, 0 or ``None``)."""
        points = price_points(self.source.tape(self.fixture_ids), self.window, self.hours)
        results = self.source.results
        if results is None:
            return points.with_columns(won=pl.lit(None, dtype=pl.Float64))
        won = pl.when(pl.col("result").is_in([Payout.WON, Payout.LOST])).then(pl.col("result") == Payout.WON)
        known = results.select("fixture_id", "market_key", "side", won=won.cast(pl.Float64))
        return points.join(known, on=["fixture_id", "market_key", "side"], how="left", maintain_order="left")

    @cached_property
    def _markets(self) -> list[tuple[str, pl.DataFrame]]:
        """All points and, if there are several kinds of market, the points of each kind, the largest first."""
        kinds = kinds_of(self.points["market_key"].unique())
        named = self.points.with_columns(market=pl.col("market_key").replace_strict(kinds, return_dtype=pl.String))
        sizes = named["market"].value_counts(name="n").sort("n", "market", descending=[True, False])
        if sizes.height < 2:
            return [(ALL, self.points)]
        kept = sizes["market"].head(_MOST_MARKETS).to_list()
        groups = [(name, named.filter(pl.col("market") == name)) for name in kept]
        if sizes.height > _MOST_MARKETS:
            groups.append((f"{sizes.height - _MOST_MARKETS} other markets", named.filter(~pl.col("market").is_in(kept))))
        return [(ALL, self.points), *groups]

    @cached_property
    def frame(self) -> pl.DataFrame:
        """One row per market and leg: slope with interval, all markets first; see ``clvlab.statistics.path_slopes``."""
        return _by_market([(name, path_slopes(points, level=self.level)) for name, points in self._markets])

    @cached_property
    def known(self) -> pl.DataFrame:
        """One row per market and hour: share of the move; see ``clvlab.statistics.known_moves``."""
        return _by_market([(name, known_moves(points, self.hours, level=self.level)) for name, points in self._markets])

    @property
    def line(self) -> str:
        """The result over all markets, in one sentence."""
        rows = self.frame.filter(pl.col("market") == ALL).drop_nulls("slope")
        half = self.known.filter(pl.col("market") == ALL, pl.col("share") >= 0.5)
        hour = half["hours"].to_list()[0] if half.height else None
        when = "" if hour is None else f"half of the move was known {hour:g} h before the close"
        results = "" if self.points["won"].count() else "no result is known"
        slopes = f"slopes: {_slopes(rows)}" if rows.height else "no price moved"
        return "; ".join(part for part in (counted(self.points.height, "side"), slopes, when, results) if part)

    @property
    def verdict(self) -> Verdict:
        """One sentence on whether a slope differs from 0, the slope of fair prices."""
        rows = self.frame.filter(pl.col("market") == ALL).drop_nulls("low")
        if rows.is_empty():
            return Verdict("Too few fixtures to tell whether prices are fair on their way.", Tone.NOTHING)
        apart = rows.filter((pl.col("low") > 0) | (pl.col("high") < 0))
        text = _slopes(apart if apart.height else rows)
        fixtures = f"over {counted(self.points['fixture_id'].n_unique(), 'fixture')}"
        if apart.is_empty():
            return Verdict(f"No slope can be distinguished from 0, the slope of fair prices: {text}, {fixtures}.", Tone.UNCLEAR)
        return Verdict(f"Prices are not fair on their way: {text}, {fixtures}.", Tone.NOTHING)

    @property
    def cautions(self) -> list[str]:
        """Warnings about the figures."""
        settled = self.points.drop_nulls("won")["fixture_id"].n_unique()
        if not 0 < settled < _ROUGH_BELOW:
            return []
        return [
            f"{counted(settled, 'fixture')} with results are few for slopes to the result. Longshots seldom win, so intervals "
            "are too short. A test at .05 rejects fair prices up to once in eight times."
        ]

    def chart(self, ax: Axes | None = None) -> Axes:
        """Draw the share of the move by hours before the close.

        Raises
        ------
        MissingLibraryError
            matplotlib is not installed.
        """
        ax = drawing.axes_or_new(ax)
        draw_known(self.known, ax)
        return ax

    def slopes(self, leg: str = "reversal", ax: Axes | None = None) -> Axes:
        """Draw the slope of one leg, ``opening``, ``close`` or ``reversal``, by market.

        Raises
        ------
        MissingLibraryError
            matplotlib is not installed.
        """
        ax = drawing.axes_or_new(ax)
        question = {one.name: one.question for one in LEGS}
        draw_slopes(self.frame, leg, f"{question.get(leg, leg).capitalize()}?", ax)
        return ax

    def __repr__(self) -> str:
        return f"Price path of {self.source.pack_id!r}: {self.line}; next: .frame, .known, .chart(), .slopes()"

    def _repr_html_(self) -> Html:
        legs = [one.name for one in LEGS if self.frame.filter(pl.col("leg") == one.name)["slope"].count()]
        pictures = [drawing.svg(self.chart, "what was known of the move")]
        pictures += [drawing.svg(partial(self.slopes, leg), f"slopes, {leg}") for leg in legs]
        return card(
            "price_path.html",
            f"Price path of {self.source.pack_id} ({self.source.provenance}, {self.source.verified_grade})",
            verdict=self.verdict,
            pictures=pictures,
            line=self.line,
            reading=_READING,
            level=self.level,
            cautions=self.cautions,
            slopes=self.frame.drop_nulls("slope"),
            known=self.known.filter(pl.col("market") == ALL).drop("market"),
        )


def price_path(
    pack: Pack, window: Window | None, hours: Sequence[float], level: float, fixture_ids: Sequence[int] | None
) -> PricePath:
    """Return the price path of a pack, or of some of its fixtures."""
    return PricePath(pack, window or Window(), check_hours(hours), level, None if fixture_ids is None else tuple(fixture_ids))


def _slopes(rows: pl.DataFrame) -> str:
    return ", ".join(
        f"{row['leg']} {row['slope']:+.2f}{interval(row['low'], row['high'], '+.2f')}" for row in rows.iter_rows(named=True)
    )


def _by_market(tables: list[tuple[str, pl.DataFrame]]) -> pl.DataFrame:
    return pl.concat([table.select(pl.lit(name).alias("market"), pl.all()) for name, table in tables])
