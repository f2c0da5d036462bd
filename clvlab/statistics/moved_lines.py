"""Closes of bets on a line that the market no longer quotes at the close; outside the law."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from clvlab.law.markets import Market, MarketKind, Role
from clvlab.statistics.clusters import Floats

__all__ = [
    "FIRST_ROLES",
    "VERSION",
    "LineQuote",
    "Model",
    "MovedClose",
    "UnquotedLine",
    "hidden",
    "leave_one_out",
    "moved_close",
    "moved_closes",
    "predicted",
    "quotes_of",
    "scored_by_goals",
]


Ints = npt.NDArray[np.int64]

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
_TOGETHER = 1_000  # fits in step, to fit the cache
_LEAST_TOTAL = 0.5
# Variance divided by mean, of the total and of the margin of a game that isn't scored by goals: measured on baseball (docs).
_TOTAL_DISPERSION, _MARGIN_DISPERSION = 2.5, 2.0


class Distribution(Protocol):
    def at_most(self, numbers: Ints) -> Floats: ...


@dataclass(frozen=True)
class ListedLine:
    """Cumulative probabilities of the whole numbers from ``first`` on."""

    first: int
    cumulated: Floats

    def at_most(self, numbers: Ints) -> Floats:
        places = numbers - self.first
        return np.where(places < 0, 0.0, self.cumulated[np.clip(places, 0, len(self.cumulated) - 1)])


@dataclass(frozen=True)
class RoundedNormal:
    mean: float
    spread: float

    def at_most(self, numbers: Ints) -> Floats:
        from scipy.special import ndtr

        return np.asarray(ndtr((numbers + 0.5 - self.mean) / self.spread), dtype=np.float64)


def above(found: Distribution, quarters: Ints) -> Floats:
    """Return the probability of more than each threshold (times four), without the stakes that are returned.

    Examples
    --------
    >>> fair = ListedLine(0, np.array([0.2, 0.5, 0.7, 1.0]))  # of 0, 1, 2 and 3 goals: .2, .3, .2 and .3
    >>> above(fair, np.arange(6, 11)).round(4).tolist()
    [0.5, 0.4444, 0.375, 0.3333, 0.3]
    """
    return _share_won(found.at_most(_settling(quarters)))


def _settling(quarters: Ints) -> Ints:
    """Return four numbers for each threshold: both halves of a stake lose up to the first two, and win above the last two."""
    halves = np.stack([quarters - quarters % 2, quarters + quarters % 2], axis=-1)
    return np.concatenate([-(-halves // 4) - 1, halves // 4], axis=-1)


def _share_won(at_most: Floats) -> Floats:
    """Return the share of the stakes that win, of those that aren't returned, by the probabilities of ``_settling``."""
    lost, won = at_most[..., 0] + at_most[..., 1], (1 - at_most[..., 2]) + (1 - at_most[..., 3])
    return np.asarray(np.divide(won, won + lost, out=np.full(won.shape, 0.5), where=won + lost > 0), dtype=np.float64)


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
        size = 2 * _MOST_GOALS + 1
        table = _cumulated(_fitted_goals([quotes]), size, size)[0]
        return cls("goals", ListedLine(-_MOST_GOALS, table[1 : 1 + size]), ListedLine(0, table[1 + size :]))

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
        found = self.probs(kind, np.array([quarters]))
        return None if found is None else float(found[0])

    def probs(self, kind: MarketKind, quarters: Ints) -> Floats | None:
        """Return these probabilities of several lines of a kind."""
        found = self.margin if kind is MarketKind.HANDICAP else self.total
        return None if found is None else above(found, -quarters if kind is MarketKind.HANDICAP else quarters)


