"""The figures of a tear sheet, a row each, and the sheet in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import sqrt
from typing import Protocol

import polars as pl

from clvlab.errors import UnknownPackError
from clvlab.packs.rows import Payout
from clvlab.report.headline import TOO_FEW
from clvlab.report.selection import Selection
from clvlab.runs.run import Run
from clvlab.statistics import (
    BeatRate,
    Calibration,
    Clusters,
    Concentration,
    Delay,
    Estimate,
    Median,
    Permutation,
    calibrate,
    cluster_mean,
    estimates,
    sum_by_cluster,
)
from clvlab.statistics.measures import MEASURES
from clvlab.statistics.measures import counted as is_counted
from clvlab.statistics.permutation import PermutationResult
from clvlab.words import counted, interval

# Settled profit of a backtest, if a pack has results.
#
# Results are stored apart from the ticks: no agent sees them, the law does not score them, and they do not affect ranks.


PERCENT = "%"
Figure = tuple[str, float | None, float | None, float | None, str]
"""Name, value, bounds of its interval, if any, and unit."""


def percent_of(share: float | None) -> float | None:
    """Return a share in percent."""
    return None if share is None else 100 * share


@dataclass(frozen=True)
class Settlement:
    """The scored decisions with a result, at the prices taken.

    Attributes
    ----------
    frame
        One row per decision, in order of time: ``seq, fixture_id, result, stake``; ``profit`` per unit of stake, and the
        ``expected`` profit at the closing probability, both ``None`` without a quote.
    roi
        Return on investment of a flat stake, in percent: the mean profit.
    expected
        The mean edge of the same decisions at the close, in percent.
    stake_roi
        Return on investment of the agent's stakes, in percent; ``n`` of this estimate counts units of stake.
    close, entry
        Calibration of closing and of entry probabilities against wins and losses, without voids and half results.
    """

    frame: pl.DataFrame = field(repr=False)
    roi: Estimate
    expected: Estimate
    stake_roi: Estimate
    close: Calibration | None
    entry: Calibration | None

    @property
    def profit(self) -> float:
        """Settled profit of a flat stake, in stakes."""
        return float(self.frame["profit"].sum())

    @property
    def stake_profit(self) -> float:
        """Settled profit of the agent's stakes, in their units."""
        return float((self.frame["profit"] * self.frame["stake"]).sum())

    @property
    def figures(self) -> list[Figure]:
        """Rows of the tear sheet."""
        roi, expected, staked = self.roi, self.expected, self.stake_roi
        rows: list[Figure] = [
            ("settled decisions with a price", float(roi.n), None, None, "decisions"),
            ("settled profit, flat stake", self.profit, None, None, "stakes"),
            ("return on investment, flat stake", roi.mean, roi.low, roi.high, PERCENT),
            ("return that the close expected of them", expected.mean, expected.low, expected.high, PERCENT),
            ("settled profit, stakes asked for", self.stake_profit, None, None, "units of stake"),
            ("return on investment, stakes asked for", staked.mean, staked.low, staked.high, PERCENT),
        ]
        for name, known in (("close", self.close), ("entry", self.entry)):
            if known:
                rows.append((f"Brier score of the {name} against results", known.brier, None, None, "squared probability"))
        return rows


def returns_of(result: pl.Expr, odds: pl.Expr) -> pl.Expr:
    """Return the profit per unit of stake at decimal odds; a half result settles half the stake.

    Examples
    --------
    >>> frame = pl.DataFrame({"result": ["won", "half_won", "void", "half_lost", "lost"], "odds": [3.0] * 5})
    >>> frame.select(returns_of(pl.col("result"), pl.col("odds")))["profit"].to_list()
    [2.0, 1.0, 0.0, -0.5, -1.0]
    """
    gain = odds - 1
    return (
        pl.when(result == Payout.WON).then(gain)
        .when(result == Payout.HALF_WON).then(gain / 2)
        .when(result == Payout.VOID).then(pl.lit(0.0))
        .when(result == Payout.HALF_LOST).then(pl.lit(-0.5))
        .when(result == Payout.LOST).then(pl.lit(-1.0))
        .alias("profit")
    )  # fmt: skip


