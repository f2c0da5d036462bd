"""Waiting for what another thread or process does."""

import time
from collections.abc import Callable


def until(holds: Callable[[], object], seconds: float = 30) -> None:
    """Wait until something holds; fail if it does not come to."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it does not come to hold"
        time.sleep(0.02)