def _cumulated(logs: Floats, margins: int, totals: int) -> Floats:
    """Return cumulative probabilities of the first margins and totals for logarithms of mean goals, after a column of zeros.

    Margins begin at ``-_MOST_GOALS``. Sums are those of ``numpy.convolve``, whose order of adding decides their last bit.
    """
    means = np.exp(logs)[:, :, None]
    goals = np.exp(_GOALS * np.log(means) - means - _LOG_FACTORIALS)
    goals /= goals.sum(axis=-1, keepdims=True)
    first, second = goals[:, 0], goals[:, 1]
    table, reverse = np.zeros((len(logs), 1 + margins + totals)), np.ascontiguousarray(second[:, ::-1])
    for start, count, other in ((1, margins, second), (1 + margins, totals, reverse)):
        for number in range(count):
            low, high = max(number - _MOST_GOALS, 0), min(number, _MOST_GOALS) + 1
            np.vecdot(
                first[:, low:high], other[:, _MOST_GOALS + 1 - high : _MOST_GOALS + 1 - low], out=table[:, start + number]
            )
        np.cumsum(table[:, start : start + count], axis=1, out=table[:, start : start + count])
    return table


@dataclass(frozen=True, slots=True)
class _LineIndex:
    """Places of lines in a table of ``_cumulated``: by line, the four of ``_settling``."""

    margins: int
    totals: int
    places: Ints

    @classmethod
    def of(cls, kinds: Sequence[Sequence[MarketKind]], quarters: Ints) -> _LineIndex:
        """Return the places of as many lines in each row."""
        handicap = np.array([[kind is MarketKind.HANDICAP for kind in row] for row in kinds])
        thresholds = np.where(handicap, -quarters, quarters)
        number = _settling(thresholds) + _MOST_GOALS * handicap[..., None]
        number = np.clip(number, -1, 2 * _MOST_GOALS)
        margins, totals = (1 + int(number[own].max(initial=-1)) for own in (handicap, ~handicap))
        return cls(margins, totals, np.where(number < 0, 0, 1 + number + margins * ~handicap[..., None]))

    def probs(self, logs: Floats, places: Ints) -> Floats:
        table = _cumulated(logs, self.margins, self.totals)
        return _share_won(np.take_along_axis(table, places.reshape(len(logs), -1), axis=1).reshape(places.shape))


def _fitted_goals(fixtures: Sequence[Sequence[LineQuote]]) -> Floats:
    """Return logarithms of the mean goals of both sides, a row for each fixture.

    Fixtures with as many quotes are fitted in step; each row is what a fit of its fixture alone gives, bit for bit.
    """
    logs, sizes = np.empty((len(fixtures), 2)), np.array([len(quotes) for quotes in fixtures])
    for size in np.unique(sizes):
        own = np.flatnonzero(sizes == size)
        for start in range(0, own.size, _TOGETHER):
            rows = own[start : start + _TOGETHER]
            logs[rows] = _fitted_together([fixtures[row] for row in rows])
    return logs


def _fitted_together(fixtures: Sequence[Sequence[LineQuote]]) -> Floats:
    """Fit each row by damped Gauss-Newton over the logarithms, from one start and in bounded steps."""
    quarters = np.array([[one.quarters for one in row] for row in fixtures])
    lines = _LineIndex.of([[one.kind for one in row] for row in fixtures], quarters)
    quoted = np.array([[one.prob for one in row] for row in fixtures])

    def errors(logs: Floats, rows: Ints) -> Floats:
        prior = np.stack([logs[:, 0] + logs[:, 1] - 2 * np.log(_USUAL_GOALS / 2), logs[:, 0] - logs[:, 1]], axis=1)
        return np.concatenate([lines.probs(logs, lines.places[rows]) - quoted[rows], _PRIOR_WEIGHT * prior], axis=1)

    rows = np.arange(len(fixtures))
    logs, damping = np.full((len(fixtures), 2), np.log(_USUAL_GOALS / 2)), np.full(len(fixtures), 1e-5)
    found = errors(logs, rows)
    for _ in range(_STEPS):
        now, off = logs[rows], found[rows]
        slopes = np.stack([(errors(now + _STEP * axis, rows) - off) / _STEP for axis in np.eye(2)], axis=-1)
        across = slopes.swapaxes(1, 2)
        step = np.linalg.solve(across @ slopes + damping[rows, None, None] * np.eye(2), -across @ off[:, :, None])[:, :, 0]
        moved = np.clip(now + np.clip(step, -1, 1), np.log(_FEWEST_GOALS), np.log(_MANY_GOALS))
        after = errors(moved, rows)
        going = np.abs(moved - now).max(axis=1) >= _SETTLED
        better = np.vecdot(after, after) < np.vecdot(off, off)
        rows, moved, after, better = rows[going], moved[going], after[going], better[going]
        if not rows.size:
            break
        logs[rows[better]], found[rows[better]] = moved[better], after[better]
        damping[rows] = np.where(better, damping[rows] / 10, damping[rows] * 10)
    return logs


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