def settlement(scored: pl.DataFrame, results: pl.DataFrame | None, *, level: float = 0.95) -> Settlement | None:
    """Settle scored decisions; `None` without a result."""
    if results is None:
        return None
    known = settled_profit(scored, results).drop_nulls("result")
    if known.is_empty():
        return None
    priced = pl.when(pl.col("odds_milli").is_not_null())
    frame = known.select("seq", "fixture_id", "result", "stake", "profit", expected=priced.then(pl.col("edge_pct") / 100))
    fixtures = frame["fixture_id"]
    sums = [*(sum_by_cluster(100 * frame[name], fixtures)[0] for name in ("profit", "expected")), _by_stake(frame)]
    (roi,), (expected,), (stake_roi,) = (estimates(one, level=level) for one in sums)
    won = known.select(pl.when(pl.col("result").is_in([Payout.WON, Payout.LOST])).then(pl.col("result") == Payout.WON))
    close, entry = (calibrate(known[f"{name}_prob_bps"] / 10_000, won.to_series(), fixtures) for name in ("close", "entry"))
    return Settlement(
        frame=frame,
        roi=roi,
        expected=expected,
        stake_roi=stake_roi,
        close=close,
        entry=entry,
    )


def flat_return(run: Run, level: float = 0.95) -> Estimate | None:
    """Return the return on a flat stake of a run's counted decisions, in percent; `None` without its pack or results."""
    try:
        results = run.pack.results
    except UnknownPackError:
        return None
    settled = None if results is None else settled_profit(run.marked.filter(is_counted()), results)
    return None if settled is None else cluster_mean(100 * settled["profit"], settled["fixture_id"], level=level)


def settled_profit(scored: pl.DataFrame, results: pl.DataFrame) -> pl.DataFrame:
    """Return scored decisions with ``result``, and ``profit`` per unit of stake; both are `None` where they are unknown."""
    own = results.select("fixture_id", "market_key", "side", "result")
    known = scored.join(own, on=["fixture_id", "market_key", "side"], how="left", maintain_order="left")
    odds = pl.col("odds_milli") / 1000
    return known.with_columns(profit=pl.when(odds.is_not_null()).then(returns_of(pl.col("result"), odds)))


def _by_stake(frame: pl.DataFrame) -> Clusters:
    """Sum profit in percent, and stakes, per fixture; their ratio is the return on investment."""
    quoted = frame.filter(pl.col("profit").is_not_null(), pl.col("stake") > 0)
    staked = sum_by_cluster(quoted["stake"], quoted["fixture_id"])[0].sums
    profit = sum_by_cluster(100 * quoted["profit"] * quoted["stake"], quoted["fixture_id"])[0].sums
    squares = sum_by_cluster(10_000 * quoted["profit"] ** 2 * quoted["stake"], quoted["fixture_id"])[0].sums
    return Clusters(profit, staked, squares)


# The data of a tear sheet.


class Sheet(Protocol):
    """A ``TearSheet``, as far as figures need it."""

    @property
    def source(self) -> Run: ...
    @property
    def agent_id(self) -> str: ...
    @property
    def selection(self) -> Selection: ...
    @property
    def level(self) -> float: ...
    @property
    def scored(self) -> pl.DataFrame: ...
    @property
    def moved_lines(self) -> pl.DataFrame: ...
    @property
    def tables(self) -> dict[str, pl.DataFrame]: ...
    @property
    def clv(self) -> Estimate: ...
    @property
    def price_ratio(self) -> Estimate: ...
    @property
    def edge(self) -> Estimate: ...
    @property
    def with_at_close(self) -> Estimate: ...
    @property
    def left_out(self) -> int: ...
    @property
    def sign_flips(self) -> dict[str, float | None]: ...
    @property
    def median(self) -> Median: ...
    @property
    def beat(self) -> BeatRate: ...
    @property
    def concentration(self) -> Concentration: ...
    @property
    def permutation(self) -> Permutation | None: ...
    @property
    def delay(self) -> Delay | None: ...
    @property
    def calibration(self) -> Calibration | None: ...
    @property
    def settled(self) -> Settlement | None: ...
    @property
    def top_five(self) -> tuple[float | None, float | None]: ...
    @property
    def cautions(self) -> list[str]: ...
    @property
    def line(self) -> str: ...
    @property
    def frame(self) -> pl.DataFrame: ...


BPS = MEASURES["clv"].unit
_P = "probability"


