"""Trying again: how long a feed waits for a provider, what is worth another try, and what is not."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

import httpx2
from websockets.exceptions import WebSocketException

from clvlab.errors import FeedError
from clvlab.feeds.backoff import Backoff
from clvlab.feeds.feed import GapCause, Health, Stop

_HOPELESS = (400, 401, 403, 404, 410)
_T = TypeVar("_T")


class LostError(Exception):
    """A connection is of no use any more; ``cause`` says why, ``wait_s`` how long the provider asks to be left alone."""

    def __init__(self, cause: GapCause, detail: str, wait_s: float = 0.0) -> None:
        super().__init__(detail)
        self.cause = cause
        self.wait_s = wait_s


PASSING = (OSError, WebSocketException, httpx2.HTTPError, LostError)


def now_ms() -> int:
    """Return the time of this machine, UTC."""
    return time.time_ns() // 1_000_000


def refused(status: int, headers: Mapping[str, str], settings: str) -> NoReturn:
    """Raise what a refusal means: another try later, or none.

    Raises
    ------
    FeedError
        Trying again can't help; the message names ``settings``.
    LostError
        It can.
    """
    if status in _HOPELESS:
        raise FeedError(f"the provider refuses with HTTP {status}: check {settings}")
    wait = headers.get("Retry-After", "")
    cause = GapCause.QUOTA if status == 429 else GapCause.CUT
    raise LostError(cause, f"HTTP {status}", float(wait) if wait.isdecimal() else 0.0)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a feed waits, in seconds.

    Attributes
    ----------
    answer_s
        For a connection, and for an answer.
    silence_s
        Without a byte.
    data_s
        Without a message, while heartbeats come.
    first_s, most_s
        Before it connects again: for the first time, and at most. Each time is twice the one before, less up to a half.
    """

    answer_s: float = 10.0
    silence_s: float = 25.0
    data_s: float = 900.0
    first_s: float = 0.5
    most_s: float = 30.0


@dataclass
class Retry:
    """Tries again what fails for a while, and waits longer from time to time."""

    health: Health
    patience: Patience
    failures: int = 0
    _backoff: Backoff = field(init=False)

    def __post_init__(self) -> None:
        self._backoff = Backoff(self.patience.first_s, self.patience.most_s)

    def until_done(self, stop: Stop, attempt: Callable[[], _T]) -> _T | None:
        """Return what an attempt returns, after as many as it takes; null if it is told to stop."""
        while not stop.is_set:
            try:
                return attempt()
            except PASSING as error:
                self.failed(stop, error)
        return None

    def succeeded(self) -> None:
        """Begin anew."""
        self.failures = 0
        self._backoff.reset()

    def failed(self, stop: Stop, error: Exception) -> None:
        """Take note of a failure, and wait."""
        self.failures += 1
        self.health.connected, self.health.retries = False, self.failures
        self.health.error = f"{type(error).__name__}: {error}"[:200]
        stop.wait(self._backoff.wait_s(error.wait_s if isinstance(error, LostError) else 0.0))
