"""Progress of a command: a bar on standard error, only in a terminal."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import typer

from clvlab.cli.options import INTERRUPTED
from clvlab.cli.output import err, plain

if TYPE_CHECKING:  # imported where a command calls it, so that help and completion load no Polars
    from rich.progress import Progress

    from clvlab.runs.progress import OnProgress, Stage

# Ctrl-C ends a command within half a second; a sentence says which files were written.


_PATIENCE_S = 0.3
_NOTHING = "nothing was written"


def nothing_written() -> str:
    """The report of most commands."""
    return _NOTHING


@contextmanager
def interruptible(left: Callable[[], str] = nothing_written) -> Iterator[None]:
    """Exit with status 130 on Ctrl-C, and print ``left()``.

    Python handles an interrupt between two instructions, but one library call may take minutes. So a thread receives the
    interrupt at once, and ends the process if the main thread does not. Files are written under a temporary name and then
    renamed, so an interrupt leaves no partial file.
    """
    if threading.current_thread() is not threading.main_thread() or os.name != "posix":
        with _interruptible(left):
            yield
        return
    heard, bell = os.pipe()
    os.set_blocking(bell, False)
    before = signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(heard, over, left), daemon=True)
    watcher.start()
    try:
        with _interruptible(left):
            yield
    finally:
        over.set()
        signal.set_wakeup_fd(before)
        os.close(bell)  # wakes the watcher
        watcher.join()
        os.close(heard)


@contextmanager
def _interruptible(left: Callable[[], str]) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        _say(left)
        raise typer.Exit(INTERRUPTED) from None


def _watch(heard: int, over: threading.Event, left: Callable[[], str]) -> None:
    while numbers := os.read(heard, 16):
        if signal.SIGINT not in numbers:
            continue
        if not over.wait(_PATIENCE_S):
            _say(left)
            os._exit(INTERRUPTED)
        return


def _say(left: Callable[[], str]) -> None:
    with suppress(OSError):
        sys.stderr.write(f"\ninterrupted: {left()}\n")
        sys.stderr.flush()


OnCount = Callable[[int, int], None]


@contextmanager
def bar(what: str, total: int | None = None) -> Iterator[OnCount]:
    """Show the number of finished parts, the number of all, and the time left; in a pipe nothing is shown."""
    with _drawn() as display:
        task = display.add_task(plain(what), total=total)
        yield lambda done, of: display.update(task, completed=done, total=of)


@contextmanager
def stages(what: str) -> Iterator[OnProgress]:
    """Show the progress of each stage of a run."""
    with _drawn() as display:
        task = display.add_task(plain(what), total=None)

        def progress(stage: Stage, done: int = 0, total: int = 1) -> None:
            display.update(
                task, description=plain(f"{what}: {stage.value}"), completed=done, total=total if total > 1 else None
            )

        yield progress


def _drawn() -> Progress:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )
