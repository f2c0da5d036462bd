"""Closes of bets on a line that the market no longer quotes at the close; outside the law."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from clvlab.law.markets import Market, MarketKind, Role
from clvlab.statistics.clusters import Floats

__all__ = [
    "FIRST_ROLES",
    "VERSION",
    "LineQuote",
    "Model",
    "MovedClose",
    "hidden",
    "leave_one_out",
    "moved_close",
    "predicted",
    "quotes_of",
    "scored_by_goals",
]


# Lines that markets price: a market's own line, or the handicaps that a result market implies.


_MOST_GOALS_QUARTERS = 40

FIRST_ROLES: Mapping[MarketKind, tuple[Role, Role]] = {
    MarketKind.HANDICAP: (Role.HOME, Role.AWAY),
    MarketKind.TOTAL: (Role.OVER, Role.UNDER),
}
"""The sides of a line, the one first whose probability a ``LineQuote`` has."""


@dataclass(frozen=True, slots=True)
class LineQuote:
    """A line with its price.

    Attributes
    ----------
    kind, quarters
        Handicap or total, and its line times four.
    prob
        Probability of home or over, 0 to 1, without the stakes that are returned.
    market_key
        Market that quotes the line.
    is_derived
        Whether the price follows from a result market, which implies some handicaps.
    """

    kind: MarketKind
    quarters: int
    prob: float
    market_key: str
    is_derived: bool = False


def quotes_of(market: Market, prob_bps: Mapping[Role, int | None]) -> Iterator[LineQuote]:
    """Return the lines that a market prices: its own, or the handicaps that a result implies.

    A home win is a handicap of -0.5, an away win is the other side of +0.5, and a result without the draw is a handicap of 0.

    Examples
    --------
    >>> for quote in quotes_of(Market.parse("h2h||"), {Role.HOME: 5000, Role.DRAW: 3000, Role.AWAY: 2000}):
    ...     print(quote.quarters, round(quote.prob, 4))
    -2 0.5
    0 0.7143
    2 0.8
    """
    first, second = FIRST_ROLES.get(market.kind, FIRST_ROLES[MarketKind.HANDICAP])
    wins, losses, draw = prob_bps.get(first), prob_bps.get(second), prob_bps.get(Role.DRAW)
    known = {first, second} | ({Role.DRAW} if market.kind is MarketKind.RESULT else set())
    if wins is None or losses is None or wins + losses <= 0 or not known.issuperset(prob_bps):
        return
    if market.kind is not MarketKind.RESULT:
        yield LineQuote(market.kind, market.quarters, wins / (wins + losses), market.key)
        return
    if draw is not None:
        yield LineQuote(MarketKind.HANDICAP, -2, wins / (wins + losses + draw), market.key, is_derived=True)
    yield LineQuote(MarketKind.HANDICAP, 0, wins / (wins + losses), market.key, is_derived=True)
    if draw is not None:
        yield LineQuote(MarketKind.HANDICAP, 2, (wins + draw) / (wins + losses + draw), market.key, is_derived=True)


def scored_by_goals(markets: Iterable[tuple[Market, bool]]) -> bool:
    """Return whether the score counts goals: a key says so, or a result can be a draw and no total is above ten.

    Parameters
    ----------
    markets
        Markets of one fixture and period, and whether each has a draw among its sides.
    """
    listed = list(markets)
    if any(market.goals for market, _ in listed):
        return True
    totals = [market.quarters for market, _ in listed if market.kind is MarketKind.TOTAL]
    return any(draw for _, draw in listed) and max(totals, default=0) <= _MOST_GOALS_QUARTERS


# Distributions of margin and total, fitted to the quoted lines; they price any line.
#
# A price counts only stakes that are not returned, like two prices of a bookmaker without the margin. An integer line leaves
# out the push, and a quarter line puts half a stake on each of its neighbours.
#
# References
# ----------
# Skellam (1946), Journal of the Royal Statistical Society 109: the difference of two Poisson variables.


_MOST_GOALS = 40
_GOALS = np.arange(_MOST_GOALS + 1)
_LOG_FACTORIALS = np.append(0.0, np.log(np.arange(1, _MOST_GOALS + 1)).cumsum())
_FEWEST_GOALS, _MANY_GOALS = 0.02, 12.0
# Two unknowns need lines of two kinds. This small weight decides if one kind is missing; otherwise it has no effect.
_USUAL_GOALS, _PRIOR_WEIGHT = 2.7, 0.003
_STEPS, _STEP, _SETTLED = 40, 1e-6, 1e-9
_LEAST_TOTAL = 0.5
# Variance divided by mean, of the total and of the margin of a game that isn't scored by goals: measured on baseball (docs).
_TOTAL_DISPERSION, _MARGIN_DISPERSION = 2.5, 2.0


class Distribution(Protocol):
    def at_most(self, number: int) -> float: ...


@dataclass(frozen=True)
class ListedLine:
    """Cumulative probabilities of the whole numbers from ``first`` on."""

    first: int
    cumulated: Floats

    def at_most(self, number: int) -> float:
        place = number - self.first
        return 0.0 if place < 0 else float(self.cumulated[min(place, len(self.cumulated) - 1)])


@dataclass(frozen=True)
class RoundedNormal:
    mean: float
    spread: float

    def at_most(self, number: int) -> float:
        from scipy.special import ndtr

        return float(ndtr((number + 0.5 - self.mean) / self.spread))


def above(found: Distribution, quarters: int) -> float:
    """Return the probability of more than a threshold (times four), without the stakes that are returned.

    Examples
    --------
    >>> fair = ListedLine(0, np.array([0.2, 0.5, 0.7, 1.0]))  # of 0, 1, 2 and 3 goals: .2, .3, .2 and .3
    >>> [round(above(fair, line), 4) for line in (6, 7, 8, 9, 10)]
    [0.5, 0.4444, 0.375, 0.3333, 0.3]
    """
    won = lost = 0.0
    for half in (quarters - 1, quarters + 1) if quarters % 2 else (quarters, quarters):
        won += 1 - found.at_most(half // 4)
        lost += found.at_most(-(-half // 4) - 1)
    return won / (won + lost) if won + lost > 0 else 0.5


@dataclass(frozen=True)
class Model:
    """Margin and total of one period of one fixture.

    Attributes
    ----------
    name
        ``goals``, two independent Poisson variables; or ``points``, two rounded normal ones.
    margin, total
        Distributions; ``None`` where the lines do not determine them.
    """

    name: str
    margin: Distribution | None
    total: Distribution | None

    @classmethod
    def of_goals(cls, quotes: Sequence[LineQuote]) -> Model:
        """Return a fit of both sides' goals by least squares over the probabilities of all lines."""
        means = _fitted_goals(quotes)
        return cls("goals", *_goals(means))

    @classmethod
    def of_points(cls, quotes: Sequence[LineQuote]) -> Model:
        """Return a mean fitted to the lines of each kind; the spread comes from the total, or from lines at least 1 apart."""
        totals, margins = (_thresholds(quotes, kind) for kind in (MarketKind.TOTAL, MarketKind.HANDICAP))
        middle = max(float(totals[:, 0].mean()), _LEAST_TOTAL) if len(totals) else None
        if middle is None:
            return cls("points", _rounded(margins, _spread_of(margins)), None)
        return cls(
            "points",
            _rounded(margins, float(np.sqrt(_MARGIN_DISPERSION * middle))),
            _rounded(totals, float(np.sqrt(_TOTAL_DISPERSION * middle))),
        )

    def prob(self, kind: MarketKind, quarters: int) -> float | None:
        """Return the probability of home or over at a line; ``None`` where the lines do not determine it."""
        found = self.margin if kind is MarketKind.HANDICAP else self.total
        return None if found is None else above(found, -quarters if kind is MarketKind.HANDICAP else quarters)


