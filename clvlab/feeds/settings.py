"""Which feed is listened to, and with which keys: variables ``CLVLAB_*``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from clvlab.errors import FeedError
from clvlab.packs.captures.clock import MOST_SKEW_S, SKEW_S


def _words(value: Any) -> Any:
    return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value


_Words = Annotated[tuple[str, ...] | None, NoDecode, BeforeValidator(_words)]


class FeedSettings(BaseSettings):
    """Settings of all feeds; each is a variable of its name, as ``CLVLAB_TXLINE_JWT``. What is not set is the feed's default.

    Raises
    ------
    pydantic.ValidationError
        A value of the wrong type or out of bounds.
    """

    model_config = SettingsConfigDict(env_prefix="CLVLAB_", env_ignore_empty=True, extra="ignore", hide_input_in_errors=True)

    feed: str | None = Field(
        default=None, description="`betfair`, `kalshi`, `polymarket`, `replay`, `the-odds-api` or `txline`"
    )
    feed_skew_s: int = Field(
        default=SKEW_S,
        ge=1,
        le=MOST_SKEW_S,
        description="how far, in seconds, a message's time may be beyond its arrival before it is refused",
    )

    betfair_app_key: SecretStr | None = Field(default=None, description="of the application")
    betfair_username: str | None = Field(default=None, description="of the account; needed without a session token")
    betfair_password: SecretStr | None = Field(default=None, description="of the account; needed without a session token")
    betfair_session_token: SecretStr | None = Field(default=None, description="of a session, in place of a login")
    betfair_login_url: str | None = Field(default=None, description="where to log in: https, or http on this machine")
    betfair_market_ids: _Words = Field(default=None, description="what to follow")
    betfair_event_ids: _Words = Field(default=None, description="what to follow")
    betfair_host: str | None = Field(default=None, description="of the stream")
    betfair_port: int | None = Field(default=None, ge=1, le=65_535, description="of the stream")
    betfair_cafile: Path | None = Field(default=None, description="certificates that the stream's is signed by")

    polymarket_events: _Words = Field(default=None, description="what to follow: slugs or numbers")
    polymarket_url: str | None = Field(default=None, description="of the stream of books")
    polymarket_gamma_url: str | None = Field(default=None, description="of the list of markets")

    kalshi_event_tickers: _Words = Field(default=None, description="what to follow")
    kalshi_tickers: _Words = Field(default=None, description="markets to follow")
    kalshi_url: str | None = Field(default=None, description="of the stream of books")
    kalshi_api_url: str | None = Field(default=None, description="of the list of markets")
    kalshi_key_id: str | None = Field(default=None, description="of the key that signs")
    kalshi_private_key_file: Path | None = Field(default=None, description="PEM file of the key that signs")

    the_odds_api_url: str | None = Field(default=None, description="of the provider")
    the_odds_api_key: SecretStr | None = Field(default=None, description="that requests are paid with")
    the_odds_api_sport: str | None = Field(default=None, description="as `soccer_epl`")
    the_odds_api_regions: str | None = Field(default=None, description="of the books, separated by commas; `eu` if not set")
    the_odds_api_markets: str | None = Field(default=None, description="separated by commas; `h2h` if not set")
    the_odds_api_interval_s: float | None = Field(default=None, gt=0, description="from one poll to the next; 60 if not set")
    the_odds_api_reserve: int | None = Field(default=None, ge=0, description="credits that are never spent; none if not set")

    txline_url: str | None = Field(default=None, description="of the provider")
    txline_jwt: SecretStr | None = Field(default=None, description="token of the session")
    txline_api_token: SecretStr | None = Field(default=None, description="of the bundle that was subscribed to")

    replay_pack: str = Field(default="starter", description="name or folder of the pack that is played")
    replay_speed: float | None = Field(default=None, gt=0, description="how much faster than it was; 1 if not set")
    replay_shift: bool | None = Field(default=None, description="whether its times are moved to now")


def feed_settings() -> FeedSettings:
    """Read the environment.

    Raises
    ------
    FeedError
        A value that can't be used; no value is shown.
    """
    try:
        return FeedSettings()
    except ValidationError as error:
        wrong = "; ".join(f"{variable_of(str(one['loc'][0]))}: {one['msg']}" for one in error.errors(include_input=False))
        raise FeedError(wrong) from None


def variable_of(setting: str) -> str:
    """Return the variable of a setting."""
    return f"CLVLAB_{setting.upper()}"
