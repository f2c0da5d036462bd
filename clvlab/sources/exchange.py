"""Markets of venues where shares are traded: their order books, and the market states computed from them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from clvlab.law.markets import RESULT_1X2, compose_key
from clvlab.law.schema import ODDS_MILLI
from clvlab.odds.integers import half_up, largest_remainder


class State(NamedTuple):
    """The state of a market after a message.

    Attributes
    ----------
    ts_ms
        Provider's time, in UTC milliseconds.
    in_running
        Whether the fixture is in play.
    sides
        Names of the sides in byte order; all states of a market have the same sides.
    prob_bps, odds_milli
        Values of each side; ``None`` if unpriced. If all sides are priced, their probabilities sum to 10000.
    """

    fixture_id: int
    market_key: str
    ts_ms: int
    in_running: bool
    sides: tuple[str, ...]
    prob_bps: tuple[int | None, ...]
    odds_milli: tuple[int | None, ...]

    @property
    def suspended(self) -> bool:
        return all(prob is None for prob in self.prob_bps)


# Markets of shares that pay one if their side wins: the quotes of each side, and the market's state computed from them.


MARKET_KEY = compose_key(RESULT_1X2)
"""Of a match whose three sides are shares."""
WHOLE = 1_000_000
"""The price of a share that wins, in millionths."""
_WIDEST = 100_000
_LARGEST = 10**15
_BETWEEN = re.compile(r" (?:vs\.?|v\.?) ", re.IGNORECASE)


class Quote(NamedTuple):
    """Best bid and ask of a side, in millionths; a missing bid is 0, a missing ask ``WHOLE``."""

    bid: int
    ask: int

    @property
    def is_sound(self) -> bool:
        """Whether the midpoint is a price: the book is not crossed, and the spread is at most 0.10."""
        return 0 < self.ask - self.bid <= _WIDEST

    @property
    def opposite(self) -> Quote:
        """Quote of the opposite share of the same book."""
        return Quote(WHOLE - self.ask, WHOLE - self.bid)


@dataclass(slots=True)
class ShareMarket:
    """A market whose sides, in byte order, are shares with a book each; ``ts_ms`` is the time of the newest book.

    The market is priced while all sides have a sound quote: probabilities are the normalised midpoints, odds come from the best
    asks. Otherwise it is suspended, because the remaining midpoints do not sum to the whole.
    """

    fixture_id: int
    market_key: str
    sides: tuple[str, ...]
    ts_ms: int = 0
    _last_ms: int = 0
    _quotes: dict[str, Quote | None] = field(init=False)
    _prob_bps: tuple[int | None, ...] = field(init=False)
    _odds_milli: tuple[int | None, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._quotes = dict.fromkeys(self.sides)
        self._prob_bps = self._odds_milli = (None,) * len(self.sides)

    def quote(self, side: str, quote: Quote | None, ts_ms: int) -> None:
        """Set a side's quote; ``None`` if its book is unknown."""
        self._quotes[side] = quote
        self.ts_ms = max(self.ts_ms, ts_ms)

    def move(self, *, in_running: bool, after_ms: int | None = None) -> State | None:
        """Return the state if it differs from the last returned one, or is ``after_ms`` later."""
        prices = self._prices()
        again = after_ms is not None and self.ts_ms - self._last_ms >= after_ms
        if prices == (self._prob_bps, self._odds_milli) and not again:
            return None
        (self._prob_bps, self._odds_milli), self._last_ms = prices, self.ts_ms
        return State(self.fixture_id, self.market_key, self.ts_ms, in_running, self.sides, *prices)

    def state(self, *, in_running: bool) -> State:
        return State(self.fixture_id, self.market_key, self.ts_ms, in_running, self.sides, *self._prices())

    def forget(self) -> None:
        """Treat the market as suspended, so that its next price counts as a move."""
        self._prob_bps = self._odds_milli = (None,) * len(self.sides)

    def _prices(self) -> tuple[tuple[int | None, ...], tuple[int | None, ...]]:
        quotes = {side: quote for side, quote in self._quotes.items() if quote is not None and quote.is_sound}
        if len(quotes) < len(self.sides):
            return (None,) * len(self.sides), (None,) * len(self.sides)
        shares = largest_remainder({side: quote.bid + quote.ask for side, quote in quotes.items()})
        odds = tuple(odds_milli(Decimal(quotes[side].ask) / WHOLE) for side in self.sides)
        return tuple(shares[side] for side in self.sides), odds


def odds_milli(price: Decimal) -> int | None:
    """Return decimal odds x 1000 of a share's price; ``None`` for a price at which a bet can't win or can't be bought."""
    if not 0 < price < 1:
        return None
    odds = half_up(1000 / price)
    return odds if ODDS_MILLI[0] <= odds <= ODDS_MILLI[1] else None


def millionths(price: object) -> int:
    """Return the price of a share, 0 to 1, in millionths.

    Examples
    --------
    >>> millionths("0.445"), millionths(1)
    (445000, 1000000)
    """
    exact = number(price)
    if not 0 <= exact <= 1 or (exact := exact * WHOLE) != int(exact):
        raise ValueError(f"{price!r:.80} is no price of a share")
    return int(exact)


def cents(price: object) -> int:
    """Return the price of a share in whole cents, 0 to 100, in millionths.

    Raises
    ------
    ValueError
        The value is not a whole number from 0 to 100.
    """
    if type(price) is not int or not 0 <= price <= 100:
        raise ValueError(f"{price!r} is no price in cents")
    return price * (WHOLE // 100)


def number(value: object) -> Decimal:
    """Return a number of sensible size from a text or a number; ``ValueError`` for any other value."""
    try:
        found = Decimal(str(value)) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
    except InvalidOperation:
        found = None
    if found is None or not found.is_finite() or not -_LARGEST <= found <= _LARGEST:
        raise ValueError(f"{value!r:.80} is no number")
    return found


def names_of(title: str) -> tuple[str, ...]:
    """Return the two sides of a match from its title, or the title alone.

    Examples
    --------
    >>> names_of("Cup: Paraguay vs. Australia - More Markets"), names_of("Who wins?")
    (('Paraguay', 'Australia'), ('Who wins?',))
    """
    parts = _BETWEEN.split(title)
    if len(parts) != 2:
        return (title,)
    return parts[0].rpartition(": ")[2].strip(), parts[1].partition(" - ")[0].strip()


def match_sides(names: Sequence[str], outcomes: Sequence[str]) -> tuple[str, ...] | None:
    """Return ``part1``, ``draw`` and ``part2`` for the outcomes of a match; ``None`` for other outcomes.

    Examples
    --------
    >>> match_sides(("Paraguay", "Australia"), ("Australia", "Draw (Paraguay vs. Australia)", "Paraguay"))
    ('part2', 'draw', 'part1')
    """
    if len(names) != 2:
        return None
    known = {names[0]: "part1", names[1]: "part2"}
    sides = [known.get(outcome) or ("draw" if outcome.lower().startswith(("draw", "tie")) else "") for outcome in outcomes]
    return tuple(sides) if sorted(sides) in (["draw", "part1", "part2"], ["part1", "part2"]) else None
