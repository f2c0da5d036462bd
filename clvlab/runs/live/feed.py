"""The one live feed of a service: its fixtures, its health, and the runs that follow it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock

import polars as pl

from clvlab.api.answer import FeedHealth
from clvlab.errors import FeedError, NoFeedError
from clvlab.packs.lookup import open_pack
from clvlab.packs.manifest import Fixture
from clvlab.packs.reader import Pack
from clvlab.runs.live import GRACE_S
from clvlab.sources.capture.feed import Feed, Stop
from clvlab.sources.capture.replay import ReplayFeed
from clvlab.sources.providers import SOURCES, FeedSettings, feed_of, feed_settings

NO_FEED = "no live feed is configured: set CLVLAB_FEED and what it needs, and CLVLAB_LIVE_FOLDER"
_REFRESH_S = 10.0


def is_genuine(feed: Feed) -> bool:
    """Return whether runs over a feed are ranked; those over a developer's made-up feed are not."""
    return feed.provenance.startswith("genuine-")


def chosen(fixtures: Sequence[Fixture], fixture_id: int | None, now_ms: int, grace_s: int) -> Fixture:
    """Return a feed's fixture by id, or the next to kick off; ``FeedError`` if it is missing or its run would be over."""
    if fixture_id is None:
        coming = [one for one in fixtures if one.kickoff_ts_ms is None or one.kickoff_ts_ms > now_ms]
        if not coming:
            raise FeedError("the feed has no fixture that is still to kick off: name one, or wait")
        return min(coming, key=lambda one: (one.kickoff_ts_ms is None, one.kickoff_ts_ms or 0, one.fixture_id))
    known = {one.fixture_id: one for one in fixtures}
    if fixture_id not in known:
        listed = ", ".join(str(number) for number in list(known)[:10]) or "none"
        raise FeedError(f"the feed has no fixture {fixture_id}; it has {listed}{', ...' if len(known) > 10 else ''}")
    found = known[fixture_id]
    if found.kickoff_ts_ms is not None and now_ms >= found.kickoff_ts_ms + 1000 * grace_s:
        ago_s = (now_ms - found.kickoff_ts_ms) // 1000
        raise FeedError(f"fixture {fixture_id} kicked off {ago_s:,} s ago: it is followed until {grace_s:,} s after that")
    return found


@dataclass(frozen=True)
class LiveSettings:
    """An operator's settings of live runs. Services with one database share ``folder``, to continue each other's runs.

    ``runs`` is per process. A run is sealed ``grace_s`` after the announced kickoff, if no message says that play began.
    ``speed`` is the speed-up of a made-up feed, and ``None`` for any other.
    """

    new_feed: Callable[[], Feed]
    folder: Path
    runs: int = 8
    grace_s: int = GRACE_S
    speed: float | None = None


@dataclass
class LiveFeed:
    settings: LiveSettings | None
    clock: Callable[[], int]
    _guard: Lock = field(default_factory=Lock, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)
    _feed: Feed | None = field(default=None, init=False)
    _known: tuple[float, Sequence[Fixture]] | None = field(default=None, init=False)
    _followed: dict[object, tuple[Feed, Stop]] = field(default_factory=dict, init=False)
    _ends: bool = field(default=False, init=False)

    def require(self) -> LiveSettings:
        if self.settings is None:
            raise NoFeedError(NO_FEED)
        return self.settings

    def idle_feed(self) -> Feed:
        """Return a feed for questions about fixtures; no run follows it."""
        settings = self.require()
        with self._guard:
            if self._feed is None:
                self._feed = settings.new_feed()
            return self._feed

    def fixtures(self) -> Sequence[Fixture]:
        """Return current and future fixtures by kickoff, at most ten seconds old."""
        feed = self.idle_feed()
        with self._lock:
            if self._known is None or time.monotonic() - self._known[0] > _REFRESH_S:
                self._known = time.monotonic(), feed.fixtures()
            return self._known[1]

    def out_of_quota(self) -> str | None:
        """Return a sentence if the paid quota is used up; ``None`` otherwise, or if it is not counted."""
        left = self.idle_feed().health.quota_left
        return None if left is None or left > 0 else "the paid quota is used up: see the provider's plan"

    def fixture(self, fixture_id: int | None) -> Fixture:
        return chosen(self.fixtures(), fixture_id, self.clock(), self.require().grace_s)

    @contextmanager
    def following(self) -> Iterator[tuple[Feed, Stop]]:
        """Yield the feed of a run and its stop; the feed's health is watched until the context ends."""
        feed, stop, key = self.require().new_feed(), Stop(), object()
        with self._guard:
            self._followed[key] = feed, stop
            if self._ends:
                stop.set()
        try:
            yield feed, stop
        finally:
            with self._guard:
                del self._followed[key]

    def end(self) -> None:
        """Leave all runs of this process as they are, so that another process can continue them."""
        with self._guard:
            self._ends = True
            for _, stop in self._followed.values():
                stop.set()

    def health(self) -> FeedHealth | None:
        """Return the health of the run that has waited longest for data; ``None`` without a feed."""
        if self.settings is None:
            return None
        with self._guard:
            followed = [feed for feed, _ in self._followed.values()]
            idle = [] if self._feed is None else [self._feed]
        worst = min(followed or idle, key=lambda feed: (feed.health.connected, feed.health.data_ts_ms or 0), default=None)
        found = None if worst is None else worst.health
        data_ms = None if found is None else found.data_ts_ms
        return {
            "runs": len(followed),
            "connected": None if found is None or not followed else found.connected,
            "data_age_s": None if data_ms is None else max(0.0, (self.clock() - data_ms) / 1000),
            "quota_left": None if found is None else found.quota_left,
            "clock_skew_ms": None if found is None else found.clock_skew_ms,
            "error": None if found is None else found.error,
        }


