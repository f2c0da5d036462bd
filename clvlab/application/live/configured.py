"""The live feed that the environment names, or one for a first look."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from clvlab.application.live.feed import LiveSettings
from clvlab.errors import FeedError
from clvlab.feeds.feed import Feed
from clvlab.feeds.registry import feed_of
from clvlab.feeds.replay import ReplayFeed
from clvlab.feeds.settings import FeedSettings, feed_settings
from clvlab.packs.captures.sources import SOURCES
from clvlab.packs.opening import open_pack

_DEV_SPEED = 60.0


def live_settings(folder: Path | None, runs: int, grace_s: int, *, dev: bool = False) -> LiveSettings | None:
    """Return the settings of live runs; null where no feed is named.

    Parameters
    ----------
    folder
        Of captures and journals.
    runs, grace_s
        As ``LiveSettings`` has them.
    dev
        Play a synthetic pack to each run as if it came live, instead of listening to anybody.

    Raises
    ------
    FeedError
        A feed without a folder, or a setting of the feed that is missing or can't be used.
    """
    settings = feed_settings()
    if not dev and settings.feed is None:
        return None
    if folder is None:
        raise FeedError(f"the feed {settings.feed!r} needs CLVLAB_LIVE_FOLDER, where captures are kept")
    if dev:
        speed = settings.replay_speed or _DEV_SPEED
        return LiveSettings(partial(_dev_feed, settings.replay_pack, speed), folder, runs, grace_s)
    settings = _as_of_now(settings)
    feed_of(settings)  # what is missing is known before the start
    return LiveSettings(partial(feed_of, settings), folder, runs, grace_s)


def feed_at(feed: Feed | str | None) -> Feed:
    """Return a feed that a live run can follow: one by its name, that of the environment by default, or as it is.

    Raises
    ------
    FeedError
        There is none of that name, a setting of it is missing, or it is none whose messages can be read.
    MissingExtraError
        A library that it needs is not installed.
    """
    if feed is None or isinstance(feed, str):
        return feed_of(_as_of_now(feed_settings()), feed)
    if not all(hasattr(feed, name) for name in ("fixtures", "health", "listen", "name", "provenance")):
        raise FeedError(f"a feed is named, or is an object that can be listened to, not {feed!r:.80}")
    if feed.name not in SOURCES:
        raise FeedError(f"messages of {feed.name!r:.80} can't be read: a feed is one of {', '.join(SOURCES)}")
    return feed


def _as_of_now(settings: FeedSettings) -> FeedSettings:
    """Have a replay's times be of now unless that is set otherwise: a fixture that was played can't be followed."""
    return settings if settings.replay_shift is not None else settings.model_copy(update={"replay_shift": True})


def _dev_feed(pack: str, speed: float) -> Feed:
    feed = ReplayFeed(pack=open_pack(pack), speed=speed, shift=True)
    feed.provenance = "synthetic-devfeed"
    return feed