@dataclass(frozen=True, slots=True, eq=False)
class UnquotedLine:
    """A line to price by the fixture's quotes for the same period.

    Attributes
    ----------
    kind, quarters
        Handicap or total, and the line times four.
    quotes
        Quotes of all other markets.
    goals
        Whether the score counts goals.
    """

    kind: MarketKind
    quarters: int
    quotes: Sequence[LineQuote]
    goals: bool


def moved_close(kind: MarketKind, quarters: int, quotes: Sequence[LineQuote], *, goals: bool) -> MovedClose | None:
    """Return the price of one line at the close; see ``moved_closes`` and ``UnquotedLine``.

    Examples
    --------
    >>> lines = [LineQuote(MarketKind.TOTAL, quarters, prob, "") for quarters, prob in ((10, 0.55), (12, 0.45))]
    >>> moved_close(MarketKind.TOTAL, 11, lines, goals=True).prob_bps
    5079
    """
    return moved_closes([UnquotedLine(kind, quarters, quotes, goals)])[0]


def moved_closes(lines: Sequence[UnquotedLine]) -> list[MovedClose | None]:
    """Return the prices of lines at the close of their fixtures, which are fitted in step.

    A price is ``None`` if neither another line of its kind nor the same line in another market is quoted.
    """
    found: list[MovedClose | None] = [None] * len(lines)
    fitted = []
    for place, line in enumerate(lines):
        same = sorted((one for one in line.quotes if (one.kind, one.quarters) == (line.kind, line.quarters)), key=_own_first)
        if same:
            found[place] = MovedClose(_bps(same[0].prob), f"alternate {same[0].market_key}, {VERSION}", None)
        elif _has_line(line.kind, line.quotes):  # otherwise the market has closed, but its line has not moved
            fitted.append(place)
    # other lines are hidden once for all lines of one kind that moved in a fixture
    checks = {_checked(lines[place]): _hidden_lines(lines[place]) for place in fitted}
    priced = predictions([*(lines[place] for place in fitted), *(line for each in checks.values() for _, line in each)])
    rest = iter(priced[len(fitted) :])
    errors = {key: _root_mean_square([(next(rest), quote.prob) for quote, _ in each]) for key, each in checks.items()}
    for place, prob in zip(fitted, priced, strict=False):
        rule = f"fitted {'goals' if lines[place].goals else 'points'}, {VERSION}"
        found[place] = None if prob is None else MovedClose(_bps(prob), rule, errors[_checked(lines[place])])
    return found


def _checked(line: UnquotedLine) -> tuple[int, MarketKind, bool]:
    return id(line.quotes), line.kind, line.goals


def _has_line(kind: MarketKind, quotes: Iterable[LineQuote]) -> bool:
    return any(quote.kind is kind and not quote.is_derived for quote in quotes)


def _hidden_lines(line: UnquotedLine) -> list[tuple[LineQuote, UnquotedLine]]:
    """Return each quote of the kind that others can price, and its line without all quotes of that line."""
    own = [(one, hidden(one, line.quotes)) for one in line.quotes if one.kind is line.kind and not one.is_derived]
    return [(one, replace(line, quarters=one.quarters, quotes=rest)) for one, rest in own if _has_line(line.kind, rest)]


def _root_mean_square(pairs: Iterable[tuple[float | None, float]]) -> float | None:
    missed = [found - quoted for found, quoted in pairs if found is not None]
    return _WHOLE_BPS * float(np.sqrt(np.mean(np.square(missed)))) if missed else None


def leave_one_out(kind: MarketKind, quotes: Sequence[LineQuote], *, goals: bool) -> list[tuple[LineQuote, float]]:
    """Return each line of a kind that others can price, with that price; all quotes of the line itself are hidden."""
    lines = _hidden_lines(UnquotedLine(kind, 0, quotes, goals))
    priced = zip(lines, predictions([line for _, line in lines]), strict=True)
    return [(quote, prob) for (quote, _), prob in priced if prob is not None]


