"""What venues charge those who take offers, by their published formulas.

Charges differ by account, country and market, and change; the table says which formula counts, since when, and who states it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from clvlab.base.names import did_you_mean
from clvlab.errors import StatisticsError
from clvlab.law.lines import Ints

Floats = npt.NDArray[np.float64]


class Base(StrEnum):
    """The amount that a rate is charged on."""

    NET_WINNINGS = "net winnings of a market"
    TRADE = "payout x price x (1 - price), at each price"


@dataclass(frozen=True, slots=True)
class Commission:
    """A formula of charges.

    Attributes
    ----------
    name
        The venue; or the rate, for a rate of your own.
    base, rate
        What is charged, and its share that is.
    since, source
        First day of the formula, empty where its source has none, and the page that states it; empty for a rate of your own.
    whole_cents
        Whether the charge of an order is rounded up to a cent.
    note
        What the formula leaves out.
    """

    name: str
    base: Base
    rate: float
    since: str = ""
    source: str = ""
    whole_cents: bool = False
    note: str = ""

    def __str__(self) -> str:
        charged = f"{self.rate:g} x {self.base}" if self.base is Base.TRADE else f"{100 * self.rate:g} % of the {self.base}"
        return f"{self.name}: {charged}" if self.source else charged


VENUES: Mapping[str, Commission] = {
    one.name: one
    for one in (
        Commission(
            "betfair", Base.NET_WINNINGS, 0.05, "", "https://support.betfair.com/app/answers/detail/a_id/413",
            note="net winnings x market base rate x (1 - discount): the base rate of most sports is 5 %, without a discount; "
            "the rate of a rewards package is to be stated as a number",
        ),
        Commission(
            "kalshi", Base.TRADE, 0.07, "2025-07-01", "https://docs.kalshi.com/getting_started/fee_rounding", whole_cents=True,
            note="the general rate of takers, of which some series have another; the rate is stated by the fee schedule, as "
            "https://usigaminghub.com/?p=10734 reports it; an order of several fills pays as one fill",
        ),
        Commission(
            "polymarket", Base.TRADE, 0.03, "2026-03-30", "https://docs.polymarket.com/trading/fees.md",
            note="the rate of sports; markets of before were free, or had another rate. The day is that of "
            "https://startpolymarket.com/learn/polymarket-fees; the page of the venue has no day",
        ),
    )
}  # fmt: skip
"""Venues whose formula is known, by name."""


def commission_of(stated: float | str) -> Commission:
    """Return the charges of a venue by its name, or of a rate, also as text, on the net winnings of a market.

    Raises
    ------
    StatisticsError
        The venue is unknown, or the rate is not from 0 to below 1.

    Examples
    --------
    >>> commission_of("kalshi").rate, str(commission_of(0.02))
    (0.07, '2 % of the net winnings of a market')
    """
    if isinstance(stated, str) and stated in VENUES:
        return VENUES[stated]
    try:
        rate = float("nan" if isinstance(stated, bool) else stated)
    except (TypeError, ValueError, OverflowError):
        rate = float("nan")
    if not 0 <= rate < 1:
        raise StatisticsError(
            f"a commission is a rate from 0 to below 1, such as 0.05 for 5 %, or one of {', '.join(VENUES)}, not "
            f"{stated!r:.80}{did_you_mean(stated, VENUES)}"
        )
    return Commission(f"{rate:g}", Base.NET_WINNINGS, rate)


@dataclass(frozen=True, slots=True)
class Fills:
    """Fills as columns: numbers of the agent's market and of its side, stake and payout in cents, and the base of trades.

    ``uncertain`` is the sum over prices of stake times one minus price, in cents, which is payout x price x (1 - price).
    """

    market: Ints
    side: Ints
    stake: Floats
    payout: Floats
    uncertain: Floats


def expected_charges(fills: Fills, close_prob: Floats, commission: Commission) -> Floats:
    """Return the charge of each fill in cents, expected at the closing probabilities of the sides.

    Net winnings are those of one agent in one market, whose sides exclude each other. If a side wins, its fills share the
    charge in proportion to what each wins.
    """
    if commission.base is Base.TRADE:
        return _of_trades(fills, commission)
    staked = np.bincount(fills.market, fills.stake)[fills.market]
    side = np.unique(fills.side, return_inverse=True)[1]
    paid, won = (np.bincount(side, values)[side] for values in (fills.payout, fills.payout - fills.stake))
    share = np.where(won > 0, (fills.payout - fills.stake) / np.where(won > 0, won, 1), 0)
    charges: Floats = close_prob * commission.rate * np.maximum(paid - staked, 0) * share
    return charges


def settled_charges(fills: Fills, profit: Floats, commission: Commission) -> Floats:
    """Return the charge of each fill in cents after settlement. Fills without a result, nan, count for nothing."""
    if commission.base is Base.TRADE:
        return _of_trades(fills, commission)
    known = np.nan_to_num(profit)
    gain = np.maximum(known, 0)
    net, gains = (np.bincount(fills.market, values)[fills.market] for values in (known, gain))
    return commission.rate * np.maximum(net, 0) * np.where(gains > 0, gain / np.where(gains > 0, gains, 1), 0)


def _of_trades(fills: Fills, commission: Commission) -> Floats:
    charges: Floats = commission.rate * fills.uncertain
    whole: Floats = np.ceil(np.round(charges, 9))  # rounding first, as 175.00000000000003 cents are 175
    return whole if commission.whole_cents else charges
