"""Trying again what fails for a while: how long a feed waits before, and what is said of it meanwhile."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from clvlab.feeds.feed import Health, Stop


def backoff_s(failures: int, first_s: float, most_s: float) -> float:
    """Return seconds to wait after failures in a row: each time twice as long, up to a limit, less up to a half by chance."""
    return min(most_s, first_s * 2.0 ** min(failures - 1, 60)) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


@dataclass
class Retry:
    """Failures in a row of one connection.

    Attributes
    ----------
    health
        Where they are told.
    first_s, most_s
        The longest first wait, and the longest of all.
    """

    health: Health
    first_s: float
    most_s: float
    _failures: int = field(default=0, init=False)

    def succeeded(self) -> None:
        """Begin again."""
        self._failures = 0

    def failed(self, said: str) -> None:
        """Take note of one more failure."""
        self._failures += 1
        self.health.connected, self.health.retries, self.health.error = False, self._failures, said

    def wait(self, stop: Stop, at_least_s: float = 0.0) -> None:
        """Wait before the next try, as long as the provider asked for at least."""
        stop.wait(max(at_least_s, backoff_s(self._failures, self.first_s, self.most_s)))
