"""The live feed that the environment names, or one for a first look."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile

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
        A feed without a folder, one in which nothing can be kept, or a setting of the feed that is missing or can't be used.
    """
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
    if dev:
        new_feed = partial(_dev_feed, settings.replay_pack, settings.replay_speed or _DEV_SPEED)
    new_feed()  # what is missing is known before the start
    return LiveSettings(new_feed, folder, runs, grace_s)


def _require_writable(folder: Path) -> None:
    """Make the folder of live runs: each run would fail in it, long after the start, that can't be kept there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            return
    except OSError as error:
        raise FeedError(f"live runs can't be kept in CLVLAB_LIVE_FOLDER {str(folder)!r}: {error.strerror}") from error


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
