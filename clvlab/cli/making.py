"""What commands that make runs have in common."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import orjson
import typer

from clvlab.application.live.until import Until, until_of
from clvlab.errors import FeedError

INTERRUPTED = 130
"""Exit status of what Ctrl-C left as it is, as a shell has it."""


def now_ms() -> int:
    """UTC milliseconds."""
    return time.time_ns() // 1_000_000


def params_of(pairs: Sequence[str]) -> dict[str, Any]:
    """Return parameters that were given as ``name=value``, the value as JSON or a plain word."""
    params: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise typer.BadParameter(f"{pair!r} is not name=value")
        if name in params:
            raise typer.BadParameter(f"{name} is given twice")
        params[name] = value_of(value)
    return params


def value_of(text: str) -> Any:
    """Return a value that was given as JSON, or as a plain word."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def end_of(text: str | None) -> Until | None:
    """Return what ``--until`` says: a time with its zone, or ``+SECONDS``."""
    try:
        return None if text is None else until_of(text)
    except FeedError as error:
        raise typer.BadParameter(str(error), param_hint="--until") from error


@contextmanager
def ended_like_an_interrupt() -> Iterator[None]:
    """Have a request to end the process raise what Ctrl-C does, so that it is said what is left."""
    if threading.current_thread() is not threading.main_thread():
        yield  # no other thread is told of signals
        return

    def end(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
