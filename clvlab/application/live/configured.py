"""The live feed that the environment names, or one for a first look."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from clvlab.application.live.feed import LiveSettings
from clvlab.errors import FeedError
from clvlab.feeds.feed import Feed
from clvlab.feeds.registry import feed_of
from clvlab.feeds.replay import ReplayFeed
from clvlab.feeds.settings import feed_settings
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
    feed_of(settings)  # what is missing is known before the start
    return LiveSettings(partial(feed_of, settings), folder, runs, grace_s)


def _dev_feed(pack: str, speed: float) -> Feed:
    feed = ReplayFeed(pack=open_pack(pack), speed=speed, shift=True)
    feed.provenance = "synthetic-devfeed"
    return feed
