import gzip

import orjson
import pytest

from clvlab.sources.devfeeds.kalshi import match_event
from clvlab.sources.kalshi.messages import KalshiReader
from clvlab.sources.source import fixture_id_of

MATCH = "1X2_PARTICIPANT_RESULT||"
TIMES = {"occurrence_datetime": "2026-06-25T20:00:00Z", "close_time": "2026-07-09T20:00:00Z"}
ALONE = {"market": {"ticker": "E-A", "event_ticker": "E", "title": "Rain?", **TIMES}}


def snapshot(seq, yes, no, ticker="E-A", sid=1, **more):
    levels = {"yes": yes, "no": no} if not more else {}
    return {"type": "orderbook_snapshot", "sid": sid, "seq": seq, "msg": {"market_ticker": ticker, **levels, **more}}


def delta(seq, side, price, amount, ts_ms=2_000_000_000_000, ticker="E-A", sid=1):
    body = {"market_ticker": ticker, "side": side, "price": price, "delta": amount, "ts_ms": ts_ms}
    return {"type": "orderbook_delta", "sid": sid, "seq": seq, "msg": body}


def take(reader, *messages, at_ms=1_999_999_999_000):
    return [state for message in messages for state in reader.take(orjson.dumps(message), at_ms)]


@pytest.fixture
def reader():
    """Knows one ticker by itself, of which nothing was quoted."""
    reader = KalshiReader()
    take(reader, ALONE)
    return reader


@pytest.fixture
def open_reader(reader):
    """Yes at 40 to 42 cents."""
    take(reader, snapshot(1, [[39, 5], [40, 10]], [[57, 5], [58, 10]]))
    return reader


def test_a_ticker_by_itself_is_a_market_of_yes_and_no(reader):
    (state,) = take(reader, snapshot(1, [[39, 5], [40, 10]], [[57, 5], [58, 10]]))

    assert (state.fixture_id, state.market_key, state.ts_ms) == (fixture_id_of("E"), "E-A||", 1_999_999_999_000)
    assert state.sides == ("no", "yes")
    assert state.prob_bps == (5900, 4100)
    assert state.odds_milli == (1667, 2381)
    assert reader.fixtures[fixture_id_of("E")].kickoff_ts_ms == 1_782_417_600_000


@pytest.mark.parametrize("ending", ["_dollars", "_dollars_fp"])
def test_prices_in_dollars_mean_the_same(reader, ending):
    levels = {f"yes{ending}": [["0.3900", "5.00"], ["0.4000", "10.00"]], f"no{ending}": [["0.58", 10]]}
    (state,) = take(reader, snapshot(1, None, None, **levels))
    assert state.prob_bps == (5900, 4100)

    change = {"market_ticker": "E-A", "side": "yes", "price_dollars": "0.4100", "delta_fp": "1.00", "ts_ms": 2_000_000_000_000}
    (state,) = take(reader, {"type": "orderbook_delta", "sid": 1, "seq": 2, "msg": change})
    assert (state.prob_bps, state.ts_ms) == ((5850, 4150), 2_000_000_000_000)


def test_amounts_are_added_until_a_level_is_empty(open_reader):
    assert take(open_reader, delta(2, "yes", 40, -4), delta(3, "yes", 40, 1)) == []

    (state,) = take(open_reader, delta(4, "yes", 40, -7))
    assert state.prob_bps == (5950, 4050)


def test_a_message_that_comes_twice_counts_once(open_reader):
    assert take(open_reader, delta(2, "yes", 40, -5), delta(2, "yes", 40, -5)) == []
    assert take(open_reader, delta(3, "yes", 40, -5))[0].prob_bps == (5950, 4050)


@pytest.mark.parametrize("lost", [[], [delta(2, "yes", 41, "NaN")], [delta(2, "yes", 41, 5, ticker=["E-A"])]])
def test_a_change_that_is_missing_or_can_t_be_read_suspends_until_the_next_snapshot(open_reader, lost):
    for message in lost:
        with pytest.raises(ValueError, match="is no"):
            take(open_reader, message)

    (suspended,) = take(open_reader, delta(3, "yes", 40, -10))
    assert suspended.suspended
    assert take(open_reader, delta(4, "yes", 41, 5)) == []
    (state,) = take(open_reader, snapshot(5, [[41, 5]], [[58, 10]]))
    assert state.prob_bps == (5850, 4150)


def test_a_hole_concerns_every_market_of_its_subscription_and_no_other(open_reader):
    other = {"market": {"ticker": "F-A", "event_ticker": "F", "title": "Snow?", "close_time": "2026-06-25T20:00:00Z"}}
    third = {"market": {"ticker": "G-A", "event_ticker": "G", "title": "Hail?", "close_time": "2026-06-25T20:00:00Z"}}
    take(open_reader, other, third)
    take(open_reader, snapshot(2, [[40, 1]], [[58, 1]], "F-A"), snapshot(1, [[40, 1]], [[58, 1]], "G-A", sid=2))

    states = take(open_reader, delta(9, "yes", 41, 5))

    assert {state.market_key: state.suspended for state in states} == {"E-A||": True, "F-A||": True}
    assert take(open_reader, delta(2, "yes", 41, 5, ticker="G-A", sid=2))[0].prob_bps == (5850, 4150)


