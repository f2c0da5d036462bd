"""Stakes as shares of a bankroll: flat, or by Kelly's criterion for a stated edge.

The edge is an assumption, made before the bets: this module reads no close and no result. Sides of one market exclude each
other and are staked together. The dependence between the markets of one fixture is unknown, so together they get at most the
stake of the largest.

References
----------
Kelly (1956), "A New Interpretation of Information Rate", Bell System Technical Journal 35(4). Smoczynski and Tomkins (2010),
"An Explicit Solution to the Problem of Optimizing the Allocations of a Bettor's Wealth When Wagering on Horse Races", The
Mathematical Scientist 35(1): sides that exclude each other. MacLean, Thorp and Ziemba (2010), "Long-Term Capital Growth: The
Good and Bad Properties of the Kelly and Fractional Kelly Capital Growth Criteria", Quantitative Finance 10(7).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from math import isfinite
from typing import Literal

import numpy as np
import polars as pl

from clvlab.errors import StatisticsError
from clvlab.statistics.clusters import Floats

_ROUNDING = 1e-12  # a smaller remainder is floating-point zero
_BETS = ("fixture_id", "market_key", "side", "to_close_s", "odds")


@dataclass(frozen=True, slots=True)
class Staking:
    """Size of the stakes.

    Attributes
    ----------
    kind
        ``kelly`` stakes a share of the bankroll at the time of the bet; ``flat`` stakes the same amount each time.
    flat
        Amount of a flat stake, as a share of the bankroll at the start.
    fraction
        Part of Kelly's stake: 1 is full Kelly, and growth falls again above it.
    most
        Limit on the Kelly stake of one side, as a share of the bankroll.
    exposure
        Limit on all stakes at once, as a share of the bankroll; at most 1.

    Raises
    ------
    StatisticsError
        A value is out of its range.

    Examples
    --------
    >>> str(Staking(fraction=0.25, exposure=0.3))
    '0.25 x Kelly, at most 5% on a side, at most 30% at once'
    """

    kind: Literal["kelly", "flat"] = "kelly"
    flat: float = 0.01
    fraction: float = 0.5
    most: float = 0.05
    exposure: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in ("kelly", "flat"):
            raise StatisticsError(f"stakes are kelly or flat, not {self.kind!r:.80}")
        for name, highest in (("flat", 1.0), ("fraction", 10.0), ("most", 1.0), ("exposure", 1.0)):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0 < value <= highest:
                raise StatisticsError(f"{name} of a staking must be above 0 and at most {highest:g}, not {value!r:.80}")

    def __str__(self) -> str:
        limit = "" if self.exposure == 1 else f", at most {self.exposure:.0%} at once"
        if self.kind == "flat":
            return f"flat stakes of {self.flat:.1%} of the start{limit}"
        capped = "" if self.most == 1 else f", at most {self.most:.0%} on a side"
        return f"{self.fraction:g} x Kelly{capped}{limit}"


HALF_KELLY = Staking()


def kelly_shares(probabilities: Floats, odds: Floats) -> Floats:
    """Return the stakes, as shares of the bankroll, that grow it fastest over the mutually exclusive sides of one market.

    Parameters
    ----------
    probabilities
        Probability of each side, 0..1. Their sum is at most 1; the rest belongs to sides that can't be backed.
    odds
        Decimal odds of each side, above 1.

    Returns
    -------
    numpy.ndarray
        Shares of 0 or more, with a sum of at most 1; a share may hedge the stakes on the other sides.

    Raises
    ------
    StatisticsError
        Probabilities or odds are out of their range.

    Examples
    --------
    >>> kelly_shares(np.array([0.55]), np.array([2.0])).round(3).tolist()  # (p * odds - 1) / (odds - 1)
    [0.1]
    >>> kelly_shares(np.array([0.5, 0.4]), np.array([2.2, 2.7])).round(3).tolist()  # apart: 0.083 and 0.047
    [0.24, 0.188]
    """
    p, price = np.asarray(probabilities, dtype=np.float64), np.asarray(odds, dtype=np.float64)
    if not (p >= 0).all() or float(p.sum()) > 1 + 1e-9:
        raise StatisticsError(f"probabilities of sides that exclude each other are 0 or more and at most 1 together, not {p}")
    if not ((price > 1) & np.isfinite(price)).all():
        raise StatisticsError(f"decimal odds are above 1, not {price}")
    order = np.argsort(-p * price, kind="stable")
    # The best sides are backed first, as long as the next one earns more than the reserve left by the others.
    reserve, backed = 1.0, 0
    for number in range(1, len(order) + 1):
        left = 1 - float((1 / price[order[:number]]).sum())
        # Sides whose prices sum to one cost as much as they pay, so the last of them is never worth it.
        if p[order[number - 1]] * price[order[number - 1]] <= reserve * (1 + _ROUNDING) or left <= _ROUNDING:
            break
        reserve, backed = max(1 - float(p[order[:number]].sum()), 0.0) / left, number
    shares = np.zeros_like(p)
    chosen = order[:backed]
    shares[chosen] = np.maximum(p[chosen] - reserve / price[chosen], 0)
    return shares


def check_edge(edge: object) -> float:
    """Return an edge, or raise ``StatisticsError`` unless it is a share of the stake above -1 and below 1."""
    if isinstance(edge, bool) or not isinstance(edge, int | float) or not isfinite(edge) or not -1 < edge < 1:
        raise StatisticsError(f"an edge is a share of the stake, as 0.02 for two percent, not {edge!r:.80}")
    return float(edge)


def training_edge(edge: pl.Series, fixtures: pl.Series, bet_on: pl.Series) -> float:
    """Return the mean edge of fixtures that are not bet on.

    Parameters
    ----------
    edge
        Edge at the close of each decision of the training fold, as a share of the stake; nulls are left out.
    fixtures
        Fixture of each decision.
    bet_on
        Fixtures that are bet on.

    Raises
    ------
    StatisticsError
        A fixture is in both, although its close is known only after the bets; or the fold has no decision.

    Examples
    --------
    >>> training_edge(pl.Series([0.03, 0.01]), pl.Series([1, 2]), pl.Series([3, 4]))
    0.02
    """
    both = fixtures.unique().sort().filter(fixtures.unique().sort().is_in(bet_on.implode()))
    if both.len():
        raise StatisticsError(
            f"fixture {both[0]} is in the training fold and is bet on: its close is not known when bets are made, so it can't "
            "give their edge"
        )
    mean = edge.drop_nulls().mean()
    if not isinstance(mean, int | float):
        raise StatisticsError("the training fold has no scored decision at a price, so it has no edge: name other fixtures")
    return float(mean)


def stakes(bets: pl.DataFrame, staking: Staking, edge: float | None = None) -> pl.Series:
    """Return the stake of each bet, as a share of the bankroll at that time, or at the start if stakes are flat.

    Parameters
    ----------
    bets
        ``fixture_id, market_key, side``, ``to_close_s`` from bet to close, ``odds`` (decimal), in any order.
    staking
        Size of the stakes.
    edge
        Assumed gain of each bet, as a share of the stake: its probability is ``(1 + edge) / odds``. Flat stakes need no edge.

    Returns
    -------
    pl.Series
        Stakes in the order of the bets. Kelly stakes bets on one market at one time together; a later bet on a side tops up its
        stake; a fixture gets at most the stake of its largest market. A bet gets no stake if its odds are too short for the
        edge: ``odds <= 1 + edge``. Probabilities of a market that sum to more than 1 are scaled to 1.

    Raises
    ------
    StatisticsError
        Kelly stakes are asked for without an edge, or the edge is out of its range.

    Examples
    --------
    >>> bets = pl.DataFrame({"fixture_id": [1, 1], "market_key": "m", "side": "a", "to_close_s": [60, 30], "odds": [2.0, 2.0]})
    >>> stakes(bets, Staking(fraction=1, most=1), 0.1).round(3).to_list()  # the second bet finds its side staked
    [0.1, 0.0]
    """
    if staking.kind == "flat":
        return pl.repeat(staking.flat, bets.height, dtype=pl.Float64, eager=True).alias("share")
    edge = check_edge(edge)
    rows = (
        bets.select(*_BETS)
        .with_row_index("bet")
        .sort("fixture_id", "to_close_s", "market_key", "bet", descending=[False, True, False, False])
    )
    shares = np.zeros(bets.height)
    held: dict[tuple[str, str], float] = {}
    fixture, limit = None, 0.0
    for (own, _, market), together in groupby(rows.iter_rows(), lambda row: (row[1], row[4], row[2])):
        if own != fixture:
            fixture, held, limit = own, {}, 0.0
        first = {side: (bet, odds) for bet, _, _, side, _, odds in reversed(list(together))}  # the first bet on each side
        wanted = _wanted(np.array([odds for _, odds in first.values()]), staking, edge)
        limit = max(limit, float(wanted.sum()))
        for (side, (bet, _)), share in zip(first.items(), wanted.tolist(), strict=True):
            has = held.get((market, side), 0.0)
            shares[bet] = max(0.0, min(share - has, limit - sum(held.values())))
            held[market, side] = has + shares[bet]
    return pl.Series("share", shares)


def _wanted(odds: Floats, staking: Staking, edge: float) -> Floats:
    had = odds > max(1.0, 1 + edge)
    probabilities, shares = (1 + edge) / odds[had], np.zeros_like(odds)
    found = staking.fraction * kelly_shares(probabilities / max(float(probabilities.sum()), 1.0), odds[had])
    shares[had] = np.minimum(found, staking.most)
    return shares
