"""Progress in a notebook or a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from clvlab.base.progress import report
from clvlab.report.bars import TextAndHtml, display_progress, notebook
from clvlab.report.html import Html, card

Progress = Callable[[int, int], None]


class ProgressState(Protocol):
    """The state of work without a known end: one line, facts, and the facts that stay at the end."""

    @property
    def line(self) -> str: ...
    @property
    def facts(self) -> Mapping[str, str]: ...
    @property
    def outcome(self) -> Mapping[str, str]: ...


_State = TypeVar("_State", bound=ProgressState)


@contextmanager
def progress_bar(what: str, stage: str, *, progress: Progress | bool) -> Iterator[Progress]:
    """Yield the callback for the numbers of finished and of all parts of a stage: a bar, or the caller's own callback."""
    if callable(progress):
        yield progress
    elif not progress:
        yield _silent
    else:
        with display_progress(what):
            yield lambda done, total: report(stage, done, total)


@contextmanager
def state_display(
    what: str, done: str, *, progress: Callable[[_State], None] | bool, more: Callable[[_State], Html] = lambda _: Html("")
) -> Iterator[Callable[[_State], None]]:
    """Yield the callback for the state of work: a table that changes, or the caller's own callback.

    In a notebook ``more`` adds HTML under the table, and the last table says ``done``, failed or interrupted.
    """
    if callable(progress):
        yield progress
    elif progress and (shell := notebook()) is not None:
        with _notebook_table(shell, what, done, more) as tell:
            yield tell
    elif progress and sys.stderr.isatty():
        from rich.console import Console  # imported here, because most sessions never draw a line
        from rich.markup import escape

        with Console(stderr=True).status(what) as status:
            yield lambda state: status.update(escape(f"{what}: {state.line}"))
    else:
        yield lambda _: None


def _silent(done: int, total: int) -> None:
    """Say nothing."""


@contextmanager
def _notebook_table(shell: Any, what: str, done: str, more: Callable[[_State], Html]) -> Iterator[Callable[[_State], None]]:
    handle = shell.display(TextAndHtml(f"{what}: begins", card("empty.html", f"{what}: begins")), display_id=True)
    last: list[_State] = []

    def tell(state: _State) -> None:
        last[:] = [state]
        handle.update(
            TextAndHtml(f"{what}: {state.line}", card("progress.html", what, notes=(), facts=state.facts, more=more(state)))
        )

    ended, notes = "failed", ()
    try:
        yield tell
        ended = done
    except KeyboardInterrupt as error:
        ended, notes = "interrupted", getattr(error, "__notes__", ())
        raise
    finally:
        facts = last[0].outcome if last else {}
        outcome = ", ".join(f"{name} {text}" for name, text in facts.items())
        text = f"{what}: {ended}" + (f", {outcome}" if outcome else "")
        handle.update(TextAndHtml(text, card("progress.html", f"{what}: {ended}", notes=notes, facts=facts, more="")))
