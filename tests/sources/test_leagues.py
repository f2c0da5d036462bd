"""Leagues that live sources name: kept as they are, and an unusable one stops no capture."""

import json

import pytest

from clvlab.sources.kalshi import messages as kalshi
from clvlab.sources.polymarket import messages as polymarket
from clvlab.sources.txline.messages import fixture_of

UNUSABLE = [None, "", 7, {"name": "EPL"}, "x" * 201]


def kalshi_league(**named):
    event = {"event_ticker": "KXEPLGAME-1", "title": "Ash vs Elm", "markets": [{"ticker": "KXEPLGAME-1-ASH"}], **named}
    return kalshi.event_of({"event": event}).fixture.league


def polymarket_league(**named):
    event = {"id": "7", "slug": "epl-ash-elm", "title": "Ash vs. Elm", "markets": [], **named}
    return polymarket.events_of([event])[0].fixture.league


def test_kalshi_names_the_competition_or_else_the_series():
    assert kalshi_league(product_metadata={"competition": "EPL"}, series_ticker="KXEPLGAME") == "EPL"
    assert kalshi_league(series_ticker="KXEPLGAME") == "KXEPLGAME"
    assert kalshi_league(product_metadata=None) is None


def test_polymarket_names_the_series():
    assert polymarket_league(series=[{"title": "Premier League"}], seriesSlug="epl-2026") == "Premier League"
    assert polymarket_league(series=None, seriesSlug="epl-2026") == "epl-2026"
    assert polymarket_league() is None


@pytest.mark.parametrize("league", UNUSABLE)
def test_an_unusable_name_is_no_league_and_no_error(league):
    raw = {"FixtureId": 1, "Participant1": "Ash", "Participant2": "Elm", "StartTime": 0, "Competition": league}

    assert kalshi_league(product_metadata={"competition": league}) is None
    assert polymarket_league(series=[{"title": league}]) is None
    assert fixture_of(json.dumps(raw)).league is None
    assert fixture_of(json.dumps(raw | {"Competition": "World Cup"})).league == "World Cup"