def _poisson(mean: float) -> Floats:
    listed = np.exp(_GOALS * np.log(mean) - mean - _LOG_FACTORIALS)
    return np.asarray(listed / listed.sum(), dtype=np.float64)


def _goals(means: Floats) -> tuple[ListedLine, ListedLine]:
    first, second = (_poisson(float(mean)) for mean in means)
    margin, total = np.convolve(first, second[::-1]), np.convolve(first, second)
    return ListedLine(-_MOST_GOALS, margin.cumsum()), ListedLine(0, total.cumsum())


def _fitted_goals(quotes: Sequence[LineQuote]) -> Floats:
    """Return the mean goals of both sides: damped Gauss-Newton over their logarithms, from one start and in bounded steps."""

    def errors(logs: Floats) -> Floats:
        model = Model("goals", *_goals(np.exp(logs)))
        apart = [(model.prob(quote.kind, quote.quarters) or 0.0) - quote.prob for quote in quotes]
        prior = [logs[0] + logs[1] - 2 * np.log(_USUAL_GOALS / 2), logs[0] - logs[1]]
        return np.array([*apart, *(_PRIOR_WEIGHT * one for one in prior)])

    logs, damping = np.full(2, np.log(_USUAL_GOALS / 2)), 1e-5
    found = errors(logs)
    for _ in range(_STEPS):
        slopes = np.column_stack([(errors(logs + _STEP * axis) - found) / _STEP for axis in np.eye(2)])
        step = np.linalg.solve(slopes.T @ slopes + damping * np.eye(2), -slopes.T @ found)
        moved = np.clip(logs + np.clip(step, -1, 1), np.log(_FEWEST_GOALS), np.log(_MANY_GOALS))
        after = errors(moved)
        if np.abs(moved - logs).max() < _SETTLED:
            break
        if after @ after < found @ found:
            logs, found, damping = moved, after, damping / 10
        else:
            damping *= 10
    return np.asarray(np.exp(logs), dtype=np.float64)