def predicted(kind: MarketKind, quarters: int, quotes: Sequence[LineQuote], *, goals: bool) -> float | None:
    """Return a model's price of one line; see ``predictions``."""
    return predictions([UnquotedLine(kind, quarters, quotes, goals)])[0]


def predictions(lines: Sequence[UnquotedLine]) -> list[float | None]:
    """Return a model's price of each line, shifted by its errors at neighbouring lines and bounded by their prices.

    Errors are in standard scores, interpolated between two lines and constant beyond the outermost. A price is ``None`` if no
    line of its kind is quoted, or if the quotes do not determine it.
    """
    from scipy.special import ndtr, ndtri

    found: list[float | None] = [None] * len(lines)
    own = [_prices(line) for line in lines]
    wanted = [np.array([*prices, line.quarters]) for line, prices in zip(lines, own, strict=True)]
    by_goals = [place for place, line in enumerate(lines) if line.goals and own[place]]
    fits: dict[int, Floats | None] = dict(zip(by_goals, _probs_by_goals(lines, wanted, by_goals), strict=True))
    for place, line in enumerate(lines):
        if own[place] and not line.goals:
            fits[place] = Model.of_points(line.quotes).probs(line.kind, wanted[place])
    known = {place: fit for place, fit in sorted(fits.items()) if fit is not None}
    if not known:
        return found
    ends = np.cumsum([len(fit) for fit in known.values()])
    scores = ndtri(np.clip(np.concatenate(list(known.values())), _SURE, 1 - _SURE))
    prices = np.concatenate([[*own[place].values(), 0.5] for place in known])  # the line itself, at the end, has no price
    off = ndtri(np.clip(prices, _SURE, 1 - _SURE)) - scores
    shifts = []
    for place, end in zip(known, ends, strict=True):
        line, start = lines[place], end - len(wanted[place])
        shifts.append(np.interp(line.quarters, wanted[place][:-1], off[start : end - 1]))
    for place, prob in zip(known, ndtr(scores[ends - 1] + shifts), strict=True):
        found[place] = _between(float(prob), lines[place].quarters, own[place])
    return found


def _prices(line: UnquotedLine) -> dict[int, float]:
    """Return the price of each quoted line of its kind, in order of lines."""
    quotes = sorted((one for one in line.quotes if one.kind is line.kind), key=_own_first, reverse=True)
    return dict(sorted({one.quarters: one.prob for one in quotes}.items()))


def _probs_by_goals(lines: Sequence[UnquotedLine], wanted: Sequence[Ints], places: Sequence[int]) -> list[Floats]:
    """Return the probabilities of the lines that are wanted for, by a fit of goals for each of some places."""
    if not places:
        return []
    logs = _fitted_goals([lines[place].quotes for place in places])
    sizes = [len(wanted[place]) for place in places]
    row, quarters = np.repeat(np.arange(len(places)), sizes), np.concatenate([wanted[place] for place in places])
    at = _LineIndex.of([[lines[places[number]].kind] for number in row.tolist()], quarters[:, None])
    blocks = (slice(start, start + _TOGETHER) for start in range(0, len(row), _TOGETHER))
    probs = np.concatenate([at.probs(logs[row[block]], at.places[block])[:, 0] for block in blocks])
    return np.split(probs, np.cumsum(sizes)[:-1])


def _between(prob: float, quarters: int, prices: Mapping[int, float]) -> float:
    """Keep a probability between those of the lines on both sides: the harder of two lines is never the likelier."""
    below, beyond = [line for line in prices if line < quarters], [line for line in prices if line > quarters]
    if below and beyond:
        sides = prices[below[-1]], prices[beyond[0]]
        return min(max(prob, min(sides)), max(sides))
    return prob


def hidden(line: LineQuote, quotes: Sequence[LineQuote]) -> list[LineQuote]:
    """Return the quotes without those that price a line."""
    return [quote for quote in quotes if (quote.kind, quote.quarters) != (line.kind, line.quarters)]


def _own_first(quote: LineQuote) -> tuple[bool, str]:
    return quote.is_derived, quote.market_key


def _bps(prob: float) -> int:
    return int(np.floor(_WHOLE_BPS * prob + 0.5))
