"""The providers by name: importers of their files, and feeds with readers of their messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, cast

from pydantic import BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from clvlab.errors import FeedError, MissingExtraError
from clvlab.packs.lookup import open_pack
from clvlab.sources import football_data
from clvlab.sources.betfair import history as betfair
from clvlab.sources.betfair import messages as betfair_messages
from clvlab.sources.betfair import runners
from clvlab.sources.capture import replay
from clvlab.sources.capture.feed import Feed
from clvlab.sources.capture.source import Source
from clvlab.sources.clock import MOST_SKEW_S, SKEW_S
from clvlab.sources.kalshi import history as kalshi
from clvlab.sources.kalshi import messages as kalshi_messages
from clvlab.sources.polymarket import history as polymarket
from clvlab.sources.polymarket import messages as polymarket_messages
from clvlab.sources.polymarket import pmxt
from clvlab.sources.scrapers import oddsharvester, oddsportal
from clvlab.sources.source import Options, SourceData
from clvlab.sources.tables import table, trades
from clvlab.sources.the_odds_api import history as the_odds_api
from clvlab.sources.the_odds_api import messages as the_odds_api_messages
from clvlab.sources.txline import history as txline
from clvlab.sources.txline import messages as txline_messages

# Variables ``CLVLAB_*`` select the feed and hold its keys.


def _words(value: Any) -> Any:
    return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value


_Words = Annotated[tuple[str, ...] | None, NoDecode, BeforeValidator(_words)]


class FeedSettings(BaseSettings):
    """Settings of all feeds, each a variable such as ``CLVLAB_TXLINE_JWT``; an unset one has the feed's default.

    Raises
    ------
    pydantic.ValidationError
        A value has the wrong type or is out of bounds.
    """

    model_config = SettingsConfigDict(env_prefix="CLVLAB_", env_ignore_empty=True, extra="ignore", hide_input_in_errors=True)

    feed: str | None = Field(
        default=None, description="`betfair`, `kalshi`, `polymarket`, `replay`, `the-odds-api` or `txline`"
    )
    feed_skew_s: int = Field(
        default=SKEW_S,
        ge=1,
        le=MOST_SKEW_S,
        description="seconds that a message's time may be ahead of its arrival; a later time is refused",
    )

    betfair_app_key: SecretStr | None = Field(default=None, description="key of the application")
    betfair_username: str | None = Field(default=None, description="user of the account; needed without a session token")
    betfair_password: SecretStr | None = Field(default=None, description="its password; needed without a session token")
    betfair_session_token: SecretStr | None = Field(default=None, description="token of a session, instead of a login")
    betfair_login_url: str | None = Field(default=None, description="login URL: https, or http on this machine")
    betfair_market_ids: _Words = Field(default=None, description="markets to follow")
    betfair_event_ids: _Words = Field(default=None, description="events to follow")
    betfair_host: str | None = Field(default=None, description="host of the stream")
    betfair_port: int | None = Field(default=None, ge=1, le=65_535, description="port of the stream")
    betfair_cafile: Path | None = Field(default=None, description="certificates that sign the stream's certificate")

    polymarket_events: _Words = Field(default=None, description="events to follow: slugs or numbers")
    polymarket_url: str | None = Field(default=None, description="URL of the order-book stream")
    polymarket_gamma_url: str | None = Field(default=None, description="URL of the market list")

    kalshi_event_tickers: _Words = Field(default=None, description="events to follow")
    kalshi_tickers: _Words = Field(default=None, description="markets to follow")
    kalshi_url: str | None = Field(default=None, description="URL of the order-book stream")
    kalshi_api_url: str | None = Field(default=None, description="URL of the market list")
    kalshi_key_id: str | None = Field(default=None, description="id of the signing key")
    kalshi_private_key_file: Path | None = Field(default=None, description="PEM file of the signing key")

    the_odds_api_url: str | None = Field(default=None, description="URL of the provider")
    the_odds_api_key: SecretStr | None = Field(default=None, description="API key of the account that pays for requests")
    the_odds_api_sport: str | None = Field(default=None, description="sport, as `soccer_epl`")
    the_odds_api_regions: str | None = Field(default=None, description="book regions, separated by commas; default `eu`")
    the_odds_api_markets: str | None = Field(default=None, description="markets, separated by commas; default `h2h`")
    the_odds_api_interval_s: float | None = Field(default=None, gt=0, description="seconds between polls; default 60")
    the_odds_api_reserve: int | None = Field(default=None, ge=0, description="credits that are never spent; default 0")

    txline_url: str | None = Field(default=None, description="URL of the provider")
    txline_jwt: SecretStr | None = Field(default=None, description="token of the session")
    txline_api_token: SecretStr | None = Field(default=None, description="token of the subscribed bundle")
    txline_proofs: Literal["none", "scored", "all"] | None = Field(
        default=None, description="proofs to keep: `none` (the default), `scored` of a live run, or `all` of a capture"
    )

    replay_pack: str = Field(default="starter", description="name or folder of the pack to play")
    replay_speed: float | None = Field(default=None, gt=0, description="speed-up; default 1")
    replay_shift: bool | None = Field(default=None, description="whether times are moved to now")


def feed_settings() -> FeedSettings:
    """Read the settings from the environment.

    Raises
    ------
    FeedError
        A value is not valid; the message shows no value.
    """
    try:
        return FeedSettings()
    except ValidationError as error:
        wrong = "; ".join(f"{variable_of(str(one['loc'][0]))}: {one['msg']}" for one in error.errors(include_input=False))
        raise FeedError(wrong) from None


def variable_of(setting: str) -> str:
    return f"CLVLAB_{setting.upper()}"


# The feeds by name; each is imported only on request.


@dataclass(frozen=True, slots=True)
class _Entry:
    """How a feed is made, and the settings it needs."""

    module: str
    class_name: str
    needs: tuple[str, ...] = ()


FEEDS: Mapping[str, _Entry] = MappingProxyType(
    {
        "betfair": _Entry("clvlab.sources.betfair.live", "BetfairFeed", ("app_key",)),
        "kalshi": _Entry("clvlab.sources.kalshi.live", "KalshiFeed", ("key_id", "private_key_file")),
        "polymarket": _Entry("clvlab.sources.polymarket.live", "PolymarketFeed", ("events",)),
        "replay": _Entry("clvlab.sources.capture.replay", "ReplayFeed"),
        "the-odds-api": _Entry("clvlab.sources.the_odds_api.live", "TheOddsApiFeed", ("key", "sport")),
        "txline": _Entry("clvlab.sources.txline.live", "TxLineFeed", ("jwt", "api_token")),
    }
)
"""By the name by which a feed is asked for."""


def feed_of(settings: FeedSettings, name: str | None = None) -> Feed:
    """Make the feed ``name``, or that of the settings if ``None``.

    Raises
    ------
    FeedError
        There is no feed of that name, or a setting that it needs is missing or not valid.
    MissingExtraError
        A library that it needs is not installed.
    """
    name = name or settings.feed
    if name is None or name not in FEEDS:
        problem = "no feed is named: set CLVLAB_FEED to" if name is None else f"there is no feed {name!r}: name"
        raise FeedError(f"{problem} one of {', '.join(FEEDS)}")
    entry = FEEDS[name]
    prefix = f"{name.replace('-', '_')}_"
    arguments = {
        field.removeprefix(prefix): value.get_secret_value() if isinstance(value, SecretStr) else value
        for field, value in settings
        if field.startswith(prefix) and value is not None
    }
    missing = [variable_of(prefix + need) for need in entry.needs if not arguments.get(need)]
    if missing:
        raise FeedError(f"the feed {name!r} needs {' and '.join(missing)}")
    if name == "replay":
        arguments["pack"] = open_pack(arguments["pack"])
    feed = cast(Feed, _class_of(entry)(**arguments))
    feed.health.skew_s = settings.feed_skew_s
    return feed


def _class_of(entry: _Entry) -> Any:
    try:
        return getattr(import_module(entry.module), entry.class_name)
    except ModuleNotFoundError as error:
        if error.name == entry.module:
            raise FeedError(f"this version of clvlab has no {entry.module}") from error
        raise MissingExtraError("client", error.name) from error


_Finder = Callable[[Sequence[Path]], Mapping[str, Path]]
Normaliser = Callable[[Mapping[str, Path], Options, Path], SourceData]

# source -> (find its files below the given paths, normalise them with a folder for scratch files)
IMPORTERS: Mapping[str, tuple[_Finder, Normaliser]] = MappingProxyType(
    {
        "betfair": (betfair.find, betfair.normalise),
        "betfair-csv": (runners.find, runners.normalise),
        "csv": (table.find_csv, table.normalise),
        "football-data": (football_data.find, football_data.normalise),
        "kalshi": (kalshi.find, kalshi.normalise),
        "oddsharvester": (oddsharvester.find, oddsharvester.normalise),
        "oddsportal": (oddsportal.find, oddsportal.normalise),
        "parquet": (table.find_parquet, table.normalise),
        "pmxt": (pmxt.find, pmxt.normalise),
        "polymarket": (polymarket.find, polymarket.normalise),
        "the-odds-api": (the_odds_api.find, the_odds_api.normalise),
        "trades": (trades.find, trades.normalise),
        "txline": (txline.find, txline.normalise),
    }
)
SOURCES: Mapping[str, Source] = MappingProxyType(
    {
        module.SOURCE.feed: module.SOURCE
        for module in (betfair_messages, kalshi_messages, polymarket_messages, replay, the_odds_api_messages, txline_messages)
    }
)
"""The feeds whose captures become packs."""
CAPTURES: Mapping[str, Source] = MappingProxyType({source.normaliser: source for source in SOURCES.values()})
"""By the name under which a pack records its normaliser."""
NORMALISERS: Mapping[str, Normaliser] = MappingProxyType(
    {polymarket.NORMALISER: polymarket.normalise, txline.NORMALISER: txline.normalise}
    | {name: source.normalise for name, source in CAPTURES.items()}
)
"""By the name and version under which a pack records its normaliser: those whose packs keep the raw messages."""
