"""The feeds by name, each of which is imported only when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any, cast

from pydantic import SecretStr

from clvlab.errors import FeedError, MissingExtraError
from clvlab.feeds.feed import Feed
from clvlab.feeds.settings import FeedSettings, variable_of
from clvlab.packs.opening import open_pack


@dataclass(frozen=True, slots=True)
class _Entry:
    """Where a feed is made, and which settings it can't do without."""

    module: str
    class_name: str
    needs: tuple[str, ...] = ()


FEEDS: Mapping[str, _Entry] = MappingProxyType(
    {
        "betfair": _Entry("clvlab.feeds.betfair", "BetfairFeed", ("app_key",)),
        "kalshi": _Entry("clvlab.feeds.kalshi", "KalshiFeed", ("key_id", "private_key_file")),
        "polymarket": _Entry("clvlab.feeds.polymarket", "PolymarketFeed", ("events",)),
        "replay": _Entry("clvlab.feeds.replay", "ReplayFeed"),
        "the-odds-api": _Entry("clvlab.feeds.the_odds_api", "TheOddsApiFeed", ("key", "sport")),
        "txline": _Entry("clvlab.feeds.txline", "TxLineFeed", ("jwt", "api_token")),
    }
)
"""By the name by which a feed is asked for."""


def feed_of(settings: FeedSettings, name: str | None = None) -> Feed:
    """Make a feed.

    Parameters
    ----------
    settings
        Its keys and options.
    name
        Which one; that of the settings if null.

    Raises
    ------
    FeedError
        None of that name, or a setting that it needs is missing or can't be used.
    MissingExtraError
        A library that it needs is not installed.
    """
    name = name or settings.feed
    if name is None or name not in FEEDS:
        asked = "no feed is named: set CLVLAB_FEED to" if name is None else f"there is no feed {name!r}: name"
        raise FeedError(f"{asked} one of {', '.join(FEEDS)}")
    entry = FEEDS[name]
    prefix = f"{name.replace('-', '_')}_"
    given = {
        field.removeprefix(prefix): value.get_secret_value() if isinstance(value, SecretStr) else value
        for field, value in settings
        if field.startswith(prefix) and value is not None
    }
    missing = [variable_of(prefix + need) for need in entry.needs if not given.get(need)]
    if missing:
        raise FeedError(f"the feed {name!r} needs {' and '.join(missing)}")
    if name == "replay":
        given["pack"] = open_pack(given["pack"])
    feed = cast(Feed, _class_of(entry)(**given))
    feed.health.skew_s = settings.feed_skew_s
    return feed


def _class_of(entry: _Entry) -> Any:
    try:
        return getattr(import_module(entry.module), entry.class_name)
    except ModuleNotFoundError as error:
        if error.name == entry.module:
            raise FeedError(f"this version of clvlab has no {entry.module}") from error
        raise MissingExtraError("client", error.name) from error