def figures(sheet: Sheet, *, moved: bool) -> list[Figure]:
    """Return the rows of ``TearSheet.frame``; ``moved`` adds decisions on lines that moved, which reads the whole tape."""
    clv, beat, median, ratio, edge = sheet.clv, sheet.beat, sheet.median, sheet.price_ratio, sheet.edge
    naive = clv.t * sqrt(clv.design_effect) if clv.t is not None and clv.design_effect is not None else None
    drawdown = _drawdown(sheet) if clv.n else None
    both = sheet.with_at_close
    return [
        ("mean CLV", clv.mean, clv.low, clv.high, BPS),
        ("median CLV", median.median, median.low, median.high, BPS),
        ("mean CLV as price ratio", ratio.mean, ratio.low, ratio.high, PERCENT),
        ("mean edge at the price taken", edge.mean, edge.low, edge.high, PERCENT),
        ("mean CLV with entries at the closing message", both.mean, both.low, both.high, BPS),
        ("t, clustered by fixture", clv.t, None, None, "standard errors"),
        ("degrees of freedom of it", clv.degrees_of_freedom, None, None, "fixtures that could differ"),
        ("t, as if decisions were independent", naive, None, None, "standard errors"),
        ("t of the edge, clustered by fixture", edge.t, None, None, "standard errors"),
        ("one-sided p of t", clv.p_value, None, None, _P),
        ("one-sided p of the edge's t", edge.p_value, None, None, _P),
        ("two-sided p of sign flips by fixture", sheet.sign_flips["clv"], None, None, _P),
        ("two-sided p of sign flips, edge", sheet.sign_flips["edge"], None, None, _P),
        ("effective fixtures", clv.effective_clusters, None, None, "fixtures of equal size"),
        ("design effect", clv.design_effect, None, None, "times the variance"),
        ("effective sample size", clv.effective_n, None, None, "decisions"),
        ("beat the close, of those that moved", percent_of(beat.rate), percent_of(beat.low), percent_of(beat.high), PERCENT),
        ("unmoved", 100 * beat.tied / clv.n if clv.n else None, None, None, PERCENT),
        *(_moved_figures(sheet) if moved else []),
        ("largest fall of the cumulative CLV", drawdown, None, None, BPS),
        ("share of the five best fixtures in the total", sheet.top_five[0], None, None, PERCENT),
        ("mean CLV without them", sheet.top_five[1], None, None, BPS),
        *(sheet.settled.figures if sheet.settled else []),
    ]


def _drawdown(sheet: Sheet) -> float:
    """Return the largest fall of the cumulative CLV in order of decisions; for the whole run it is the law's figure."""
    if sheet.selection.is_whole:
        return float(sheet.source.outcomes["max_drawdown"][0])
    walk = sheet.scored["clv_bps"].cum_sum()
    return float(pl.select((walk - pl.max_horizontal(walk.cum_max(), pl.lit(0))).min()).item())


def _moved_figures(sheet: Sheet) -> list[Figure]:
    elsewhere, later = sheet.permutation, sheet.delay
    return [
        ("mean CLV of the same decisions in other fixtures", *_band(elsewhere), BPS),
        ("one-sided p of the choice of fixture and side", elsewhere.p_value if elsewhere else None, None, None, _P),
        ("value of acting now", later.gain if later else None, None, None, BPS),
        ("one-sided p of acting now, no test of skill", later.p_value if later else None, None, None, _P),
    ]


def line(sheet: Sheet) -> str:
    """The sheet in one sentence."""
    clv, edge, beat = sheet.clv, sheet.edge, sheet.beat
    if clv.mean is None:
        return "no scored decision" + _left_out(sheet)
    t = "none" if clv.t is None else f"{clv.t:.2f}"
    share = (
        "nothing moved" if beat.rate is None else f"{100 * beat.rate:.1f} %{_span(percent_of(beat.low), percent_of(beat.high))}"
    )
    priced = "no price" if edge.mean is None else f"edge at the price taken {edge.mean:+z.2f} %{_span(edge.low, edge.high)}"
    return (
        f"{counted(clv.n, 'scored decision')} in {counted(clv.n_clusters, 'fixture')}{_left_out(sheet)}: mean CLV "
        f"{clv.mean:+z.2f} bps{_span(clv.low, clv.high)}, median {sheet.median.median:+z.1f} bps, cluster t {t}; {priced}; "
        f"beat the close {share}, {beat.tied:,} unmoved"
        f"{_return_text(sheet)}"
    )


def _left_out(sheet: Sheet) -> str:
    count, both = sheet.left_out, sheet.with_at_close.mean
    return f" ({count:,} more at the closing message, with them {both:+z.2f} bps)" if count and both is not None else ""


def _return_text(sheet: Sheet) -> str:
    roi = sheet.settled.roi if sheet.settled else None
    if roi is None or roi.mean is None:
        return ""
    return f"; return on investment {roi.mean:+z.2f} %{_span(roi.low, roi.high)} of {roi.n:,} settled, which is not CLV"


def _band(found: PermutationResult | None) -> tuple[float | None, float | None, float | None]:
    return (found.mean, found.low, found.high) if found else (None, None, None)


def _span(low: float | None, high: float | None) -> str:
    return interval(low, high) or f" [{TOO_FEW}]"


