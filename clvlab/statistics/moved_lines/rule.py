"""The rule for a line that is not quoted at the close: the same line elsewhere, or what the other lines make of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clvlab.law.markets import Kind
from clvlab.statistics.clusters import Floats
from clvlab.statistics.moved_lines.distribution import Model
from clvlab.statistics.moved_lines.markets import Quote

VERSION = "moved-lines/2"
_WHOLE_BPS = 10_000
_SURE = 1e-4


@dataclass(frozen=True, slots=True)
class MovedClose:
    """What a line would close at.

    Attributes
    ----------
    prob_bps
        Of home or over, rounded half up.
    rule
        ``alternate`` with the market that has the line, or ``fitted`` with the model; and the version.
    error_bps
        Of a fit, root mean square of its errors at the other lines of its kind, each hidden in turn; null with fewer than two.
    """

    prob_bps: int
    rule: str
    error_bps: float | None


def moved_close(kind: Kind, quarters: int, quotes: Sequence[Quote], *, goals: bool) -> MovedClose | None:
    """Price a line by what its fixture quotes for the same period at the close.

    Parameters
    ----------
    kind, quarters
        Handicap or total, and the line times four.
    quotes
        What is quoted: not the market that is to be priced.
    goals
        Whether goals are counted.

    Returns
    -------
    MovedClose | None
        Null where no other line of its kind is quoted, nor the same line elsewhere.

    Examples
    --------
    >>> lines = [Quote(Kind.TOTAL, quarters, prob, "") for quarters, prob in ((10, 0.55), (12, 0.45))]
    >>> moved_close(Kind.TOTAL, 11, lines, goals=True).prob_bps
    5079
    """
    same = sorted((quote for quote in quotes if (quote.kind, quote.quarters) == (kind, quarters)), key=_own_first)
    if same:
        return MovedClose(_bps(same[0].prob), f"alternate {same[0].market_key}, {VERSION}", None)
    if all(quote.kind is not kind or quote.is_derived for quote in quotes):
        return None  # the market has closed, and not the line moved
    prob = predicted(kind, quarters, quotes, goals=goals)
    if prob is None:
        return None
    missed = [found - quote.prob for quote, found in leave_one_out(kind, quotes, goals=goals)]
    error = _WHOLE_BPS * float(np.sqrt(np.mean(np.square(missed)))) if missed else None
    return MovedClose(_bps(prob), f"fitted {'goals' if goals else 'points'}, {VERSION}", error)


def leave_one_out(kind: Kind, quotes: Sequence[Quote], *, goals: bool) -> list[tuple[Quote, float]]:
    """Return each line of a kind that has others beside it, and what they make of it.

    All that prices the same line is hidden with it.
    """
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


def predicted(kind: Kind, quarters: int, quotes: Sequence[Quote], *, goals: bool) -> float | None:
    """Return what a model makes of a line, moved as the lines beside it are off the model, and never past them.

    How far off is told in standard scores, in proportion between two lines and as at the last one beyond.
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
    """Keep a probability between those of the lines on both sides: a line that asks for more is never likelier."""
    below, beyond = probs[lines < quarters], probs[lines > quarters]
    sides = [float(side) for side in (*below[-1:], *beyond[:1])]
    if len(sides) == 2:
        return min(max(prob, min(sides)), max(sides))
    return prob


def hidden(line: Quote, quotes: Sequence[Quote]) -> list[Quote]:
    """Return the quotes without what prices a line."""
    return [quote for quote in quotes if (quote.kind, quote.quarters) != (line.kind, line.quarters)]


def _own_first(quote: Quote) -> tuple[bool, str]:
    return quote.is_derived, quote.market_key


def _bps(prob: float) -> int:
    return int(np.floor(_WHOLE_BPS * prob + 0.5))
