"""Where a subscription to Betfair's stream is, from where it can be resumed, and how it is lost."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from clvlab.errors import FeedError
from clvlab.feeds.feed import GapCause


class ConnectionLostError(Exception):
    """A connection that ended, or never came to be; trying again may help. The text holds no secret."""

    def __init__(self, said: str, cause: GapCause = GapCause.CUT) -> None:
        super().__init__(said)
        self.cause = cause


class Line(NamedTuple):
    """A line without its end, and when it came."""

    text: bytes
    at_ms: int


def now_ms() -> int:
    """Return the time of this machine, UTC."""
    return time.time_ns() // 1_000_000


@dataclass
class Place:
    """Where a feed is.

    Attributes
    ----------
    initial_clk, clk
        The clocks to resume with; null where there are none.
    missing
        Whether messages are being missed.
    began
        Whether anything was heard of the markets.
    partial
        Whether a message came in segments, of which more are due.
    data_ms, data_s
        When the last message came, by the clock of this machine and by one that never goes back.
    """

    initial_clk: str | None = None
    clk: str | None = None
    missing: bool = False
    began: bool = False
    partial: bool = False
    data_ms: int = field(default_factory=now_ms)
    data_s: float = field(default_factory=time.monotonic)

    @property
    def resumable(self) -> bool:
        return self.initial_clk is not None and self.clk is not None

    @property
    def mark(self) -> str:
        return orjson.dumps({"initialClk": self.initial_clk, "clk": self.clk}).decode()

    def forget(self) -> None:
        """Have no clock to resume with."""
        self.initial_clk = self.clk = None

    def take(self, message: Mapping[str, Any]) -> bool:
        """Take the clocks of a message; tell whether the feed can be resumed right after it."""
        initial_clk, clk = message.get("initialClk"), message.get("clk")
        if isinstance(initial_clk, str):
            self.initial_clk = initial_clk
        if isinstance(clk, str):
            self.clk = clk
        return isinstance(clk, str) and self.resumable


def place_of(mark: str | None) -> Place:
    """Return the place that a mark names.

    Raises
    ------
    FeedError
    """
    if mark is None:
        return Place()
    place = Place(missing=True)
    if not place.take(read_message(mark.encode())):
        raise FeedError(f"{mark[:80]!r} is no mark of Betfair's stream: listen without after")
    return place


def read_message(text: bytes) -> dict[str, Any]:
    """Return a message; an empty one where it is no JSON object, which whoever reads the capture refuses and counts."""
    try:
        message = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return message if isinstance(message, dict) else {}