def _thresholds(quotes: Sequence[LineQuote], kind: MarketKind) -> Floats:
    """Return (threshold, standard score) of the lines of a kind, one row per line."""
    from scipy.special import ndtri

    sign = -0.25 if kind is MarketKind.HANDICAP else 0.25
    rows = [(sign * quote.quarters, float(ndtri(quote.prob))) for quote in quotes if quote.kind is kind and 0 < quote.prob < 1]
    return np.array(sorted(rows), dtype=np.float64).reshape(-1, 2)


def _spread_of(rows: Floats) -> float | None:
    if len(rows) < 2 or np.ptp(rows[:, 0]) < 1:
        return None
    slope = -float(np.polyfit(rows[:, 0], rows[:, 1], 1)[0])
    return 1 / slope if slope > 0 else None


def _rounded(rows: Floats, spread: float | None) -> RoundedNormal | None:
    return RoundedNormal(float((rows[:, 0] + spread * rows[:, 1]).mean()), spread) if spread is not None and len(rows) else None


# A line without a quote at the close gets the price of the same line in another market, or of a fit to the other lines.


VERSION = "moved-lines/2"
_WHOLE_BPS = 10_000
_SURE = 1e-4


@dataclass(frozen=True, slots=True)
class MovedClose:
    """The close of a line that is no longer quoted.

    Attributes
    ----------
    prob_bps
        Probability of home or over, rounded half up.
    rule
        ``alternate`` with the market that quotes the line, or ``fitted`` with the model; and the version of the rule.
    error_bps
        Root mean square error of the fit at the other lines of its kind, each hidden in turn; ``None`` with fewer than two
        lines.
    """

    prob_bps: int
    rule: str
    error_bps: float | None


