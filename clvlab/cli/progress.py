"""Progress of a command, and what ends it: a bar on standard error, Ctrl-C, and SIGTERM."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, NoReturn

import typer

from clvlab.base.progress import Watch
from clvlab.cli.options import INTERRUPTED
from clvlab.cli.output import err, out, plain

if TYPE_CHECKING:
    from clvlab.base.progress import Draw

# Ctrl-C and SIGTERM end a command within half a second; a sentence says which files were written.


_PATIENCE_S = 0.3
_TERMINATED = 128 + signal.SIGTERM
_ENDS = {signal.SIGINT: ("interrupted", INTERRUPTED), signal.SIGTERM: ("terminated", _TERMINATED)}


class _Termination(KeyboardInterrupt):
    """SIGTERM, which ends work as Ctrl-C does."""


def nothing_written() -> str:
    """The report of most commands."""
    return "nothing was written"


@contextmanager
def interruptible(left: Callable[[], str] = nothing_written) -> Iterator[None]:
    """Exit with status 130 on Ctrl-C and 143 on SIGTERM, and print ``left()``.

    Python handles a signal between two instructions, but one library call may take minutes. So a thread receives the signal at
    once, and ends the process and its workers if the main thread does not. Files are written under a temporary name and then
    renamed, and those with a temporary name are removed, so no partial file is left.
    """
    if threading.current_thread() is not threading.main_thread() or os.name != "posix":
        with _interruptible(left):
            yield
        return
    heard, bell = os.pipe()
    os.set_blocking(bell, False)
    wakeup, terminating = signal.set_wakeup_fd(bell, warn_on_full_buffer=False), signal.signal(signal.SIGTERM, _terminate)
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(heard, over, left), daemon=True)
    watcher.start()
    try:
        with _interruptible(left):
            yield
    finally:
        over.set()
        signal.signal(signal.SIGTERM, terminating)
        signal.set_wakeup_fd(wakeup)
        os.close(bell)  # wakes the watcher
        watcher.join()
        os.close(heard)


def _terminate(*_: object) -> NoReturn:
    raise _Termination


@contextmanager
def _interruptible(left: Callable[[], str]) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as error:
        how, code = _ENDS[signal.SIGTERM if isinstance(error, _Termination) else signal.SIGINT]
        _say(how, left)
        raise typer.Exit(code) from None


def _watch(heard: int, over: threading.Event, left: Callable[[], str]) -> None:
    while numbers := os.read(heard, 16):
        number = next((number for number in _ENDS if number in numbers), None)
        if number is None:
            continue
        if not over.wait(_PATIENCE_S):
            how, code = _ENDS[number]
            _end_at_once()
            _say(how, left)
            os._exit(code)
        return


def _end_at_once() -> None:
    """End the workers of this process, and remove its unfinished files."""
    from multiprocessing.util import _run_finalizers  # type: ignore[attr-defined]

    from clvlab.base.files import remove_unfinished
    from clvlab.base.parallel import end_workers

    end_workers()
    remove_unfinished()
    _run_finalizers(0)  # else the tracker of resources warns of semaphores of the pool, which it removes


def _say(how: str, left: Callable[[], str]) -> None:
    with suppress(OSError):
        sys.stderr.write(f"\n{how}: {left()}\n")
        sys.stderr.flush()


@contextmanager
def display_progress(what: str, *, as_json: bool = False) -> Iterator[None]:
    """Show the progress of work once it has taken a second: a bar in a terminal.

    If standard output goes elsewhere, each stage is one line of standard error. Without a terminal, or with JSON, it shows
    nothing.
    """
    if as_json or not err.is_terminal:
        yield
        return

    def drawing() -> AbstractContextManager[Draw]:
        from clvlab.report.bars import stage_lines, terminal_bar

        return terminal_bar(err, what) if out.is_terminal else stage_lines(lambda line: err.print(plain(line)), what)

    with Watch(drawing).watching():
        yield
