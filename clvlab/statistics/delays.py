"""The value of acting now: the CLV that the same positions would have had at a random later price update.

Each decision is moved to a later message of its own series, in the same bin of time to close. All decisions of a fixture move
by the same share of the messages left, so decisions made together stay together. The difference is the cost of waiting. It is
no test of skill: where all favourites shorten, backing them early gains without any knowledge. Its p-value is rough, because
each decision is the earliest of the entries it is compared with: on martingales the test at .05 rejects .10.

References
----------
Phipson and Smyth (2010), "Permutation P-values Should Never Be Zero", Statistical Applications in Genetics and Molecular
Biology 9(1): the p-value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from clvlab.law.tape import Tape
from clvlab.statistics.permutation import PermutationResult

Ints = npt.NDArray[np.int64]

# Edges of the time-to-close bins in seconds; the last bin has no upper edge.
EDGES_S = (0, 300, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 345_600)


@dataclass(frozen=True, slots=True)
class Delay(PermutationResult):
    """The same positions entered later; ``gain`` is the value of acting now.

    Attributes
    ----------
    free
        Number of decisions with a later message in their bin; the others can't be moved.
    """

    free: int


@dataclass(frozen=True, slots=True)
class _Cells:
    """Per decision: the first entry of its cell, the number of these entries, its own entry, and its fixture."""

    first: Ints
    width: Ints
    own: Ints
    fixture: Ints
    prob_bps: npt.NDArray[np.int16]


def delay(
    tape: Tape, scored: pl.DataFrame, ends: pl.DataFrame, *, horizon_s: int = 60, draws: int = 200, seed: int = 0
) -> Delay | None:
    """Score the decisions as if each was made at a random later message; ``None`` without a scored decision.

    Parameters
    ----------
    tape
        Ticks of the decisions.
    scored
        Scored decisions: ``fixture_id, tick_seq, market_key, side, close_prob_bps``.
    ends
        ``end_seq`` and ``close_ts_ms`` of each fixture, as in ``FIXTURE_CLOSES``.
    horizon_s
        Seconds before the close in which decisions are neither scored nor moved.
    draws
        Number of times that all decisions are moved.
    seed
        Seed of the moves.

    Returns
    -------
    Delay or None
        A possible entry is a priced message of the series inside the window. Bins of its time to close have edges ``EDGES_S``.

    Examples
    --------
    >>> import clvlab as cl
    >>> found = cl.backtest("starter", "cumulative-drift").tear_sheet().delay
    >>> found.low < found.mean < found.high
    True
    """
    if scored.is_empty():
        return None
    cells = _cells(tape, scored, ends, horizon_s)
    closes, n = int(scored["close_prob_bps"].sum()), scored.height
    n_fixtures = int(cells.fixture.max()) + 1
    rng = np.random.default_rng(seed)
    # 32 bits halve the memory that is read
    start, width = cells.own.astype(np.int32), (cells.first + cells.width - cells.own).astype(np.int32)
    means = np.empty(draws)
    for draw in range(draws):
        moved = (rng.random(n_fixtures)[cells.fixture] * width).astype(np.int32)
        means[draw] = (closes - int(cells.prob_bps[start + moved].sum(dtype=np.int64))) / n
    observed = (closes - int(cells.prob_bps[cells.own].sum(dtype=np.int64))) / n
    return Delay(observed, n, means, int(np.count_nonzero(width > 1)))


def _cells(tape: Tape, scored: pl.DataFrame, ends: pl.DataFrame, horizon_s: int) -> _Cells:
    numbered = tape.series.with_row_index("series").select("series", "fixture_id", "market_key", "side")
    # in order of the tape, so that searches and draws read memory sequentially
    wanted = (
        scored.join(numbered, on=["fixture_id", "market_key", "side"], how="left")
        .join(ends, on="fixture_id", how="left")
        .sort("series", "tick_seq", maintain_order=True)
    )
    of_decision, close, end_seq, tick_seq = (
        wanted[name].cast(pl.Int64).to_numpy() for name in ("series", "close_ts_ms", "end_seq", "tick_seq")
    )
    # 1. possible entries: every priced message, series by series in order of time
    entries = tape.rows.select("series", "tick_seq", "ts_ms", "prob_bps").filter(pl.col("prob_bps").is_not_null())
    ticks, ts_ms = entries["tick_seq"].to_numpy(), entries["ts_ms"].to_numpy()
    starts = np.searchsorted(entries["series"].to_numpy(), np.arange(numbered.height + 1, dtype=np.uint32))
    begin, stop = starts[of_decision], starts[of_decision + 1]
    # 2. the entry of each decision, which is the last one of its series up to then, and the end of its window
    own = _first_from(ticks, begin, stop, tick_seq + 1) - 1
    window_end = _first_from(ticks, begin, stop, end_seq)
    # 3. its cell: the adjacent entries of that series in the same bin of time to close, up to window and horizon
    edges_ms = np.array(EDGES_S, dtype=np.int64) * 1000
    number = np.searchsorted(edges_ms, close - ts_ms[own], side="right") - 1
    earliest = close - np.append(edges_ms[1:], 0)[number] + 1
    first = np.where(number == len(edges_ms) - 1, begin, _first_from(ts_ms, begin, stop, earliest))
    latest = close - np.maximum(edges_ms[number], horizon_s * 1000)
    last = np.minimum(_first_from(ts_ms, begin, stop, latest + 1), window_end)
    fixture = (wanted["fixture_id"].rank("dense") - 1).cast(pl.Int64).to_numpy()
    return _Cells(first, last - first, own, fixture, entries["prob_bps"].cast(pl.Int16).to_numpy())


def _first_from(values: npt.NDArray[Any], begin: Ints, stop: Ints, wanted: Ints) -> Ints:
    """Return, for each range of ascending values, the place of the first value of at least ``wanted``, or the range's end."""
    low, high = begin.astype(np.int64), stop.astype(np.int64)
    while (open_ := low < high).any():
        middle = (low + high) // 2
        below = open_ & (values[np.minimum(middle, len(values) - 1)] < wanted)
        low, high = np.where(below, middle + 1, low), np.where(open_ & ~below, middle, high)
    return low
