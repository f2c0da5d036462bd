"""Settled profit: what the bets of a backtest won, where a pack has the results of its markets.

Results are kept beside the ticks: no agent sees them, the law does not score them, and nothing here ranks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from clvlab.packs.rows import Payout
from clvlab.statistics import Calibration, Clusters, Estimate, calibrate, estimates, sum_by_cluster

PERCENT = "%"
Figure = tuple[str, float | None, float | None, float | None, str]
"""Name, value, bounds of its interval as far as there is one, and unit."""


def percent_of(share: float | None) -> float | None:
    """Return a part of one in percent."""
    return None if share is None else 100 * share


@dataclass(frozen=True)
class Settlement:
    """The scored decisions whose side was settled, at the prices that were taken.

    Attributes
    ----------
    frame
        One row per decision, in order of time: ``seq, fixture_id, result, stake``; ``profit`` per unit of stake, and
        ``expected`` of it at the closing probability, both null without a quote.
    roi
        Return on investment of a flat stake, in percent: the mean profit.
    expected
        What the close expects of the same decisions, in percent: their mean edge.
    stake_roi
        Return on investment of the stakes that the agent asked for, in percent; its ``n`` counts units of stake.
    close, entry
        Calibration of closing and of entry probabilities against wins and losses; voids and half results are left out.
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
        """Settled profit of the stakes that the agent asked for, in their units."""
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
    """Return the profit per unit of stake of a result at decimal odds: a half result settles half the stake and returns half.

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
    """Settle scored decisions; null where no result is known of any.

    Parameters
    ----------
    scored
        As ``breakdowns.scored_decisions`` gives them.
    results
        ``RESULTS`` of the pack.
    level
        Of the intervals, over fixtures.
    """
    if results is None:
        return None
    known = scored.join(
        results.select("fixture_id", "market_key", "side", "result"),
        on=["fixture_id", "market_key", "side"],
        maintain_order="left",
    )
    if known.is_empty():
        return None
    odds = pl.col("odds_milli") / 1000
    frame = known.select(
        "seq", "fixture_id", "result", "stake",
        profit=pl.when(odds.is_not_null()).then(returns_of(pl.col("result"), odds)),
        expected=pl.when(odds.is_not_null()).then(pl.col("edge_pct") / 100),
    )  # fmt: skip
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


def _by_stake(frame: pl.DataFrame) -> Clusters:
    """Sum profit in percent and stakes per fixture: their ratio is the return on all that was staked."""
    quoted = frame.filter(pl.col("profit").is_not_null(), pl.col("stake") > 0)
    staked = sum_by_cluster(quoted["stake"], quoted["fixture_id"])[0].sums
    profit = sum_by_cluster(100 * quoted["profit"] * quoted["stake"], quoted["fixture_id"])[0].sums
    squares = sum_by_cluster(10_000 * quoted["profit"] ** 2 * quoted["stake"], quoted["fixture_id"])[0].sums
    return Clusters(profit, staked, squares)
