"""A live run where somebody looks at it: in a notebook and in a terminal, nowhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import polars as pl

from clvlab.drawing import html
from clvlab.lab.drawing.progress import Drawn, notebook

_EVERY_S = 0.5
_SHOWN = 5
_COLUMNS = ("agent_id", "tick_seq", "action", "market_key", "side", "prob_bps", "odds_milli", "reason", "clv_bps")


class View(Protocol):
    """A live run so far: in a line, and its decisions in the order in which they came."""

    @property
    def line(self) -> str: ...

    @property
    def frame(self) -> pl.DataFrame: ...

    def decisions(self, since: int = 0) -> pl.DataFrame:
        """Return the frame but for the first so many rows."""
        ...

    @property
    def count(self) -> int: ...


@dataclass(frozen=True)
class RemoteView:
    """A live run elsewhere, of which only a line is known."""

    line: str
    count: int = 0
    frame: pl.DataFrame = field(default_factory=pl.DataFrame)

    def decisions(self, since: int = 0) -> pl.DataFrame:  # noqa: ARG002  there are none
        return self.frame


Look = Callable[[Any], None]


@contextmanager
def watched(what: str, *, progress: Look | bool) -> Iterator[Callable[[View], None]]:
    """Return what is called with a live run as it is: a table that follows it, or the caller's own."""
    if callable(progress):
        yield progress
    elif not progress:
        yield _silent
    elif (shell := notebook()) is not None:
        handle = shell.display(Drawn(what, ""), display_id=True)
        seldom = _Seldom(lambda view: handle.update(_drawn(what, view)))
        yield seldom.look
        seldom.finish()
    elif sys.stderr.isatty():
        from rich.console import Console  # only here: most sessions never draw it

        with Console(stderr=True).status(what) as status:
            yield _Seldom(lambda view: status.update(f"{what}: {view.line}")).look
    else:
        yield _silent


def _silent(view: View) -> None:
    """Say nothing."""


class _Seldom:
    """Draws what has changed, twice a second at most, and how it ended."""

    def __init__(self, draw: Callable[[View], None]) -> None:
        self._draw, self._due, self._shown = draw, 0.0, ""
        self._last: View | None = None

    def look(self, view: View) -> None:
        self._last = view
        if time.monotonic() >= self._due and view.line != self._shown:
            self._due, self._shown = time.monotonic() + _EVERY_S, view.line
            self._draw(view)

    def finish(self) -> None:
        if self._last is not None:
            self._draw(self._last)


def _drawn(what: str, view: View) -> Drawn:
    newest = view.decisions(view.count - _SHOWN).select(pl.col(*_COLUMNS) if view.count else [])
    text = f"{what}: {view.line}"
    table = html.section("Newest decisions", html.table(newest.columns, newest.rows()[::-1])) if newest.height else ""
    return Drawn(text, html.block("", f"<p>{html.escape(text)}</p>", table))
