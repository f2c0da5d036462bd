"""Consensus: one price from several books, computed again whenever one of them changes its quote.

Prices are integers here, in millionths of a millionth. The median, its ties and the rounding to basis points are therefore the
same on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from clvlab.errors import OddsError
from clvlab.odds.integers import WHOLE_BPS

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

PROB_UNIT = 10**12
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Consensus:
    """Rules that turn books into one price.

    A market is suspended while fewer than ``min_books`` books are fresh; a book is fresh for ``max_age_s``. A book's weight is
    1 unless ``weights`` names another integer; a weight of 0 leaves the book out.
    """

    min_books: int = 1
    max_age_s: int = 3600
    weights: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.min_books < 1 or self.max_age_s < 0:
            raise OddsError(f"min_books must be at least 1 and max_age_s not negative: {self.min_books}, {self.max_age_s}")
        wrong = {book: weight for book, weight in self.weights.items() if type(weight) is not int or not 0 <= weight <= 10**6}
        if wrong:
            raise OddsError(f"weights must be whole numbers from 0 to 1000000: {wrong}")

    @property
    def label(self) -> str:
        weighted = "".join(f" {book}={weight}" for book, weight in sorted(self.weights.items()))
        return (
            f"{'weighted ' if weighted else ''}median of at least {self.min_books} books at most {self.max_age_s} s old; "
            f"best of their prices{';' if weighted else ''}{weighted}"
        )


@dataclass(frozen=True, slots=True)
class BookMessages:
    """Messages of books about markets with the same number of sides, sorted by (market, ts_ms), at most one per book and time.

    A price's age counts from ``seen_ms``, when the book last confirmed it. ``prob`` and ``odds_milli`` have the shape
    (messages, sides). ``prob`` is in ``PROB_UNIT``, and a negative row withdraws the quote.
    """

    market: Ints
    ts_ms: Ints
    book: Ints
    seen_ms: Ints
    prob: Ints
    odds_milli: Ints


@dataclass(frozen=True, slots=True)
class ConsensusTicks:
    """One row per market and time of a book's message, in the order of the messages.

    ``prob_bps`` and ``odds_milli`` have the shape (ticks, sides) and are -1 where ``suspended``. ``books`` is the number of
    fresh books.
    """

    market: Ints
    ts_ms: Ints
    books: Ints
    suspended: Flags
    prob_bps: Ints
    odds_milli: Ints


def consensus_ticks(messages: BookMessages, weights: Ints, rules: Consensus) -> ConsensusTicks:
    """Return ticks of messages: each side's weighted median over fresh books, scaled to 10000 basis points in total."""
    n = len(messages.market)
    starts = np.ones(n, dtype=np.bool_)
    starts[1:] = (messages.market[1:] != messages.market[:-1]) | (messages.ts_ms[1:] != messages.ts_ms[:-1])
    tick = np.cumsum(starts) - 1
    market, ts_ms = messages.market[starts], messages.ts_ms[starts]
    last = _last_messages(messages, tick, market, len(weights))
    known = np.maximum(last, 0)
    fresh = (
        (last >= 0)
        & (messages.prob[known, 0] >= 0)
        & (ts_ms[:, None] - messages.seen_ms[known] <= rules.max_age_s * 1000)
        & (weights > 0)
    )
    books = fresh.sum(axis=1, dtype=np.int64)
    open_ = books >= rules.min_books
    n_sides = messages.prob.shape[1]
    prob = np.stack([_weighted_median(messages.prob[:, side][known], fresh, weights) for side in range(n_sides)], axis=1)
    best = np.stack([np.where(fresh, messages.odds_milli[:, side][known], -1).max(axis=1) for side in range(n_sides)], axis=1)
    prob_bps = np.full_like(prob, -1)
    prob_bps[open_] = basis_points(prob[open_])
    best[~open_] = -1
    return ConsensusTicks(market, ts_ms, books, ~open_, prob_bps, best)


def _last_messages(messages: BookMessages, tick: Ints, market: Ints, n_books: int) -> Ints:
    """Return, for every tick and book, the number of the book's last message about the market by then; -1 without one."""
    last = np.full((len(market), n_books), -1, dtype=np.int64)
    last[tick, messages.book] = np.arange(len(tick))
    np.maximum.accumulate(last, axis=0, out=last)
    other = messages.market[np.maximum(last, 0)] != market[:, None]
    last[other] = -1
    return last


def _weighted_median(values: Ints, fresh: Flags, weights: Ints) -> Ints:
    """Return the value at half of the weight; if half falls between two values, return their mean, rounded down."""
    order = np.argsort(np.where(fresh, values, _NEVER), axis=1, kind="stable")
    ranked = np.take_along_axis(values, order, axis=1)
    below = np.cumsum(np.take_along_axis(np.where(fresh, weights, 0), order, axis=1), axis=1)
    total = below[:, -1:]
    rows = np.arange(len(values))
    low = ranked[rows, (2 * below >= total).argmax(axis=1)]
    high = ranked[rows, np.where(total[:, 0] > 0, (2 * below > total).argmax(axis=1), 0)]
    median: Ints = (low + high) // 2
    return median


def basis_points(weights: Ints) -> Ints:
    """Return 10000 basis points shared in proportion to the weights of each row: largest remainder, ties to the first column.

    ``weights`` has the shape (rows, sides) and values from 0 to ``PROB_UNIT``. Columns are in byte order of the sides, and
    every row has a positive weight.

    Examples
    --------
    >>> basis_points(np.array([[1, 1, 1]])).tolist()
    [[3334, 3333, 3333]]
    """
    total = weights.sum(axis=1, keepdims=True)
    scaled = weights * WHOLE_BPS
    share, remainder = scaled // total, scaled % total
    missing = WHOLE_BPS - share.sum(axis=1, keepdims=True)
    rank = np.argsort(np.argsort(-remainder, axis=1, kind="stable"), axis=1, kind="stable")
    points: Ints = share + (rank < missing)
    return points