# The live feed that the environment names, or a made-up one for a first look.


DEV_MATCH_S = 120
"""Seconds that the longest match of a made-up feed lasts, unless its speed is set."""


def live_settings(
    folder: Path | None, runs: int, grace_s: int, *, dev: bool = False, dev_speed: float | None = None
) -> LiveSettings | None:
    """Return the settings of live runs, ``None`` if no feed is named; ``dev`` replays a synthetic pack as a live feed."""
    settings = feed_settings()
    if not dev and settings.feed is None:
        return None
    if folder is None:
        raise FeedError(
            f"the feed {'for a first look' if dev else settings.feed!r} needs CLVLAB_LIVE_FOLDER, where captures are kept"
        )
    _require_writable(folder)
    settings = _as_of_now(settings)
    new_feed: Callable[[], Feed] = partial(feed_of, settings)
    speed = (dev_speed or _dev_speed(open_pack(settings.replay_pack))) if dev else None
    if speed is not None:
        new_feed = partial(_dev_feed, settings.replay_pack, speed)
    new_feed()  # a missing setting is reported before the start
    return LiveSettings(new_feed, folder, runs, grace_s, speed)


def _require_writable(folder: Path) -> None:
    """Create the folder of live runs now; otherwise a run would fail only long after its start."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            return
    except OSError as error:
        raise FeedError(f"live runs can't be kept in CLVLAB_LIVE_FOLDER {str(folder)!r}: {error.strerror}") from error


def feed_at(feed: Feed | str | None) -> Feed:
    """Return a feed for live runs: by name, by default from the environment, or unchanged if it is a feed."""
    if feed is None or isinstance(feed, str):
        return feed_of(_as_of_now(feed_settings()), feed)
    if not all(hasattr(feed, name) for name in ("fixtures", "health", "listen", "name", "provenance")):
        raise FeedError(f"a feed is named, or is an object that can be listened to, not {feed!r:.80}")
    if feed.name not in SOURCES:
        raise FeedError(f"messages of {feed.name!r:.80} can't be read: a feed is one of {', '.join(SOURCES)}")
    return feed


def _as_of_now(settings: FeedSettings) -> FeedSettings:
    """Shift a replay's times to now unless set otherwise, because nobody can follow a past fixture."""
    return settings if settings.replay_shift is not None else settings.model_copy(update={"replay_shift": True})


def _dev_speed(pack: Pack) -> float:
    """Return the speed at which the longest match of a pack lasts ``DEV_MATCH_S``; a shorter one is played as it was."""
    spans_ms = pack.tape().ticks().group_by("fixture_id").agg(pl.col("ts_ms").max() - pl.col("ts_ms").min()).collect()["ts_ms"]
    return max(1.0, float(round(max(spans_ms, default=0) / 1000 / DEV_MATCH_S)))


def _dev_feed(pack: str, speed: float) -> Feed:
    feed = ReplayFeed(pack=open_pack(pack), speed=speed, shift=True)
    feed.provenance = "synthetic-devfeed"
    return feed