# The question of each figure of a tear sheet, and a glossary.


MEANINGS: Mapping[str, str] = {
    **{f"mean {one.title}": one.question for one in MEASURES.values()},
    "median CLV": "did the middle decision gain too",
    "mean CLV with entries at the closing message": "the law's mean, where a bet at the closing price counts as 0",
    "t, clustered by fixture": "standard errors between the mean and zero",
    "degrees of freedom of it": "how well the standard error of this t is known",
    "t, as if decisions were independent": "the same t from a count that ignores fixtures",
    "t of the edge, clustered by fixture": "standard errors between the edge and zero",
    "one-sided p of t": "how often chance alone gives a t this high",
    "one-sided p of the edge's t": "how often chance alone gives a t of the edge this high",
    "two-sided p of sign flips by fixture": "how often random signs of the fixtures do as well",
    "two-sided p of sign flips, edge": "how often random signs do as well for the edge",
    "effective fixtures": "how many equally large fixtures hold as much information",
    "design effect": "how much information is lost because decisions share fixtures",
    "effective sample size": "how many independent decisions would say as much",
    "beat the close, of those that moved": "how often the line moved my way, whatever the size",
    "unmoved": "how often the line did not move",
    "mean CLV of the same decisions in other fixtures": "the mean of the same bets on other matches",
    "one-sided p of the choice of fixture and side": "how often other fixtures and sides do as well",
    "value of acting now": "the cost of waiting",
    "one-sided p of acting now, no test of skill": "how often a later entry does as well (rough)",
    "largest fall of the cumulative CLV": "the worst stretch, in order of decisions",
    "share of the five best fixtures in the total": "how much depends on a few matches",
    "mean CLV without them": "the mean without the five best fixtures",
    "settled decisions with a price": "how many bets have a result",
    "settled profit, flat stake": "the profit, by luck and skill together",
    "return on investment, flat stake": "the profit for each unit of stake",
    "return that the close expected of them": "the return of the same bets if the close is right",
    "settled profit, stakes asked for": "the profit at the stakes of the agent",
    "return on investment, stakes asked for": "the profit for each unit of the agent's stakes",
    "Brier score of the close against results": "how well the close forecasts; lower is better",
    "Brier score of the entry against results": "how well the price taken forecasts; lower is better",
}
"""The question of each figure, by its name in ``TearSheet.frame``."""

QUESTIONS: Mapping[str, tuple[str, ...]] = {
    "Does it beat the close?": (
        "mean CLV", "median CLV", "mean CLV as price ratio", "beat the close, of those that moved", "unmoved",
        "mean CLV with entries at the closing message",
    ),
    "Is it luck?": (
        "t, clustered by fixture", "degrees of freedom of it", "t, as if decisions were independent", "one-sided p of t",
        "two-sided p of sign flips by fixture", "effective fixtures", "design effect", "effective sample size",
    ),
    "At what prices?": (
        "mean edge at the price taken", "t of the edge, clustered by fixture", "one-sided p of the edge's t",
        "two-sided p of sign flips, edge",
    ),
    "Would other matches or later bets do as well?": (
        "mean CLV of the same decisions in other fixtures", "one-sided p of the choice of fixture and side",
        "value of acting now", "one-sided p of acting now, no test of skill",
    ),
    "Does it depend on a few matches?": (
        "largest fall of the cumulative CLV", "share of the five best fixtures in the total", "mean CLV without them",
    ),
    "What did the results pay?": (
        "settled decisions with a price", "settled profit, flat stake", "return on investment, flat stake",
        "return that the close expected of them", "settled profit, stakes asked for", "return on investment, stakes asked for",
        "Brier score of the close against results", "Brier score of the entry against results",
    ),
}  # fmt: skip
"""The figures that answer each question, in the order of a sheet."""

GLOSSARY: Mapping[str, str] = {
    "basis point (bps)": "one hundredth of a percentage point of probability",
    "CLV": "closing-line value: how far the fair probability of your side rose from bet to close",
    "close": "the last price before the match began, by the rule of the window",
    "clustered": "counted by fixture, because decisions in one match rise and fall together",
    "Brier score": "mean squared distance between a probability and the result: 0 is perfect, 0.25 is a coin's",
    "edge": "value of the price taken at the closing probability, after margin; prices are quotes, not fills",
    "pays": "has an edge above zero at the prices taken, if the close is right",
    "interval": "means that the data allow; an interval around zero proves nothing",
    "p": "how often chance alone does as well",
    "standard error": "typical distance of a mean from the truth",
}
"""Words of the sheet."""
