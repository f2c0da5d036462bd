"""Waiting for what another thread or process does."""

import time
from collections.abc import Callable
from typing import TypeVar

from clvlab.arena.application import Application

T = TypeVar("T")

PATIENCE_S = 600.0
"""How long what is sure to come is waited for: only what hangs takes so long, on a machine however busy."""


def until(holds: Callable[[], T]) -> T:
    """Wait until something holds, and return what it then is; fail if it does not come to."""
    end = time.monotonic() + PATIENCE_S
    while not (found := holds()):
        assert time.monotonic() < end, "it does not come to hold"
        time.sleep(0.02)
    return found


def settled(application: Application) -> dict[str, int]:
    """Wait until no job is queued or worked on, and return how many ended in which state."""
    until(lambda: (counts := application.jobs.counts())["queued"] == counts["leased"] == 0)
    return application.jobs.counts()
