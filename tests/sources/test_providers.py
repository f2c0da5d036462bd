import subprocess
import sys

import pytest

from clvlab.errors import FeedError, MissingLibraryError
from clvlab.sources.providers import FEEDS, FeedSettings, feed_of, feed_settings


@pytest.fixture
def settings(monkeypatch):
    """Settings of an environment with these variables only."""

    def settings_of(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(f"CLVLAB_{name}", value)
        return feed_settings()

    return settings_of


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("txline", {"TXLINE_JWT": "j", "TXLINE_API_TOKEN": "t", "TXLINE_URL": "http://127.0.0.1:1"}),
        ("the-odds-api", {"THE_ODDS_API_KEY": "k", "THE_ODDS_API_SPORT": "s", "THE_ODDS_API_RESERVE": "5"}),
        ("replay", {"REPLAY_SPEED": "10", "REPLAY_SHIFT": "true"}),
        ("betfair", {"BETFAIR_APP_KEY": "k", "BETFAIR_SESSION_TOKEN": "t"}),
        ("betfair", {"BETFAIR_APP_KEY": "k", "BETFAIR_USERNAME": "u", "BETFAIR_PASSWORD": "p"}),
    ],
)
def test_a_feed_is_made_of_its_settings(settings, name, variables):
    assert feed_of(settings(FEED=name, **variables)).name == name


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        (None, "set CLVLAB_FEED to one of"),
        ("bet365", "no feed 'bet365'"),
        ("txline", "CLVLAB_TXLINE_JWT and CLVLAB_TXLINE_API_TOKEN"),
        ("the-odds-api", "CLVLAB_THE_ODDS_API_KEY and CLVLAB_THE_ODDS_API_SPORT"),
        ("polymarket", "CLVLAB_POLYMARKET_EVENTS"),
        ("betfair", "CLVLAB_BETFAIR_APP_KEY"),
        ("kalshi", "CLVLAB_KALSHI_KEY_ID and CLVLAB_KALSHI_PRIVATE_KEY_FILE"),
    ],
)
def test_a_missing_setting_is_named(settings, name, missing):
    with pytest.raises(FeedError, match=missing):
        feed_of(settings(), name)


def test_a_value_that_can_t_be_used_is_named_and_not_printed(settings):
    with pytest.raises(FeedError, match=r"CLVLAB_BETFAIR_PORT: .*integer") as raised:
        settings(BETFAIR_PORT="hunter2")

    assert "hunter2" not in str(raised.value)


NEEDED = {
    "kalshi": {"KALSHI_KEY_ID": "k", "KALSHI_PRIVATE_KEY_FILE": "/nowhere", "KALSHI_EVENT_TICKERS": "A"},
    "polymarket": {"POLYMARKET_EVENTS": "a"},
    "the-odds-api": {"THE_ODDS_API_KEY": "k", "THE_ODDS_API_SPORT": "s"},
    "txline": {"TXLINE_JWT": "j", "TXLINE_API_TOKEN": "t"},
}
URLS = [
    ("kalshi", "KALSHI_URL", "https://kalshi.example"), ("kalshi", "KALSHI_API_URL", "ws://kalshi.example"),
    ("polymarket", "POLYMARKET_URL", "poly"), ("polymarket", "POLYMARKET_GAMMA_URL", "ftp://127.0.0.1"),
    ("the-odds-api", "THE_ODDS_API_URL", "http://"), ("txline", "TXLINE_URL", "http://txline.example:port"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "variable", "url"), URLS + [(name, variable, "http://[") for name, variable, _ in URLS])
def test_an_address_that_is_none_is_named(settings, name, variable, url):
    with pytest.raises(FeedError, match=f"CLVLAB_{variable} (is no URL|must begin with)"):
        feed_of(settings(**NEEDED[name] | {variable: url}), name)


def test_a_key_id_that_can_t_be_in_a_header_is_named_and_not_printed(settings):
    with pytest.raises(FeedError, match="CLVLAB_KALSHI_KEY_ID must be set") as raised:
        feed_of(settings(**NEEDED["kalshi"] | {"KALSHI_KEY_ID": "hunter2\nX-Other: 1"}), "kalshi")

    assert "hunter2" not in str(raised.value)


def test_a_list_is_written_with_commas_or_spaces(settings):
    assert settings(POLYMARKET_EVENTS="a, b c").polymarket_events == ("a", "b", "c")


def test_settings_show_no_secret():
    assert "hunter2" not in repr(FeedSettings(txline_jwt="hunter2", betfair_password="hunter2", the_odds_api_key="hunter2"))


def test_the_registry_loads_no_feed_of_a_provider():
    code = "import sys, clvlab.sources.providers; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert not {"httpx2", "websockets", *(entry.module for name, entry in FEEDS.items() if name != "replay")} & set(loaded)


def test_a_library_that_no_extra_holds_is_named_by_itself(monkeypatch):
    monkeypatch.setitem(sys.modules, "betfairlightweight", None)
    monkeypatch.delitem(sys.modules, FEEDS["betfair"].module, raising=False)

    with pytest.raises(MissingLibraryError, match="betfairlightweight"):
        feed_of(FeedSettings(betfair_app_key="key"), "betfair")
