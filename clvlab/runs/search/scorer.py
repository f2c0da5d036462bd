"""The work at a point of a search, in this process or in another one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import lru_cache, partial

import polars as pl

from clvlab.agents.isolation.agent import IsolatedAgent
from clvlab.agents.template import Params
from clvlab.base.parallel import Work, parallel_map
from clvlab.engine.agent import Agent, decisions_of, register
from clvlab.engine.replay import confidence_ppm, locate, market_rows
from clvlab.law.closing import Window, fixture_closes, market_closes
from clvlab.law.clv import scores
from clvlab.law.lines import Positions, columns_of
from clvlab.law.positions import SEALED_ORDER, check_prices
from clvlab.law.schema import POSITIONS, Action
from clvlab.law.tape import Tape
from clvlab.packs.reader import Pack
from clvlab.packs.views.view_file import Place, load_place
from clvlab.runs.search.search import Search, at_point, spoken
from clvlab.runs.spec import resolve
from clvlab.statistics.measures import fixture_sums

# Scores without evidence: the law applied to decisions that are not sealed, such as those of a search's points.


_MARKET = ["fixture_id", "market_key"]


class Scorer:
    """A tape and a window, prepared to score one agent after another.

    A replay writes out each state, for evidence to carry, and the law reads the prices back from it. Here they are read from
    the tape itself; the scores are those of the replay (tests/engine/test_scoring.py).
    """

    def __init__(self, tape: Tape, window: Window) -> None:
        own = tape.at_source(window.close_source)
        check_prices(own.rows)
        self.tape, self.window, self._own = tape, window, own
        ends = fixture_closes(tape, window)
        first_sides = own.series.filter(pl.col("side_no") == 0)
        self._closes = market_closes(own, first_sides.select(_MARKET), ends).select(*_MARKET, "close_row")
        self._ends = ends.select("fixture_id", "end_seq", "close_ts_ms", "close_kind")
        self._sides = own.series.select(*_MARKET, "side", "side_no", "rows")

    def scores(self, agent: Agent) -> pl.DataFrame:
        """Return ``SCORES`` of an agent's decisions, with ``at_close``: whether it acted on its market's closing message."""
        return self.timed_scores(agent).drop("ts_ms")

    def timed_scores(self, agent: Agent) -> pl.DataFrame:
        located = locate(self.tape, decisions_of(agent, self.tape)).sort(SEALED_ORDER, nulls_last=False)
        if self._own is not self.tape:
            located = located.with_columns(*market_rows(self._own, located))
        rows, back = self._own.rows, pl.col("action") == Action.BACK
        closing = pl.col("end_seq", "close_ts_ms", "close_kind", "close_row")
        found = (
            located.lazy()
            .join(self._sides.lazy(), on=[*_MARKET, "side"], how="left", maintain_order="left")
            .join(self._closes.lazy(), on=_MARKET, how="left", maintain_order="left")
            .join(self._ends.lazy(), on="fixture_id", how="left", maintain_order="left")
            .with_columns(
                pl.when(back & pl.col("market_key").is_not_null()).then(closing),
                entry_row=pl.when(back).then("market_row"),
                offset=pl.col("side_no") * pl.col("rows"),
            )
            .collect(engine="in-memory")
        )
        entry, close = found["entry_row"], found["close_row"]
        own_entry, own_close = entry + found["offset"], close + found["offset"]
        positions = found.with_columns(
            confidence_ppm=confidence_ppm(),
            seq=pl.int_range(1, pl.len() + 1),
            entry_present=entry.is_not_null(),
            entry_suspended=rows["suspended"].gather(entry),
            entry_prob_bps=rows["prob_bps"].gather(own_entry),
            odds_milli=rows["odds_milli"].gather(own_entry),
            closing_present=close.is_not_null(),
            closing_suspended=rows["suspended"].gather(close),
            close_prob_bps=rows["prob_bps"].gather(own_close),
            closing_ts_ms=rows["ts_ms"].gather(close),
        )
        scored = scores(Positions(**columns_of(positions.select(*POSITIONS))), self.window, self.tape.max_close_age_s)
        return scored.with_columns(found["ts_ms"], at_close=(entry == close).fill_null(value=False))


Task = tuple[Search, Params]

_MOST_POINTS = 256  # in a task
_SHARDS_AT_ONCE = 2  # as in a run
_KEPT = 1  # tapes that a process keeps: a pack may be large


def point_scores(search: Search, params: Params) -> pl.DataFrame:
    """Return ``SCORES`` with ``at_close`` of the agent at a point; a note of an error names the point."""
    parts = search.parts
    with ThreadPoolExecutor(_SHARDS_AT_ONCE if isinstance(search.agent, str) else 1) as pool:
        found = pl.concat(pool.map(partial(_timed, params=params), parts))
    if len(parts) > 1:  # each is in sealed order
        found = found.sort("ts_ms", "fixture_id", "tick_seq", maintain_order=True).with_columns(
            seq=pl.int_range(1, pl.len() + 1)
        )
    return found.drop("ts_ms")


def _timed(search: Search, params: Params) -> pl.DataFrame:
    scorer = _scorer_of(search)
    agent = register(search.agent) if isinstance(search.agent, IsolatedAgent) else search.agent
    with at_point(params):
        return scorer.timed_scores(resolve(agent, params, search.window))


def sums_at(tasks: Iterable[Task]) -> list[pl.DataFrame]:
    return [fixture_sums(_timed(search, params)) for search, params in tasks]


def sums_of_tasks(tasks: Iterable[Task], count: int, executor: Executor | None) -> Iterator[pl.DataFrame]:
    """Yield ``FIXTURE_SUMS`` of each task in order, whichever process computes it.

    A process keeps the tape of one search, so the tasks of each search must be consecutive.
    """
    return parallel_map(Work(sums_at, sums_at, _point_text, _search_of, _MOST_POINTS, _forget), tasks, count, executor)


def _point_text(task: Task) -> str:
    return f"at the point {spoken(task[1])}"


def _search_of(task: Task) -> Search:
    return task[0]


def tape_of(search: Search) -> Tape:
    return _scorer_of(search).tape


def _forget() -> None:
    _scorer.cache_clear()


def _scorer_of(search: Search) -> Scorer:
    return _scorer(search.place, search.content_hash, search.fixture_ids, search.window)


@lru_cache(maxsize=_KEPT)
def _scorer(place: Place, content_hash: str, fixture_ids: tuple[int, ...], window: Window) -> Scorer:
    return Scorer(_pack(place, content_hash).tape(fixture_ids), window)


@lru_cache(maxsize=_KEPT)
def _pack(place: Place, content_hash: str) -> Pack:
    """Open a pack once for all its shards, as its file is hashed whole."""
    return load_place(place, content_hash)
