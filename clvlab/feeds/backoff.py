"""How long to wait before the next try."""

from __future__ import annotations

import random
from dataclasses import dataclass, field


@dataclass
class Backoff:
    """Waits that double from one failure to the next, up to a limit, and differ from one machine to another.

    Attributes
    ----------
    first_s, most_s
        The longest first wait, and the longest of all.
    """

    first_s: float = 0.5
    most_s: float = 30.0
    _failures: int = field(default=0, init=False)

    def wait_s(self, at_least: float = 0.0) -> float:
        """Return seconds to wait after one more failure; ``at_least`` is what the provider asked for."""
        longest = min(self.most_s, self.first_s * 2.0**self._failures)
        self._failures = min(self._failures + 1, 60)
        return max(at_least, longest * random.uniform(0.5, 1.0))  # noqa: S311 - no secret

    def reset(self) -> None:
        """Begin anew, after a success."""
        self._failures = 0