def moved_close(kind: MarketKind, quarters: int, quotes: Sequence[LineQuote], *, goals: bool) -> MovedClose | None:
    """Return the price of a line from the fixture's quotes for the same period at the close.

    Parameters
    ----------
    kind, quarters
        Handicap or total, and the line times four.
    quotes
        Quotes of all other markets.
    goals
        Whether the score counts goals.

    Returns
    -------
    MovedClose | None
        ``None`` if neither another line of its kind nor the same line in another market is quoted.

    Examples
    --------
    >>> lines = [LineQuote(MarketKind.TOTAL, quarters, prob, "") for quarters, prob in ((10, 0.55), (12, 0.45))]
    >>> moved_close(MarketKind.TOTAL, 11, lines, goals=True).prob_bps
    5079
    """
    same = sorted((quote for quote in quotes if (quote.kind, quote.quarters) == (kind, quarters)), key=_own_first)
    if same:
        return MovedClose(_bps(same[0].prob), f"alternate {same[0].market_key}, {VERSION}", None)
    if all(quote.kind is not kind or quote.is_derived for quote in quotes):
        return None  # the market has closed, but its line has not moved
    prob = predicted(kind, quarters, quotes, goals=goals)
    if prob is None:
        return None
    missed = [found - quote.prob for quote, found in leave_one_out(kind, quotes, goals=goals)]
    error = _WHOLE_BPS * float(np.sqrt(np.mean(np.square(missed)))) if missed else None
    return MovedClose(_bps(prob), f"fitted {'goals' if goals else 'points'}, {VERSION}", error)


def leave_one_out(kind: MarketKind, quotes: Sequence[LineQuote], *, goals: bool) -> list[tuple[LineQuote, float]]:
    """Return each line of a kind that others can price, with that price; all quotes of the line itself are hidden."""
    found = []
    for quote in quotes:
        if quote.kind is not kind or quote.is_derived:
            continue
        others = hidden(quote, quotes)
        if all(other.kind is not kind or other.is_derived for other in others):
            continue
        prob = predicted(kind, quote.quarters, others, goals=goals)
        if prob is not None:
            found.append((quote, prob))
    return found


def predicted(kind: MarketKind, quarters: int, quotes: Sequence[LineQuote], *, goals: bool) -> float | None:
    """Return a model's price of a line, shifted by its errors at neighbouring lines and bounded by their prices.

    Errors are in standard scores, interpolated between two lines and constant beyond the outermost.
    """
    from scipy.special import ndtr, ndtri

    own = {quote.quarters: quote.prob for quote in sorted(quotes, key=_own_first, reverse=True) if quote.kind is kind}
    if not own:
        return None
    model = Model.of_goals(quotes) if goals else Model.of_points(quotes)
    lines = sorted(own)
    fitted = [model.prob(kind, line) for line in (*lines, quarters)]
    if None in fitted:
        return None
    scores = ndtri(np.clip(np.array(fitted, dtype=np.float64), _SURE, 1 - _SURE))
    quoted = ndtri(np.clip(np.array([own[line] for line in lines]), _SURE, 1 - _SURE))
    off = np.interp(quarters, lines, quoted - scores[:-1])
    return _between(float(ndtr(scores[-1] + off)), quarters, np.array(lines), np.array([own[line] for line in lines]))


def _between(prob: float, quarters: int, lines: Floats, probs: Floats) -> float:
    """Keep a probability between those of the lines on both sides: the harder of two lines is never the likelier."""
    below, beyond = probs[lines < quarters], probs[lines > quarters]
    sides = [float(side) for side in (*below[-1:], *beyond[:1])]
    if len(sides) == 2:
        return min(max(prob, min(sides)), max(sides))
    return prob


def hidden(line: LineQuote, quotes: Sequence[LineQuote]) -> list[LineQuote]:
    """Return the quotes without those that price a line."""
    return [quote for quote in quotes if (quote.kind, quote.quarters) != (line.kind, line.quarters)]


def _own_first(quote: LineQuote) -> tuple[bool, str]:
    return quote.is_derived, quote.market_key


def _bps(prob: float) -> int:
    return int(np.floor(_WHOLE_BPS * prob + 0.5))
