"""What is asked of a live run on paper: whom, over which feed, and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from clvlab.base.times import iso_moment
from clvlab.engine.agent import Agent
from clvlab.engine.live import live_started
from clvlab.errors import FeedError
from clvlab.feeds.feed import Feed
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.packs.manifest import Fixture
from clvlab.proof.canonical import canonical, sha256
from clvlab.runs.live.spec import GRACE_S, LiveSpec

# When a capture or a live run ends, as somebody says it: at a time, or so many seconds from now.


Until = datetime | float
_MOST_S = 10**11


def until_of(text: str) -> Until:
    """Read a time with its zone, or ``+SECONDS``.

    Raises
    ------
    FeedError
        Neither, or a time without a zone.

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
    """Return a time in UTC milliseconds; null is no bound.

    Raises
    ------
    FeedError
        Neither a time with its zone nor a number of seconds, or one that no calendar holds.
    """
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
    """A live run as somebody asks for it.

    Attributes
    ----------
    feed
        What is followed: a feed, its name, or null for the one that is configured.
    fixture
        A fixture id; null is the next to kick off.
    window, policy
        As of any run.
    until
        When it is sealed at the latest, a time or seconds from its beginning; null without a bound.
    grace_s
        How long after the announced kickoff it is sealed, where no message says that play began.

    Raises
    ------
    FeedError
        A time of grace below zero, or an end that is no time.
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
        """Hash all that is asked, and of whom: by it a run that was interrupted is found again.

        Raises
        ------
        DecisionError, AgentError
            No agent, two of one name, or one that can't be sealed.
        """
        fixture_ids = () if self.fixture is None else (self.fixture,)
        shaped = live_started(fixture_ids, agents, self.window, self.policy, kind="live", origin_id="")
        asked = {"feed": feed.name, "provenance": feed.provenance, "run": shaped["run_id"]}
        return sha256(canonical(asked | {"grace_s": self.grace_s, "until": None if self.until is None else str(self.until)}))

    def spec(self, feed: Feed, agents: Sequence[Agent], origin_id: str, fixture: Fixture, end_ts_ms: int | None) -> LiveSpec:
        """Return what shapes the run that follows this fixture until then; ``origin_id`` makes it the only one."""
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
