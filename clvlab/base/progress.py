"""Progress of long work: the code that does it reports its stage, and a face that listens shows it.

A report costs a look at one variable. Nothing is drawn in the first second, so quick work looks as if nothing watched it. Then
a second thread draws the newest report a few times a second; the work itself only stores it.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from threading import Event, Thread
from typing import Protocol, TypeVar

from clvlab.errors import SettingsError

T = TypeVar("T")
_AFTER_S = 1.0
_EVERY_S = 0.25
_PACE_S = 0.1


class OnReport(Protocol):
    """Take a report: ``done`` of ``total`` parts of a stage, 0 of 0 where the number of parts is unknown."""

    def __call__(self, stage: str, done: int = 0, total: int = 0) -> None: ...


_LISTENER: ContextVar[OnReport | None] = ContextVar("listener", default=None)


def report(stage: str, done: int = 0, total: int = 0) -> None:
    """Report progress to the face that listens, if any. An error of the listener, such as a cancellation, ends the work."""
    if (listener := _LISTENER.get()) is not None:
        listener(stage, done, total)


def each(stage: str, parts: Iterable[T], total: int = 0) -> Iterator[T]:
    """Yield parts, and report how many are finished."""
    done = 0
    report(stage, done, total)
    for part in parts:
        yield part
        done += 1
        report(stage, done, total)


def muted(stage: str, done: int = 0, total: int = 0) -> None:
    """Ignore a report on a part of work that is reported as a whole."""


def is_heard() -> bool:
    """Return whether a face listens in this context."""
    return _LISTENER.get() is not None


@contextmanager
def listening(listener: OnReport) -> Iterator[None]:
    """Pass the reports of this context to a listener. Threads get them only if they run in a copy of the context."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


class ReportClock:
    """Whether it is time to report from a loop, about ten times a second whatever a turn takes."""

    def __init__(self) -> None:
        self._due = -math.inf

    def __call__(self) -> bool:
        if (now := time.monotonic()) < self._due:
            return False
        self._due = now + _PACE_S
        return True


@dataclass(frozen=True, slots=True)
class WorkState:
    """The newest report: seconds since the work began, and those left in its stage, ``None`` where nobody can tell."""

    stage: str
    done: int
    total: int
    elapsed_s: float
    left_s: float | None


Draw = Callable[[WorkState], None]


class Watch:
    """The newest report of some work, drawn by a thread of its own once the work has taken a while.

    ``drawing`` is entered by that thread before the first picture, and left after the last one.
    """

    def __init__(self, drawing: Callable[[], AbstractContextManager[Draw]], after_s: float | None = None) -> None:
        self._drawing = drawing
        self._after_s = patience_s() if after_s is None else after_s
        self._now: tuple[str, int, int] = ("", 0, 0)
        self._over = Event()
        self._start = self._stage_start = time.monotonic()
        self._stage, self._stage_done = "", 0

    def __call__(self, stage: str, done: int = 0, total: int = 0) -> None:
        self._now = (stage, done, total)

    @property
    def state(self) -> WorkState:
        """The newest report. The time left is that of the stage, at the speed since its first picture."""
        (stage, done, total), now = self._now, time.monotonic()
        if stage != self._stage or done < self._stage_done:
            self._stage, self._stage_done, self._stage_start = stage, done, now
        took, moved = now - self._stage_start, done - self._stage_done
        left = took * (total - done) / moved if total and moved > 0 and took >= _AFTER_S else None
        return WorkState(stage, done, total, now - self._start, left)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Listen to reports and draw them, until the context ends."""
        if math.isinf(self._after_s):
            yield
            return
        # A notebook knows by the context which cell the work belongs to.
        thread = Thread(target=copy_context().run, args=(self._draw,), name="clvlab-progress", daemon=True)
        try:
            thread.start()  # waits for the thread, and may be interrupted there
            with listening(self):
                yield
        finally:
            self._over.set()
            if thread.is_alive():
                thread.join()

    def _draw(self) -> None:
        if self._over.wait(self._after_s):
            return
        with self._drawing() as draw:
            while True:
                draw(self.state)
                if self._over.wait(_EVERY_S):
                    return


def patience_s() -> float:
    """Return the seconds before progress is shown: ``CLVLAB_PROGRESS_AFTER_S``, by default 1; ``inf`` shows none."""
    text = os.environ.get("CLVLAB_PROGRESS_AFTER_S", "")
    try:
        after_s = float(text) if text else _AFTER_S
    except ValueError:
        after_s = -1.0
    if not after_s >= 0:
        raise SettingsError(f"CLVLAB_PROGRESS_AFTER_S is a number of seconds, or inf for no progress, not {text!r:.80}")
    return after_s
