from datetime import UTC, datetime

import orjson
import pytest

from clvlab.sources.source import fixture_id_of
from clvlab.sources.the_odds_api.messages import TheOddsApiReader

SECONDS = 1_000
NOON = 1_767_355_200_000  # 2026-01-02 12:00 UTC


def at(ts_ms):
    return datetime.fromtimestamp(ts_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def book(key, ts_ms, *, h2h=(2.0, 3.5, 4.0), totals=None):
    markets = []
    if h2h:
        names = ("Home", "Draw", "Away")
        outcomes = [{"name": name, "price": price} for name, price in zip(names, h2h, strict=False)]
        markets.append({"key": "h2h", "last_update": at(ts_ms), "outcomes": outcomes})
    if totals:
        outcomes = [{"name": name, "price": price, "point": 2.5} for name, price in zip(("Over", "Under"), totals, strict=True)]
        markets.append({"key": "totals", "last_update": at(ts_ms), "outcomes": outcomes})
    return {"key": key, "title": key, "last_update": at(ts_ms), "markets": markets}


def event(*books, event_id="e1", kickoff=NOON + 7200 * SECONDS, **changes):
    return {
        "id": event_id, "sport_key": "soccer_epl", "commence_time": at(kickoff), "home_team": "Home", "away_team": "Away",
        "bookmakers": list(books),
    } | changes  # fmt: skip


def three(ts_ms, **quotes):
    return [book(key, ts_ms, **quotes) for key in ("a", "b", "c")]


def read(reader, *events):
    return reader.take(orjson.dumps(list(events)), 1)


E1 = fixture_id_of("e1")


def test_three_books_make_a_price_and_two_a_suspended_market():
    (priced,) = read(TheOddsApiReader(), event(*three(NOON)))
    (suspended,) = read(TheOddsApiReader(), event(*three(NOON)[:2]))

    assert (priced.fixture_id, priced.market_key, priced.ts_ms, priced.in_running) == (E1, "h2h||", NOON, False)
    assert priced.sides == ("draw", "part1", "part2")
    assert sum(priced.prob_bps) == 10_000
    assert priced.odds_milli == (3500, 2000, 4000)
    assert suspended.suspended


def test_the_sport_is_the_league_of_a_fixture():
    reader = TheOddsApiReader()
    read(reader, event(*three(NOON)))

    assert reader.fixtures[E1].league == "soccer_epl"


def test_a_sport_that_is_too_long_for_a_league_is_refused():
    with pytest.raises(ValueError, match="has 201 letters"):
        read(TheOddsApiReader(), event(*three(NOON), sport_key="s" * 201))


def test_only_what_changes_is_a_state_and_its_time_is_the_newest_of_its_books():
    reader = TheOddsApiReader()
    read(reader, event(*three(NOON, totals=(1.9, 1.9))))

    same = read(reader, event(*three(NOON + 60 * SECONDS, totals=(1.9, 1.9))))
    books = three(NOON + 120 * SECONDS, totals=(1.9, 1.9))
    changed = read(reader, event(*books[:2], book("c", NOON + 90 * SECONDS, h2h=(2.0, 3.5, 4.0), totals=(1.9, 1.9))))
    moved = read(reader, event(*[book(key, NOON + 90 * SECONDS, totals=(1.8, 2.0)) for key in "abc"]))

    assert not same
    assert not changed
    ((key, ts_ms),) = [(state.market_key, state.ts_ms) for state in moved]
    assert (key, ts_ms) == ("totals||point=2.5", NOON + 120 * SECONDS)  # never before what it was


def test_a_quote_older_than_an_hour_next_to_the_newest_counts_no_more():
    old = book("c", NOON)

    (state,) = read(TheOddsApiReader(), event(*three(NOON + 3601 * SECONDS)[:2], old))

    assert state.suspended


def test_a_market_or_an_event_that_vanishes_is_unpriced_once():
    reader = TheOddsApiReader()
    read(reader, event(*three(NOON, totals=(1.9, 1.9))))

    (market,) = read(reader, event(*three(NOON + 60 * SECONDS)))
    (rest,) = read(reader)

    assert (market.market_key, market.suspended, market.ts_ms) == ("totals||point=2.5", True, NOON + 60 * SECONDS)
    assert (rest.market_key, rest.suspended) == ("h2h||", True)
    assert not read(reader)
    (back,) = read(reader, event(*three(NOON + 90 * SECONDS)))
    assert not back.suspended


def test_play_begins_at_the_kickoff_that_was_announced_last():
    reader = TheOddsApiReader()
    read(reader, event(*three(NOON)))

    (state,) = read(reader, event(*three(NOON + 60 * SECONDS), kickoff=NOON + 30 * SECONDS))

    assert state.in_running
    fixture = reader.fixtures[E1]
    assert (fixture.kickoff_ts_ms, fixture.names, fixture.source_id) == (NOON + 30 * SECONDS, ("Home", "Away"), "e1")


def test_after_a_gap_every_market_has_another_tick():
    reader = TheOddsApiReader()
    read(reader, event(*three(NOON)))

    assert reader.forget(()) == {(E1, "h2h||")}
    (state,) = read(reader, event(*three(NOON)))

    assert not state.suspended


def test_a_book_with_other_sides_does_not_count():
    reader = TheOddsApiReader()
    read(reader, event(*three(NOON)))

    (state,) = read(reader, event(*three(NOON + SECONDS)[:2], book("c", NOON + SECONDS, h2h=(1.5, 2.5))))

    assert state.suspended
    assert state.sides == ("draw", "part1", "part2")


@pytest.mark.parametrize(
    "wrong",
    [
        b"no json", b"{}", b"[7]", b"[{}]", orjson.dumps([event(), event()]), orjson.dumps([event(home_team="Other")]),
        orjson.dumps([event(id=7)]), orjson.dumps([event(commence_time="soon")]), orjson.dumps([event(bookmakers=[7])]),
        orjson.dumps([event({"key": "a", "last_update": at(NOON), "markets": [{}]})]), orjson.dumps([event(*three(NOON))])[:99],
    ],
)  # fmt: skip
def test_what_can_t_be_read_is_refused_and_changes_nothing(wrong):
    reader = TheOddsApiReader()
    read(reader, event(*three(NOON)))

    with pytest.raises(ValueError, match=r"\S"):
        reader.take(wrong, 2)

    assert not read(reader, event(*three(NOON)))
