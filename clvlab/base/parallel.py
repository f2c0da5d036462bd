"""Work in this process, on every core of this machine, or by the caller's executor."""

from __future__ import annotations

import atexit
import copyreg
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import dataclass
from functools import cache
from itertools import chain, groupby, islice
from typing import Any, Generic, TypeVar

from clvlab import errors
from clvlab.base.files import ScratchFolder
from clvlab.base.progress import listening, muted
from clvlab.errors import ClvlabError, ExecutorError

_ALONE_S = 1.0  # seconds of work here before other processes are considered
_WORTH_S = 4.0  # seconds of remaining work above which other processes are faster; each takes about one second to start
_TASK_S = 0.25  # seconds of work in one task
_WAITING = 4  # tasks for each worker, sent ahead
_ATTEMPTS = 3  # of a task whose process dies

Q = TypeVar("Q")
A = TypeVar("A")


def _reduced(error: ClvlabError) -> tuple[Callable[..., ClvlabError], tuple[type[ClvlabError], tuple[Any, ...], object]]:
    return _remade, (type(error), error.args, error.__dict__)


def _remade(kind: type[ClvlabError], arguments: tuple[Any, ...], state: Mapping[str, object]) -> ClvlabError:
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(state)
    return error


# Most errors take facts as arguments. Unpickling passes only the sentence as argument, which would break a pool.
for _kind in vars(errors).values():
    if isinstance(_kind, type) and issubclass(_kind, ClvlabError):
        copyreg.pickle(_kind, _reduced)


@dataclass(frozen=True, slots=True)
class Work(Generic[Q, A]):
    """Functions that answer a kind of question: one in this process, and one, defined in a module, in another process.

    At most ``most`` questions with the same ``group_by`` are sent together. ``on_leave`` is called before the first question is
    sent to other processes.
    """

    local: Callable[[Sequence[Q]], list[A]]
    remote: Callable[[Sequence[Q]], list[A]]
    label: Callable[[Q], str]
    group_by: Callable[[Q], object] = lambda question: None  # noqa: ARG005
    most: int = 1
    on_leave: Callable[[], None] = lambda: None


def parallel_map(work: Work[Q, A], questions: Iterable[Q], count: int, executor: Executor | None) -> Iterator[A]:
    """Yield the answers in the order of the questions, from any process. Questions are taken as they are needed.

    Questions of one group must be consecutive. The processes of an ``executor`` must import clvlab and read the pack's folder.
    Without an ``executor`` this process works alone at first. If a few seconds of work remain, ``CLVLAB_WORKERS`` processes
    do it, by default one for each core. ``ExecutorError`` if a question's process died repeatedly.
    """
    left, spent_s, done, several = iter(questions), 0.0, 0, workers() > 1
    for question in left:
        start_s = time.perf_counter()
        with listening(muted):
            answers = work.local((question,))
        spent_s, done = spent_s + time.perf_counter() - start_s, done + 1
        yield from answers
        far = executor is not None or (several and spent_s / done * (count - done) >= _WORTH_S)
        if far and spent_s >= _ALONE_S:
            break
    size = min(max(int(_TASK_S * done / spent_s), 1), work.most) if spent_s else 1
    chunks = _chunks(left, work.group_by, size)
    first = next(chunks, None)
    if first is not None:
        work.on_leave()
        yield from chain.from_iterable(_sent(work, chain([first], chunks), executor))


def _chunks(questions: Iterator[Q], group_by: Callable[[Q], object], size: int) -> Iterator[tuple[Q, ...]]:
    for _, own in groupby(questions, key=group_by):
        while chunk := tuple(islice(own, size)):
            yield chunk


def workers() -> int:
    """Return the number of processes: ``CLVLAB_WORKERS``, or the number of cores that this process may use."""
    text = os.environ.get("CLVLAB_WORKERS", "")
    if text and not (text.isascii() and text.isdigit() and int(text)):
        raise ExecutorError(f"CLVLAB_WORKERS must be a positive whole number, not {text!r}")
    return int(text) if text else len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _sent(work: Work[Q, A], chunks: Iterator[tuple[Q, ...]], executor: Executor | None) -> Iterator[list[A]]:
    """Send tasks ahead, and yield their answers in order. A task is sent again if its process dies."""
    waiting: deque[tuple[tuple[Q, ...], Future[list[A] | ClvlabError]]] = deque()
    pool, attempts, most = executor or _cores(), 1, _WAITING * workers()
    try:
        while True:
            while len(waiting) < most and (chunk := next(chunks, None)):
                waiting.append((chunk, _submit(pool, work, chunk)))
            if not waiting:
                return
            try:
                found = waiting[0][1].result()
            except Exception as error:
                if attempts == _ATTEMPTS or (executor is not None and isinstance(error, BrokenExecutor)):
                    raise ExecutorError(_lost(work, waiting[0][0], error, attempts)) from error
                attempts += 1
                pool = executor or _cores()
                waiting = deque((chunk, _again(pool, work, chunk, future)) for chunk, future in waiting)
                continue
            if isinstance(found, ClvlabError):
                raise found
            attempts = 1
            waiting.popleft()
            yield found
    except (KeyboardInterrupt, GeneratorExit):
        if executor is None:  # this process would wait at its end for what nobody wants any more
            end_workers()
        raise
    finally:
        for _, future in waiting:
            future.cancel()


def _submit(pool: Executor, work: Work[Q, A], chunk: tuple[Q, ...]) -> Future[list[A] | ClvlabError]:
    try:
        return pool.submit(_answered, work.remote, chunk)
    except RuntimeError as error:  # broken, or shut down
        lost: Future[list[A] | ClvlabError] = Future()
        lost.set_exception(error)
        return lost


def _answered(remote: Callable[[Sequence[Q]], list[A]], chunk: tuple[Q, ...]) -> list[A] | ClvlabError:
    """Answer a task in another process. A ``ClvlabError`` is an answer, not a reason to try again."""
    try:
        return remote(chunk)
    except ClvlabError as error:
        return error


def _again(
    pool: Executor, work: Work[Q, A], chunk: tuple[Q, ...], future: Future[list[A] | ClvlabError]
) -> Future[list[A] | ClvlabError]:
    lost = future.cancelled() or (future.done() and future.exception())
    return _submit(pool, work, chunk) if lost else future


def _lost(work: Work[Q, A], chunk: tuple[Q, ...], error: Exception, attempts: int) -> str:
    what = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    last = "" if len(chunk) == 1 else f" and {len(chunk) - 1} more"
    return f"no answer {work.label(chunk[0])}{last} after {attempts} attempts: {what}"


def end_workers() -> None:
    """End the workers of parallel work of this process, whatever they are doing; the next work starts others."""
    from multiprocessing import active_children

    for child in active_children():
        if type(child).__module__.startswith("loky."):
            child.terminate()


def _cores() -> Executor:
    """Return the pool of this process, with one Polars thread for each worker. A new pool replaces a broken one."""
    from loky import get_reusable_executor  # only here: most sessions never leave their process

    env = {"POLARS_MAX_THREADS": "1", "TMPDIR": str(_scratch().path)}
    pool: Executor = get_reusable_executor(max_workers=workers(), env=env, timeout=60)
    return pool


@cache
def _scratch() -> ScratchFolder:
    """Return a folder for temporary files of workers: one that is ended leaves its own."""
    made = ScratchFolder()
    atexit.register(made.close)
    return made
