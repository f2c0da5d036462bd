"""Where points are scored: in this process, on every core of this machine, or by an executor of the caller's."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from itertools import chain, groupby, islice
from operator import itemgetter

import polars as pl

from clvlab.application.points.scoring import Fault, answer_at, forget, sums_at
from clvlab.application.points.search import Params, Search, spoken
from clvlab.errors import ExecutorError

_ALONE_S = 1.0  # how long points are scored here before other processes are thought of
_WORTH_S = 4.0  # work that is left, from which they are faster: starting them takes about a second each
_TASK_S = 0.25  # work that is sent at once
_MOST_POINTS = 256  # in a task
_WAITING = 4  # tasks a worker, sent ahead
_ATTEMPTS = 3  # of a task whose process dies

Task = tuple[Search, Params]
Chunk = tuple[Task, ...]
Answer = Future[list[pl.DataFrame] | Fault]


def sums_of_tasks(tasks: Iterable[Task], count: int, executor: Executor | None) -> Iterator[pl.DataFrame]:
    """Yield ``FIXTURE_SUMS`` of each task, in their order.

    Tasks are taken from the iterable as they are needed, and what is yielded does not depend on who computes it.

    Parameters
    ----------
    tasks
        What the points of a search have in common, and the parameters of one. A process keeps the tape of one search, so those
        of each follow each other.
    count
        How many tasks there are.
    executor
        Any executor, whose processes can import clvlab and read the pack's folder; by default this process, and, once a few
        seconds of work are left, all cores of this machine (``CLVLAB_WORKERS`` processes).

    Raises
    ------
    ExecutorError
        A point's process died again and again, or the caller's executor is broken.
    ClvlabError
        The agent, the pack or the parameters are at fault.
    """
    left, spent_s, done, several = iter(tasks), 0.0, 0, workers() > 1
    for task in left:
        begun = time.perf_counter()
        sums = sums_at((task,))
        spent_s, done = spent_s + time.perf_counter() - begun, done + 1
        yield from sums
        far = executor is not None or (several and spent_s / done * (count - done) >= _WORTH_S)
        if far and spent_s >= _ALONE_S:
            break
    size = min(max(int(_TASK_S * done / spent_s), 1), _MOST_POINTS) if spent_s else 1
    chunks = _chunks(left, size)
    first = next(chunks, None)
    if first is not None:
        forget()
        yield from chain.from_iterable(_sent(chain([first], chunks), executor))


def _chunks(tasks: Iterator[Task], size: int) -> Iterator[Chunk]:
    """Cut tasks into chunks, each of one search."""
    for _, own in groupby(tasks, key=itemgetter(0)):
        while chunk := tuple(islice(own, size)):
            yield chunk


def workers() -> int:
    """Return how many processes are used: ``CLVLAB_WORKERS``, or as many as this process may use cores.

    Raises
    ------
    ExecutorError
    """
    text = os.environ.get("CLVLAB_WORKERS", "")
    if text and not (text.isascii() and text.isdigit() and int(text)):
        raise ExecutorError(f"CLVLAB_WORKERS must be a positive whole number, not {text!r}")
    return int(text) if text else len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _sent(chunks: Iterator[Chunk], executor: Executor | None) -> Iterator[list[pl.DataFrame]]:
    """Send tasks ahead, and yield their answers in order; one whose process dies is sent again."""
    waiting: deque[tuple[Chunk, Answer]] = deque()
    pool, attempts, most = executor or _cores(), 1, _WAITING * workers()
    try:
        while True:
            while len(waiting) < most and (chunk := next(chunks, None)):
                waiting.append((chunk, _asked(pool, chunk)))
            if not waiting:
                return
            try:
                found = waiting[0][1].result()
            except Exception as error:
                if attempts == _ATTEMPTS or (executor is not None and isinstance(error, BrokenExecutor)):
                    raise ExecutorError(_lost(waiting[0][0], error, attempts)) from error
                attempts += 1
                pool = executor or _cores()
                waiting = deque((chunk, _again(pool, chunk, future)) for chunk, future in waiting)
                continue
            if isinstance(found, Fault):
                raise found.error
            attempts = 1
            waiting.popleft()
            yield found
    finally:
        for _, future in waiting:
            future.cancel()


def _asked(pool: Executor, chunk: Chunk) -> Answer:
    """Send a task; one that can't be sent is lost, as one whose process died."""
    try:
        return pool.submit(answer_at, chunk)
    except RuntimeError as error:  # broken, or shut down
        lost: Answer = Future()
        lost.set_exception(error)
        return lost


def _again(pool: Executor, chunk: Chunk, future: Answer) -> Answer:
    """Send a task again whose process died; one that is done or under way is let be."""
    lost = future.cancelled() or (future.done() and future.exception())
    return _asked(pool, chunk) if lost else future


def _lost(chunk: Chunk, error: Exception, attempts: int) -> str:
    what = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    last = "" if len(chunk) == 1 else f" and {len(chunk) - 1} more"
    return f"no answer at the point {spoken(chunk[0][1])}{last} after {attempts} attempts: {what}"


def _cores() -> Executor:
    """Return the pool of this process, with one Polars thread a worker; a new one where the last one broke."""
    from loky import get_reusable_executor  # only here: most sessions never leave their process

    pool: Executor = get_reusable_executor(max_workers=workers(), env={"POLARS_MAX_THREADS": "1"}, timeout=60)
    return pool
