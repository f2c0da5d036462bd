"""The work at a point, in this process or in another one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import lru_cache, partial

import polars as pl

from clvlab.agents.isolation.isolated import IsolatedAgent
from clvlab.application import backtests
from clvlab.application.executors import Fault, Work, in_order
from clvlab.application.points.search import Params, Search, at_point, spoken
from clvlab.application.sheets.sums import fixture_sums
from clvlab.engine.agent import register
from clvlab.engine.scoring import Scorer
from clvlab.errors import ClvlabError
from clvlab.law.closing import Window
from clvlab.law.tape import Tape
from clvlab.packs.derived.opening import Place, load_place
from clvlab.packs.reader import Pack

Task = tuple[Search, Params]

_MOST_POINTS = 256  # in a task
_SHARDS_AT_ONCE = 2  # as in a run
_KEPT = 1  # tapes that a process keeps: a pack may be large


def point_scores(search: Search, params: Params) -> pl.DataFrame:
    """Return ``SCORES`` with ``at_close`` of the agent at a point.

    Raises
    ------
    ClvlabError
        The agent, the pack or the parameters are at fault; a note names the point.
    """
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
        return scorer.timed_scores(backtests.resolve(agent, params, search.window))


def sums_at(tasks: Iterable[Task]) -> list[pl.DataFrame]:
    """Return ``FIXTURE_SUMS`` of points of searches, without a look at their shards."""
    return [fixture_sums(_timed(search, params)) for search, params in tasks]


def answer_at(tasks: Sequence[Task]) -> list[pl.DataFrame] | Fault:
    """Return what ``sums_at`` returns or raises; what other processes are asked."""
    try:
        return sums_at(tasks)
    except ClvlabError as error:
        return Fault.of(error)


def sums_of_tasks(tasks: Iterable[Task], count: int, executor: Executor | None) -> Iterator[pl.DataFrame]:
    """Yield ``FIXTURE_SUMS`` of each task, in their order; what is yielded does not depend on who computes it.

    Parameters
    ----------
    tasks
        What the points of a search have in common, and the parameters of one. A process keeps the tape of one search, so those
        of each follow each other.
    count
        How many tasks there are.
    executor
        Who computes; see ``in_order``.

    Raises
    ------
    ExecutorError
        A point's process died again and again, or the caller's executor is broken.
    ClvlabError
        The agent, the pack or the parameters are at fault.
    """
    return in_order(Work(sums_at, answer_at, _said, _search_of, _MOST_POINTS, _forget), tasks, count, executor)


def _said(task: Task) -> str:
    return f"at the point {spoken(task[1])}"


def _search_of(task: Task) -> Search:
    return task[0]


def tape_of(search: Search) -> Tape:
    """Return the tape of a search, that of the newest one as it was read."""
    return _scorer_of(search).tape


def _forget() -> None:
    """Let the tape go that this process keeps: others are asked from now on."""
    _scorer.cache_clear()


def _scorer_of(search: Search) -> Scorer:
    return _scorer(search.place, search.content_hash, search.fixture_ids, search.window)


@lru_cache(maxsize=_KEPT)
def _scorer(place: Place, content_hash: str, fixture_ids: tuple[int, ...], window: Window) -> Scorer:
    return Scorer(_pack(place, content_hash).tape(fixture_ids), window)


@lru_cache(maxsize=_KEPT)
def _pack(place: Place, content_hash: str) -> Pack:
    """Open a pack once, however many shards of it are read: its file is hashed whole."""
    return load_place(place, content_hash)
