"""State of a capture at one moment, for viewers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest
from types import MappingProxyType

from clvlab.sources.capture.feed import Feed
from clvlab.sources.capture.recorder import Segments
from clvlab.sources.capture.records import CaptureRecord
from clvlab.sources.capture.source import Tracker
from clvlab.sources.providers import SOURCES
from clvlab.words import count, counted, nonempty, span, tally, yes

_OLDEST = 10
_LONG_MS = 10_000


@dataclass(frozen=True, slots=True)
class MarketAge:
    fixture_id: int
    market_key: str
    age_s: float


@dataclass(frozen=True, slots=True)
class CaptureState:
    """A capture at one moment; the counts include earlier processes' messages and open gaps.

    ``oldest`` has at most ten open markets, those with the oldest last messages. ``lost_bytes`` counts the bytes that a killed
    process lost. ``is_over`` is true when the segments become a pack.
    """

    messages: int = 0
    messages_per_s: float = 0.0
    refused: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    gaps: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    oldest: tuple[MarketAge, ...] = ()
    quota_left: int | None = None
    clock_skew_ms: int | None = None
    connected: bool = False
    error: str | None = None
    lost_bytes: int = 0
    synced_s: float = 0.0
    segment: int = 1
    is_over: bool = False

    @property
    def outcome(self) -> dict[str, str]:
        """Results so far in words, by name, without empty ones."""
        return nonempty(
            {
                "messages": f"{self.messages:,}",
                "refused": tally(self.refused),
                "gaps": tally(self.gaps),
                "lost by a kill": counted(self.lost_bytes, "byte") if self.lost_bytes else "",
            }
        )

    @property
    def facts(self) -> dict[str, str]:
        """All facts in words, by name, without empty ones."""
        if self.is_over:
            return self.outcome | {"over": "a pack is made of it"}
        return self.outcome | nonempty(
            {
                "messages a second": f"{self.messages_per_s:,.0f}",
                "connected": yes(self.connected),
                "error": self.error or "",
                "quota left": count(self.quota_left) or "",
                "clock skew": "" if self.clock_skew_ms is None else _skew(self.clock_skew_ms),
                "on the disk": f"everything up to {self.synced_s:.1f} s ago, segment {self.segment:,}",
                "silent for longest": "; ".join(
                    f"{span(one.age_s)}: {one.fixture_id} {one.market_key}" for one in self.oldest[:3]
                ),
            }
        )

    @property
    def line(self) -> str:
        parts = [counted(self.messages, "message"), f"{self.messages_per_s:,.0f}/s"]
        parts += [f"{sum(self.refused.values()):,} refused"] if self.refused else []
        parts += [f"gaps: {tally(self.gaps)}"] if self.gaps else []
        parts += [f"{counted(self.lost_bytes, 'byte')} lost by a kill"] if self.lost_bytes else []
        parts += [f"oldest market {span(self.oldest[0].age_s)}"] if self.oldest else []
        if self.is_over:
            return ", ".join([*parts, "over: a pack is made of it"])
        parts += [self.error] if self.error else [] if self.connected else ["not connected"]
        return ", ".join(parts)


def _skew(skew_ms: int) -> str:
    if abs(skew_ms) < _LONG_MS:
        return f"{skew_ms:+,} ms"
    return f"{span(abs(skew_ms) / 1000)} {'ahead' if skew_ms > 0 else 'behind'}"


class Monitor:
    def __init__(self, feed: Feed, segments: Segments, clock: Callable[[], int]) -> None:
        self._feed, self._segments, self._clock = feed, segments, clock
        self._tracker = Tracker(segments.header, SOURCES[feed.name].reader(live=segments.header.live))
        self._open: dict[tuple[int, str], int] = {}  # time of the last message about each open market
        self._before = time.monotonic(), 0

    def take(self, record: CaptureRecord) -> None:
        for message in self._tracker.take(record):
            market = message.fixture_id, message.market_key
            if message.suspended:
                self._open.pop(market, None)
            else:
                self._open[market] = record.at_ms

    def begin(self) -> None:
        self._before = time.monotonic(), self._tracker.messages

    @property
    def state(self) -> CaptureState:
        tracker, health, now = self._tracker, self._feed.health, self._clock()
        (then, counted), at = self._before, time.monotonic()
        self._before = at, tracker.messages
        oldest = nsmallest(_OLDEST, self._open.items(), key=lambda one: (one[1], one[0]))
        return CaptureState(
            messages=tracker.messages,
            messages_per_s=(tracker.messages - counted) / max(at - then, 1e-3),
            refused=dict(tracker.unreadable + tracker.arrival.refused),
            gaps=dict(Counter(str(gap.cause) for gap in tracker.ledger())),
            oldest=tuple(MarketAge(*market, max(0.0, (now - at_ms) / 1000)) for market, at_ms in oldest),
            quota_left=health.quota_left,
            clock_skew_ms=health.clock_skew_ms,
            connected=health.connected,
            error=health.error,
            lost_bytes=self._segments.lost_bytes,
            synced_s=at - self._segments.synced_s,
            segment=self._segments.header.number,
        )
