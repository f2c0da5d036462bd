"""Bars of progress: a line that changes, in a notebook or a terminal; or one line for each stage where no bar can be drawn."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from clvlab.base.names import printable
from clvlab.base.progress import Draw, Watch, WorkState, is_heard
from clvlab.report.html import render
from clvlab.words import share, span

if TYPE_CHECKING:
    from rich.console import Console

_MOST_COUNTED = 1_000_000
_WIDTH = 24


def display_progress(what: str) -> AbstractContextManager[None]:
    """Show progress in a notebook or a terminal once work has taken a second; part of other work shows none itself."""
    shell = notebook()
    if (shell is None and not (sys.stdout.isatty() and sys.stderr.isatty())) or is_heard():
        return nullcontext()
    return _display_progress(what, shell)


@contextmanager
def _display_progress(what: str, shell: Any) -> Iterator[None]:
    ended = "failed"

    def drawing() -> AbstractContextManager[Draw]:
        if shell is not None:
            return notebook_bar(shell.display, what, lambda: ended)

        from rich.console import Console  # imported here: most sessions never draw a bar

        return terminal_bar(Console(stderr=True), what)

    with Watch(drawing).watching():
        try:
            yield
            ended = "finished"
        except KeyboardInterrupt:
            ended = "interrupted"
            raise


def notebook() -> Any:
    """Return IPython's display module in a kernel, else ``None``."""
    kernel = sys.modules.get("ipykernel.kernelapp")
    return sys.modules.get("IPython.display") if kernel is not None and kernel.IPKernelApp.initialized() else None


def words_of(state: WorkState) -> str:
    """Return stage, share done and time left in words.

    Counts of a million or more are bytes or rows, which the share says better.

    Examples
    --------
    >>> words_of(WorkState("reading files", 3, 12, 9.0, 27.3))
    'reading files, 3 of 12 (25.0%), about 27 s left'
    >>> words_of(WorkState("hashing ticks.parquet", 3 << 28, 1 << 30, 2.0, None))
    'hashing ticks.parquet, 75.0%, 2 s so far'
    """
    part = share(state.done / state.total) if state.total else ""
    if state.total and state.total < _MOST_COUNTED:
        part = f"{state.done:,} of {state.total:,} ({part})"
    elif state.done and not state.total:
        part = f"{state.done:,}"
    when = f"{span(state.elapsed_s)} so far" if state.left_s is None else f"about {span(state.left_s)} left"
    return ", ".join(printable(text) for text in (state.stage, part, when) if text)


class TextAndHtml:
    """HTML and text; a viewer shows either."""

    def __init__(self, text: str, content: str) -> None:
        self._text, self._content = text, content

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return self._content


@contextmanager
def notebook_bar(display: Callable[..., Any], what: str, ended: Callable[[], str]) -> Iterator[Draw]:
    """Show a bar under a cell. ``display`` is IPython's; ``ended`` says how the work ended, for the line that stays."""

    def view(text: str, state: WorkState | None) -> TextAndHtml:
        return TextAndHtml(text, render("bar.html", text=text, state=state))

    handle = display(view(what, None), display_id=True)
    last: list[WorkState] = []

    def draw(state: WorkState) -> None:
        last[:] = [state]
        handle.update(view(f"{what}: {words_of(state)}", state))

    try:
        yield draw
    finally:
        took = f" after {span(last[0].elapsed_s)}" if last else ""
        handle.update(view(f"{what}: {ended()}{took}", None))


@contextmanager
def terminal_bar(console: Console, what: str) -> Iterator[Draw]:
    """Show a bar in the last line of a terminal, and clear it at the end."""
    from rich.live import Live  # imported here: most sessions never draw a bar
    from rich.text import Text

    def line(text: str) -> Text:
        return Text(text, no_wrap=True, overflow="ellipsis")

    with Live(line(what), console=console, transient=True, auto_refresh=False) as live:

        def draw(state: WorkState) -> None:
            full = _WIDTH * min(state.done, state.total) // state.total if state.total else 0
            bar = f"{'━' * full}{'╌' * (_WIDTH - full)} " if state.total else ""
            live.update(line(f"{bar}{printable(what)}: {words_of(state)}"), refresh=True)

        yield draw


@contextmanager
def stage_lines(write: Callable[[str], object], what: str) -> Iterator[Draw]:
    """Write one line for each stage that takes long enough to be seen."""
    written = set[str]()

    def draw(state: WorkState) -> None:
        if state.stage and state.stage not in written:
            written.add(state.stage)
            write(f"{printable(what)}: {printable(state.stage)}")

    yield draw
