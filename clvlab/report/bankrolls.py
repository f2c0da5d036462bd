"""The bankroll of a backtest's settled bets; it is not a score and does not rank agents."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from math import exp, isclose
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from clvlab.errors import StatisticsError
from clvlab.report.axes import BLUE, GREY, RED, axes_or_new, svg
from clvlab.report.export import Exportable
from clvlab.report.figures import PERCENT, Figure, Sheet, percent_of, returns_of
from clvlab.report.html import Html, card
from clvlab.statistics import Bankroll, Staking, bankroll, stakes, training_edge
from clvlab.statistics.bankroll import QUANTILES
from clvlab.statistics.staking import check_edge
from clvlab.words import counted, interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_KEY = ["fixture_id", "market_key", "side"]
_READING = (
    "A bankroll is not a score and does not rank: it is one draw of luck, staked in one of many ways. The fan draws fixtures "
    "again from those that were played: it shows luck around what came out, and knows no other edge than theirs."
)


@dataclass(frozen=True)
class BankrollFan(Exportable):
    """A bankroll, from 1, through the settled decisions of an agent and through resampled fixtures.

    Made by ``TearSheet.bankroll()``.

    Attributes
    ----------
    source
        The paths.
    agent_id
        The agent of the decisions.
    staking
        The rule of stakes.
    edge
        Assumed profit of each bet, as a share of the stake; ``None`` for flat stakes.
    training
        Number of fixtures whose mean is the edge; 0 for a stated edge.
    unsettled
        Number of decisions without a price or a result; they are left out.
    early
        Number of decisions before the last training close, when the edge was not yet known; they are left out too.
    open_s
        Seconds from a close to the result.
    level
        Level of the interval of the growth.
    """

    source: Bankroll = field(repr=False)
    agent_id: str
    staking: Staking
    edge: float | None
    training: int
    unsettled: int
    early: int
    open_s: int
    level: float

    @property
    def frame(self) -> pl.DataFrame:
        """One row per number of settled fixtures: (fixtures, bankroll, q05, q25, q50, q75, q95); the bankroll starts at 1."""
        columns = {"fixtures": np.arange(self.source.path.size), "bankroll": self.source.path}
        return pl.DataFrame(columns | {f"q{round(100 * q):02}": row for q, row in zip(QUANTILES, self.source.fan, strict=True)})

    @property
    def figures(self) -> list[Figure]:
        """Name, value, bounds of the interval, if any, and unit of each figure."""
        found, growth, start = self.source, self.source.growth, "bankrolls of the start"
        low, middle, high = (float(found.fan[k, -1]) for k in (0, 2, -1))
        falls = [100 * fall for fall in found.drawdowns]
        return [
            ("bankroll at the end", float(found.path[-1]), low, high, start),
            ("bankroll at the end, median of the paths", middle, None, None, start),
            ("log growth per fixture", percent_of(growth.mean), percent_of(growth.low), percent_of(growth.high), PERCENT),
            (f"paths that fall below {found.ruin_below:g} of the start", 100 * found.ruin, None, None, PERCENT),
            ("largest fall from a peak, median of the paths", falls[2], falls[0], falls[-1], PERCENT),
            ("staked in all", found.turnover, None, None, start),
            ("settled decisions that got a stake", float(found.n), None, None, "decisions"),
            ("bets cut because too much was open", float(found.cut), None, None, "bets"),
            ("decisions without a price or result", float(self.unsettled), None, None, "decisions"),
            ("decisions before the training had closed", float(self.early), None, None, "decisions"),
        ]

    @property
    def line(self) -> str:
        """The result in one sentence."""
        found, growth = self.source, self.source.growth
        if not found.n:
            return f"{self.staking}{self._assumption}: no bet gets a stake, so the bankroll stays as it is"
        grown = "all lost" if growth.mean is None and found.path[-1] <= 0 else "no growth to estimate"
        if growth.mean is not None:
            bounds = interval(percent_of(growth.low), percent_of(growth.high), "z.3f")
            grown = f"log growth {100 * growth.mean:+z.3f} % a fixture{bounds}"
        low, high, fall = found.fan[0, -1], found.fan[-1, -1], 100 * found.drawdowns[2]
        return (
            f"{self.staking}{self._assumption}: {found.path[-1]:.2f} of the start after {counted(found.n, 'bet')} on "
            f"{counted(found.path.size - 1, 'fixture')} (nine in ten paths {low:.2f} to {high:.2f}), {grown}; "
            f"{100 * found.ruin:.1f} % of {found.paths:,} paths fall below {found.ruin_below:g}, the median path by "
            f"{fall:.0f} % from a peak; no score"
        )

    @property
    def _assumption(self) -> str:
        if self.edge is None:
            return ""
        whence = f"the mean of {counted(self.training, 'other fixture')}" if self.training else "as stated"
        return f" for an edge of {100 * self.edge:+z.2f} %, {whence}"

    def chart(self, ax: Axes | None = None) -> Axes:
        """Draw the path and its fan, on a logarithmic scale unless a whole bankroll is lost.

        Raises
        ------
        MissingLibraryError
            matplotlib is not installed.
        """
        ax, fan, path = axes_or_new(ax), self.source.fan, self.source.path
        places = np.unique(np.linspace(0, path.size - 1, min(path.size, 400)).astype(int))
        for k, alpha in ((0, 0.15), (1, 0.25)):
            ax.fill_between(
                places, fan[k, places], fan[-1 - k, places], color=BLUE, alpha=alpha, linewidth=0,
                label=f"{100 * (QUANTILES[-1 - k] - QUANTILES[k]):.0f} % of the paths",
            )  # fmt: skip
        ax.plot(places, fan[2, places], color=BLUE, linewidth=1, label="median path")
        ax.plot(places, path[places], color=RED, linewidth=1.2, label="as it came")
        ax.axhline(1, color=GREY, linewidth=0.8)
        if min(fan.min(), path.min()) > exp(-12):
            ax.set_yscale("log")
            ax.yaxis.set_major_formatter("{x:g}")
            ax.yaxis.set_minor_formatter("{x:g}" if fan[-1].max() < 10 * fan[0].min() else "")
        ax.legend()
        ax.set(xlabel="fixtures settled", ylabel="bankroll, start 1", title=f"Bankroll, {self.staking}: no score")
        return ax

    def __repr__(self) -> str:
        return f"Bankroll of {self.agent_id}: {self.line}; next: .frame, .figures, .chart()"

    def _repr_html_(self) -> Html:
        return card(
            "bankroll.html",
            f"Bankroll of {self.agent_id}",
            line=self.line,
            reading=_READING,
            open_s=self.open_s,
            level=self.level,
            fan=svg(self.chart, "bankroll and its fan"),
            rows=[(name, value, interval(low, high, "z,.3f").lstrip(), unit) for name, value, low, high, unit in self.figures],
        )


def bankroll_of(
    sheet: Sheet, agent_id: str, *, edge: float | None, training: Collection[int] | None, staking: Staking, open_s: int,
    ruin_below: float, paths: int, seed: int,
) -> BankrollFan:  # fmt: skip
    """Follow a bankroll through the scored decisions of a sheet whose results are known."""
    results = sheet.source.pack.results
    if results is None:
        raise StatisticsError(f"pack {sheet.source.pack.pack_id!r} has no results, so no bet on it can be settled")
    scored = sheet.scored
    fold = _fold(sheet, training)
    trained, bet_on = scored.filter(pl.col("fixture_id").is_in(fold)), scored.filter(~pl.col("fixture_id").is_in(fold))
    bets, early = _settled_bets(bet_on, results), 0
    if trained.height and staking.kind == "kelly":
        made_ms = pl.col("close_ts_ms") - (1000 * pl.col("to_close_s")).round().cast(pl.Int64)
        known = bets.filter(made_ms > _last_close_ms(sheet, fold))
        bets, early = known, bets.height - known.height
    if bets.is_empty():
        raise StatisticsError(
            "no decision outside of the training fold, after its last close, has a price and a result: nothing is settled"
        )
    assumed = None
    if staking.kind == "kelly":
        assumed = _edge(scored, bet_on, bets, edge, fold)
    found = bankroll(
        bets.with_columns(stakes(bets, staking, assumed)), growing=staking.kind == "kelly", exposure=staking.exposure,
        open_s=open_s, ruin_below=ruin_below, paths=paths, level=sheet.level, seed=seed,
    )  # fmt: skip
    return BankrollFan(
        found, agent_id, staking, assumed, trained["fixture_id"].n_unique(), bet_on.height - bets.height - early, early, open_s,
        sheet.level,
    )  # fmt: skip


def _fold(sheet: Sheet, training: Collection[int] | None) -> list[int]:
    if training is None:
        return []
    unknown = sorted(set(training) - set(sheet.source.fixture_ids))
    if unknown:
        raise StatisticsError(f"fixture {unknown[0]!r} of the training fold was not replayed")
    return sorted(set(training))


def _settled_bets(scored: pl.DataFrame, results: pl.DataFrame) -> pl.DataFrame:
    """Return the decisions with a price and a result, in the form for ``stakes`` and ``bankroll``."""
    return (
        scored.join(results.select(*_KEY, "result"), on=_KEY, maintain_order="left")
        .filter(pl.col("odds_milli").is_not_null())
        .with_columns(odds=pl.col("odds_milli") / 1000)
        .with_columns(returns_of(pl.col("result"), pl.col("odds")))
    )


def _last_close_ms(sheet: Sheet, fold: list[int]) -> int:
    """Return the last close of a training fold; its edge is known only after it."""
    return int(sheet.source.evidence.closes.filter(pl.col("fixture_id").is_in(fold))["close_ts_ms"].fill_null(0).sort()[-1])


def _edge(scored: pl.DataFrame, bet_on: pl.DataFrame, settled: pl.DataFrame, edge: float | None, fold: list[int]) -> float:
    """Return the edge for Kelly, stated or trained; refuse an edge from the fixtures that are bet on."""
    if (edge is None) == (not fold):
        raise StatisticsError(
            "Kelly stakes on an edge that is known beforehand: state one (edge=0.02), or name fixtures (training=[...]) whose "
            "mean edge is taken while the others are bet on; one of the two"
        )
    if edge is None:
        trained = scored.filter(pl.col("fixture_id").is_in(fold))
        return training_edge(trained["edge_pct"] / 100, trained["fixture_id"], bet_on["fixture_id"].unique())
    stated = check_edge(edge)
    # when the bets were placed, the edge at the close of these fixtures was not known
    closes = [mean for rows in (bet_on, settled) if isinstance(mean := rows["edge_pct"].mean(), int | float)]
    if any(isclose(stated, one, rel_tol=1e-6) for mean in closes for one in (mean, mean / 100)):
        raise StatisticsError(
            f"an edge of {stated!r} is the mean edge at the close of the very fixtures that are bet on, which nobody knows "
            "before they close: name a training fold (training=[...])"
        )
    return stated
