"""What lies behind every connection to a stand-in of Betfair's stream: the script, how far it is, and whom it refuses."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clvlab.feeds.devfeed.betfair_markets import Images
from clvlab.feeds.devfeed.faults import Plan


@dataclass
class Exchange:
    """A script of ``mcm`` messages that goes by; several threads may ask.

    Attributes
    ----------
    script, plan, app_key, session, published, missed, kept, segment, pace_s
        As of ``BetfairServer``; ``published`` goes on.
    sent
        Every line with market changes that was sent whole.
    finished
        Set once some client has been sent the end of the script.
    closing
        Set when the server ends.
    """

    script: Sequence[Mapping[str, Any]]
    plan: Plan
    app_key: str
    session: str
    published: int
    missed: int
    kept: int
    segment: int
    pace_s: float
    sent: list[bytes] = field(default_factory=list)
    finished: threading.Event = field(default_factory=threading.Event)
    closing: threading.Event = field(default_factory=threading.Event)
    _images: Images = field(default_factory=Images)
    _imaged: int = 0
    _skews: list[tuple[int, int]] = field(default_factory=list)
    _refusing: tuple[str, float] = ("", 0.0)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        changes = (change for message in self.script for change in message.get("mc") or ())
        self._events = {
            change["id"]: str(change["marketDefinition"].get("eventId")) for change in changes if "marketDefinition" in change
        }

    def refuse(self, code: str, seconds: float) -> None:
        """Have connections refused for so long."""
        self._refusing = code, time.monotonic() + seconds

    @property
    def refusal(self) -> str:
        """Why a connection is refused now; empty if it is not."""
        code, until = self._refusing
        return code if time.monotonic() < until else ""

    def publish(self, upto: int) -> None:
        """Let messages lie behind, up to that number."""
        with self._guard:
            self.published = min(max(self.published, upto), len(self.script))

    def skew(self, number: int, seconds: float) -> None:
        """Have the clock be so far ahead from a message on."""
        self._skews.append((number, round(seconds * 1000)))

    def time_ms(self, number: int) -> int:
        """Return the time of a message; of the first one, for none."""
        ahead_ms = sum(ms for since, ms in self._skews if since <= number)
        return (int(self.script[max(number, 0)]["pt"]) if self.script else 0) + ahead_ms

    def image(self) -> tuple[int, list[dict[str, Any]]]:
        """Return how many messages lie behind, and a change for every market that says all of it."""
        with self._guard:
            for message in self.script[self._imaged : self.published]:
                self._images.take(message.get("mc") or ())
            self._imaged = self.published
            return self.published, self._images.changes()

    def message(self, number: int, market_filter: Mapping[str, Any]) -> dict[str, Any]:
        """Return a message of the script, with the changes that a filter takes in."""
        changes = self.wanted(self.script[number].get("mc") or (), market_filter)
        return {"op": "mcm", "pt": self.time_ms(number), "mc": changes}

    def wanted(self, changes: Sequence[Mapping[str, Any]], market_filter: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Return the changes of the markets that a filter takes in, by their ids and those of their events."""
        market_ids, event_ids = market_filter.get("marketIds"), market_filter.get("eventIds")
        return [
            change
            for change in changes
            if (not market_ids or change["id"] in market_ids) and (not event_ids or self._events.get(change["id"]) in event_ids)
        ]
