"""The best and the worst decisions of an agent: the fair price of each side from entry to close."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from clvlab.packs.reader import shards_of
from clvlab.report.html import Html
from clvlab.report.svg import BLUE, GREY, RED, line, path, picture, stretch
from clvlab.runs.run import Run
from clvlab.words import percent, plus

EACH = 12
MOST_UPDATES = 1_000_000  # of one fixture; a larger one is not read, and its decisions are drawn by entry and close
_POINTS = 160
_SIDE = ["fixture_id", "market_key", "side"]
_HEIGHT, _MARGIN, _EDGE = 64, 7, 0.03


@dataclass(frozen=True, slots=True)
class Extreme:
    """A scored decision, and the fair probability of its side from entry to close.

    Attributes
    ----------
    row
        The decision, as in ``TearSheet.scored``.
    path
        (milliseconds since 1970, bps of probability): the entry, at most 160 price updates, and the close.
    is_whole
        Whether the price updates between entry and close were read.
    """

    row: Mapping[str, Any]
    path: tuple[tuple[int, int], ...]
    is_whole: bool

    @property
    def reach(self) -> tuple[int, int]:
        """Lowest and highest distance of the path from the entry, in bps."""
        moves = [prob - self.path[0][1] for _, prob in self.path]
        return min(moves), max(moves)


def extremes(run: Run, scored: pl.DataFrame, each: int = EACH) -> tuple[list[Extreme], list[Extreme]]:
    """Return the ``each`` best and the ``each`` worst scored decisions by CLV; all in the first list if there are no more.

    Only the fixtures of these decisions are read, about 262,000 price updates at a time. A fixture with more than a million
    price updates is not read.

    Examples
    --------
    >>> import clvlab as cl
    >>> sheet = cl.backtest("starter", "cumulative-drift").tear_sheet()
    >>> best, worst = extremes(sheet.source, sheet.scored)
    >>> len(best), best[0].row["clv_bps"] == sheet.scored["clv_bps"].max(), worst[0].row["clv_bps"] < 0
    (12, True, True)
    """
    ranked = scored.sort("clv_bps", "seq", descending=[True, False])
    chosen = ranked if ranked.height <= 2 * each else pl.concat([ranked.head(each), ranked.tail(each).reverse()])
    paths = dict(_paths(run, chosen))
    found = [Extreme(row, *_whole(row, paths.get(row["seq"]))) for row in chosen.iter_rows(named=True)]
    return (found, []) if ranked.height <= 2 * each else (found[:each], found[each:])


def _whole(row: Mapping[str, Any], between: list[tuple[int, int]] | None) -> tuple[tuple[tuple[int, int], ...], bool]:
    entry = (int(row["close_ts_ms"] - round(1000 * row["to_close_s"])), int(row["entry_prob_bps"]))
    return (entry, *(between or ()), (int(row["close_ts_ms"]), int(row["close_prob_bps"]))), between is not None


def _paths(run: Run, chosen: pl.DataFrame) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Yield the seq of each decision, and the price updates of its side between entry and close."""
    wanted = {*chosen["fixture_id"]}
    small = [one for one in run.pack.manifest.fixtures if one.fixture_id in wanted and one.rows <= MOST_UPDATES]
    ends = run.evidence.closes.select("fixture_id", "end_seq").unique()
    for shard in shards_of(small):
        ids = [one.fixture_id for one in shard]
        own = chosen.filter(pl.col("fixture_id").is_in(ids)).join(ends, on="fixture_id", how="left", maintain_order="left")
        if own.is_empty():
            continue
        tape = run.pack.tape(ids).at_source(run.window.close_source)
        placed = own.join(tape.series.select(*_SIDE, "start", "rows"), on=_SIDE, how="left", maintain_order="left")
        for row in placed.iter_rows(named=True):
            yield row["seq"], [] if row["start"] is None else _between(tape.rows.slice(row["start"], row["rows"]), row)


def _between(updates: pl.DataFrame, row: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Return time and probability of the open updates after the entry and before the close, the last of each of 160 spans."""
    inside = (pl.col("tick_seq") > row["tick_seq"]) & (pl.col("tick_seq") < row["end_seq"])
    kept = updates.filter(inside, ~pl.col("suspended")).drop_nulls("prob_bps")
    times = kept["ts_ms"].to_numpy()
    span = max(1000 * row["to_close_s"], 1)
    bins = ((times - row["close_ts_ms"]) * (_POINTS - 2) // span).astype(np.int64)
    last = np.append(bins[1:] != bins[:-1], [True]) if bins.size else np.zeros(0, dtype=bool)
    return list(kept.filter(pl.Series(last)).select("ts_ms", "prob_bps").iter_rows())


def decision_line(found: Extreme, within: tuple[int, int]) -> Html:
    """Draw the path of a decision as steps from its entry, with entry (hollow) and close (filled) marked.

    ``within`` are the lowest and the highest distance from the entry that is drawn, in bps: the scale of several pictures.
    """
    least, most = within
    (first, entry), (last, close) = found.path[0], found.path[-1]

    def x(time_ms: int) -> float:
        return _EDGE + (1 - 2 * _EDGE) * ((time_ms - first) / (last - first) if last > first else 1.0)

    def y(prob: int) -> float:
        return round(_HEIGHT - _MARGIN - (_HEIGHT - 2 * _MARGIN) * (prob - entry - least) / max(most - least, 1), 1)

    steps = list(_steps([(x(time_ms), y(prob)) for time_ms, prob in found.path]))
    colour = BLUE if close > entry else RED if close < entry else GREY
    area = path([(steps[0][0], y(entry)), *steps, (steps[-1][0], y(entry))], closed=True)
    label = f"fair probability from {percent(entry)} at the entry to {percent(close)} at the close, {plus(close - entry)} bps"
    return picture(
        label,
        _HEIGHT,
        line(0, y(entry), 1, y(entry), more=' stroke-dasharray="3 2" opacity=".5"'),
        stretch(
            _HEIGHT,
            f'<path d="{area}" fill="{colour}" fill-opacity=".15"/>',
            f'<path d="{path(steps)}" fill="none" stroke="{colour}" stroke-width="1.6" vector-effect="non-scaling-stroke"/>',
        ),
        f'<circle cx="{100 * x(first):.2f}%" cy="{y(entry):g}" r="3.5" fill="none" stroke="currentColor" stroke-width="1.5"/>',
        f'<circle cx="{100 * x(last):.2f}%" cy="{y(close):g}" r="4" fill="{colour}"/>',
    )


def _steps(points: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """A price holds until the next update."""
    yield points[0]
    for (_, before), (at, after) in pairwise(points):
        yield at, before
        yield at, after