def test_no_delta_is_applied_before_the_next_snapshot_of_its_own_subscription(open_reader):
    assert open_reader.forget(["E-A", "unheard-of"]) == {(fixture_id_of("E"), "E-A||")}
    assert open_reader.forget(["E-A"]) == set()
    assert take(open_reader, delta(9, "yes", 41, 5)) == []

    (state,) = take(open_reader, snapshot(1, [[40, 10]], [[58, 10]], sid=2))
    assert state.prob_bps == (5900, 4100)
    assert take(open_reader, delta(10, "yes", 41, 5)) == []
    assert take(open_reader, delta(2, "yes", 41, 5, sid=2))[0].prob_bps == (5850, 4150)


def test_a_new_connection_counts_from_the_start(open_reader):
    take(open_reader, delta(2, "yes", 41, 5))
    open_reader.forget(())

    take(open_reader, {"type": "subscribed", "id": 1, "msg": {"channel": "orderbook_delta", "sid": 1}})
    (state,) = take(open_reader, snapshot(1, [[40, 10]], [[58, 10]]))
    assert (state.prob_bps, state.ts_ms) == ((5900, 4100), 2_000_000_000_000)


def test_an_empty_half_of_the_book_suspends_the_market_unless_it_is_at_the_edge(open_reader):
    (state,) = take(open_reader, snapshot(2, [], [[58, 10]]))
    assert state.suspended

    (state,) = take(open_reader, snapshot(3, [], [[98, 10]]))
    assert state.prob_bps == (9900, 100)
    assert state.odds_milli == (None, 50_000)


def test_markets_of_a_match_that_exclude_each_other_are_one_market():
    reader = KalshiReader()
    take(reader, {"event": match_event(1)})
    prices = {"HOM": (50, 49), "TIE": (28, 70), "AWY": (24, 75)}

    messages = [
        snapshot(seq, [[yes, 1]], [[no, 1]], ticker=f"MATCH-1-{outcome}")
        for seq, (outcome, (yes, no)) in enumerate(prices.items(), start=1)
    ]
    (state,) = take(reader, *messages)

    assert (state.market_key, state.sides) == (MATCH, ("draw", "part1", "part2"))
    assert state.prob_bps == (2788, 4856, 2356)  # 29 : 50.5 : 24.5
    assert reader.fixtures[state.fixture_id].names == ("Home 1", "Away 1")


def test_other_events_are_a_side_or_a_market_a_ticker():
    def markets(event, **changes):
        reader = KalshiReader()
        take(reader, {"event": event | changes})
        return {(ladder.market.market_key, ladder.market.sides) for ladder in reader._ladders.values()}

    event = match_event(1)
    assert markets(event, title="Who wins?") == {("MATCH-1||", ("AWY", "HOM", "TIE"))}
    assert markets(event, mutually_exclusive=False) == {
        (f"MATCH-1-{outcome}||", ("no", "yes")) for outcome in ("HOM", "TIE", "AWY")
    }


def test_the_home_team_comes_first_whatever_the_title_says():
    reader = KalshiReader()
    take(reader, {"event": match_event(1) | {"title": "Las Vegas at Denver Winner?"}})

    assert reader.fixtures[fixture_id_of("MATCH-1")].names == ("Denver", "Las Vegas")


@pytest.mark.parametrize(
    "message",
    [
        [],
        {},
        {"type": "orderbook_delta", "sid": 1, "seq": 2},
        snapshot(2, [[101, 5]], []),
        snapshot(2, [["0.40", 5]], []),
        snapshot(2, [[40]], []),
        snapshot(2, None, None, yes_dollars=[["1.40", 5]]),
        snapshot("2", [], []),
        delta(2, "maybe", 41, 5),
        delta(2, "yes", 41, "x"),
        delta(2, "yes", 41, 5, ts_ms="yesterday"),
        {"event": {"event_ticker": "X"}},
    ],
)
def test_a_message_that_cant_be_read_is_refused_and_changes_nothing(open_reader, message):
    with pytest.raises(ValueError):  # noqa: PT011  # each says what is wrong in words of its own
        take(open_reader, message)

    (state,) = take(open_reader, delta(2, "yes", 41, 5))
    assert state.prob_bps == (5850, 4150)


@pytest.mark.realdata
def test_real_snapshots_are_priced_where_their_books_are_narrow(realdata):
    listed = orjson.loads(gzip.decompress((realdata / "other" / "kalshi_orderbook.json.gz").read_bytes()))
    reader, priced = KalshiReader(), 0

    for entry in listed:
        for ticker, ladder in entry.items():
            reader._ladders.pop(ticker, None)
            take(reader, {"market": ALONE["market"] | {"ticker": ticker, "event_ticker": ticker.rpartition("-")[0]}})
            states = take(reader, snapshot(1, ladder["_yes"], ladder["_no"], ticker=ticker), at_ms=1_700_000_000_000)
            reader.forget(())
            yes, no = (max((price for price, _ in ladder[side] or []), default=0) for side in ("_yes", "_no"))
            assert bool(states) == (0 < 100 - no - yes <= 10)
            for state in states:
                priced += 1
                assert sum(state.prob_bps) == 10_000
                assert abs(state.prob_bps[1] - 50 * (yes + 100 - no)) <= 1
    assert priced > 10


def test_the_kickoff_is_when_the_match_is_due_and_not_when_its_markets_close(reader):
    take(reader, {"event": match_event(1)})

    assert reader.fixtures[fixture_id_of("MATCH-1")].kickoff_ts_ms == 1_782_417_600_000


def test_an_event_that_says_no_time_has_no_kickoff():
    reader, market = KalshiReader(), {name: value for name, value in ALONE["market"].items() if name != "occurrence_datetime"}

    take(reader, {"market": market})

    assert reader.fixtures[fixture_id_of("E")].kickoff_ts_ms is None
