"""Request of a live run on paper: agents, feed, and duration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from clvlab.base.times import iso_moment
from clvlab.engine.agent import Agent
from clvlab.engine.live import live_started
from clvlab.errors import FeedError
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.packs.manifest import Fixture
from clvlab.proof.canonical import canonical, sha256
from clvlab.runs.live import GRACE_S
from clvlab.runs.live.spec import LiveSpec
from clvlab.sources.capture.feed import Feed

# End of a capture or live run as users state it: a time, or seconds from now.


Until = datetime | float
_MOST_S = 10**11


def until_of(text: str) -> Until:
    """Read a time with its zone, or ``+SECONDS``; ``FeedError`` for anything else.

    Examples
    --------
    >>> until_of("+90"), until_of("2026-07-11T19:00Z").isoformat()
    (90.0, '2026-07-11T19:00:00+00:00')
    """
    try:
        until = float(text) if text.startswith("+") else _with_zone(iso_moment(text))
        until_ts_ms(until, 0)
    except ValueError as error:
        raise FeedError(f"{text!r:.80} is neither a time, as 2026-07-11T19:00Z, nor +SECONDS") from error
    return until


def until_ts_ms(until: Until | None, now_ms: int) -> int | None:
    if until is None:
        return None
    if isinstance(until, datetime):
        return round(_with_zone(until).timestamp() * 1000)
    if isinstance(until, int | float) and not isinstance(until, bool) and abs(until) <= _MOST_S:  # a NaN is not
        return now_ms + round(until * 1000)
    raise FeedError(f"until is a datetime with a time zone, or seconds from now, not {until!r:.80}")


def _with_zone(when: datetime) -> datetime:
    if when.tzinfo is None:
        raise FeedError(f"{str(when)!r} has no time zone: write it as 2026-07-11T19:00Z, in Python with a tzinfo")
    return when


@dataclass(frozen=True)
class LiveRequest:
    """A user's request of a live run. ``None`` means the configured feed, the next fixture, and no limit.

    ``until`` is a time or seconds from the start. ``grace_s`` is as in ``LiveSpec``.
    """

    feed: Feed | str | None = None
    fixture: int | None = None
    window: Window = field(default_factory=Window)
    policy: PolicyEnvelope = field(default_factory=PolicyEnvelope)
    until: Until | None = None
    grace_s: int = GRACE_S

    def __post_init__(self) -> None:
        if self.grace_s < 0:
            raise FeedError(f"a run is sealed some seconds after the kickoff, not {self.grace_s} s")
        until_ts_ms(self.until, 0)

    def key(self, feed: Feed, agents: Sequence[Agent]) -> str:
        """Return the hash of the request and its agents; it finds an interrupted run again."""
        fixture_ids = () if self.fixture is None else (self.fixture,)
        shaped = live_started(fixture_ids, agents, self.window, self.policy, kind="live", origin_id="")
        identity = {"feed": feed.name, "provenance": feed.provenance, "run": shaped["run_id"]}
        return sha256(canonical(identity | {"grace_s": self.grace_s, "until": None if self.until is None else str(self.until)}))

    def spec(self, feed: Feed, agents: Sequence[Agent], origin_id: str, fixture: Fixture, end_ts_ms: int | None) -> LiveSpec:
        """Return the specification of the run that follows this fixture; ``origin_id`` makes it unique."""
        return LiveSpec(
            feed=feed,
            fixture=fixture,
            agents=agents,
            origin_id=origin_id,
            window=self.window,
            policy=self.policy,
            grace_s=self.grace_s,
            until_ts_ms=end_ts_ms,
        )
