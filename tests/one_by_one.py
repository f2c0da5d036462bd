"""Lines that moved, fitted fixture by fixture in plain loops: what the fits in step are held to, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr, ndtri

from clvlab.law.markets import MarketKind
from clvlab.statistics.moved_lines import LineQuote, Model, hidden

_MOST = 40
_LOG_FACTORIALS = np.append(0.0, np.log(np.arange(1, _MOST + 1)).cumsum())
Cumulated = tuple[int, np.ndarray]


def at_most(found: Cumulated, number: int) -> float:
    first, cumulated = found
    return 0.0 if number < first else float(cumulated[min(number - first, len(cumulated) - 1)])


def above(found: Cumulated, quarters: int) -> float:
    won = lost = 0.0
    for half in (quarters - 1, quarters + 1) if quarters % 2 else (quarters, quarters):
        won += 1 - at_most(found, half // 4)
        lost += at_most(found, -(-half // 4) - 1)
    return won / (won + lost) if won + lost > 0 else 0.5


def of_goals(logs: np.ndarray, kind: MarketKind, quarters: int) -> float:
    listed = [np.exp(np.arange(_MOST + 1) * np.log(mean) - mean - _LOG_FACTORIALS) for mean in map(float, np.exp(logs))]
    first, second = (one / one.sum() for one in listed)
    if kind is MarketKind.HANDICAP:
        return above((-_MOST, np.convolve(first, second[::-1]).cumsum()), -quarters)
    return above((0, np.convolve(first, second).cumsum()), quarters)


def fitted(quotes: Sequence[LineQuote]) -> np.ndarray:
    def errors(logs: np.ndarray) -> np.ndarray:
        apart = [of_goals(logs, quote.kind, quote.quarters) - quote.prob for quote in quotes]
        prior = [logs[0] + logs[1] - 2 * np.log(2.7 / 2), logs[0] - logs[1]]
        return np.array([*apart, *(0.003 * one for one in prior)])

    logs, damping = np.full(2, np.log(2.7 / 2)), 1e-5
    found = errors(logs)
    for _ in range(40):
        slopes = np.column_stack([(errors(logs + 1e-6 * axis) - found) / 1e-6 for axis in np.eye(2)])
        step = np.linalg.solve(slopes.T @ slopes + damping * np.eye(2), -slopes.T @ found)
        moved = np.clip(logs + np.clip(step, -1, 1), np.log(0.02), np.log(12.0))
        after = errors(moved)
        if np.abs(moved - logs).max() < 1e-9:
            break
        if after @ after < found @ found:
            logs, found, damping = moved, after, damping / 10
        else:
            damping *= 10
    return logs


def predicted(kind: MarketKind, quarters: int, quotes: Sequence[LineQuote], *, goals: bool) -> float | None:
    listed = sorted(quotes, key=lambda one: (one.is_derived, one.market_key), reverse=True)
    own = {one.quarters: one.prob for one in listed if one.kind is kind}
    if not own:
        return None
    lines, logs, model = sorted(own), fitted(quotes) if goals else None, None if goals else Model.of_points(quotes)
    probs = [of_goals(logs, kind, line) if model is None else model.prob(kind, line) for line in (*lines, quarters)]
    if None in probs:
        return None
    scores, quoted = (ndtri(np.clip(np.array(one), 1e-4, 1 - 1e-4)) for one in (probs, [own[line] for line in lines]))
    prob = float(ndtr(scores[-1] + np.interp(quarters, lines, quoted - scores[:-1])))
    below, beyond = ([own[line] for line in lines if sign * line < sign * quarters] for sign in (1, -1))
    if below and beyond:
        return min(max(prob, min(below[-1], beyond[0])), max(below[-1], beyond[0]))
    return prob


def priced(
    kind: MarketKind, quarters: int, quotes: Sequence[LineQuote], *, goals: bool
) -> tuple[int, str, float | None] | None:
    """Price in bps, first word of the rule and error."""
    same = sorted(
        (one for one in quotes if (one.kind, one.quarters) == (kind, quarters)),
        key=lambda one: (one.is_derived, one.market_key),
    )
    if same:
        return int(np.floor(1e4 * same[0].prob + 0.5)), "alternate", None
    quoted = [one for one in quotes if one.kind is kind and not one.is_derived]
    prob = predicted(kind, quarters, quotes, goals=goals) if quoted else None
    if prob is None:
        return None
    off = []
    for one in quoted:
        rest = hidden(one, quotes)
        if any(other.kind is kind and not other.is_derived for other in rest):
            found = predicted(kind, one.quarters, rest, goals=goals)
            off += [] if found is None else [found - one.prob]
    return int(np.floor(1e4 * prob + 0.5)), "fitted", 1e4 * float(np.sqrt(np.mean(np.square(off)))) if off else None
