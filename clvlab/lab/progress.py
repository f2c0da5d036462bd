"""Progress in a notebook or a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from clvlab.report.html import Html, card, render
from clvlab.words import counted

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
def progress_bar(what: str, total: int, *, progress: Progress | bool) -> Iterator[Progress]:
    """Yield the callback for the numbers of finished points and of all points: a bar, or the caller's own callback."""
    if callable(progress):
        yield progress
    elif not progress:
        yield _silent
    elif (shell := _notebook()) is not None:
        yield _notebook_bar(shell, what, total)
    elif sys.stderr.isatty():
        with _terminal_bar(what, total) as tell:
            yield tell
    else:
        yield _silent


@contextmanager
def state_display(
    what: str, done: str, *, progress: Callable[[_State], None] | bool, more: Callable[[_State], Html] = lambda _: Html("")
) -> Iterator[Callable[[_State], None]]:
    """Yield the callback for the state of work: a table that changes, or the caller's own callback.

    In a notebook ``more`` adds HTML under the table, and the last table says ``done``, failed or interrupted.
    """
    if callable(progress):
        yield progress
    elif progress and (shell := _notebook()) is not None:
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


def _notebook() -> Any:
    """Return IPython's display module in a kernel, else `None`."""
    kernel = sys.modules.get("ipykernel.kernelapp")
    return sys.modules.get("IPython.display") if kernel is not None and kernel.IPKernelApp.initialized() else None


def _notebook_bar(shell: Any, what: str, total: int) -> Progress:
    handle = shell.display(_bar(what, 0, total), display_id=True)

    def tell(done: int, of: int) -> None:
        handle.update(_bar(what, done, of))

    return tell


@contextmanager
def _notebook_table(shell: Any, what: str, done: str, more: Callable[[_State], Html]) -> Iterator[Callable[[_State], None]]:
    handle = shell.display(_Drawn(f"{what}: begins", card("empty.html", f"{what}: begins")), display_id=True)
    last: list[_State] = []

    def tell(state: _State) -> None:
        last[:] = [state]
        handle.update(
            _Drawn(f"{what}: {state.line}", card("progress.html", what, notes=(), facts=state.facts, more=more(state)))
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
        handle.update(_Drawn(text, card("progress.html", f"{what}: {ended}", notes=notes, facts=facts, more="")))


class _Drawn:
    """HTML and text; a viewer shows either."""

    def __init__(self, text: str, content: str) -> None:
        self._text, self._content = text, content

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return self._content


def _bar(what: str, done: int, total: int) -> _Drawn:
    text = f"{what}: {done:,} of {counted(total, 'point')}"
    return _Drawn(text, render("bar.html", text=text, done=done, total=total))


@contextmanager
def _terminal_bar(what: str, total: int) -> Iterator[Progress]:
    from rich.console import Console  # imported here, because most sessions never draw a bar
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done, of: bar.update(task, completed=done, total=of)
