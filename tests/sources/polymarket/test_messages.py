import orjson
import pytest

from clvlab.sources.devfeeds.polymarket import match_event
from clvlab.sources.polymarket.messages import PolymarketReader

MATCH = "1X2_PARTICIPANT_RESULT||"
EVENT = {
    "id": "77", "slug": "will-it", "title": "Will it?", "endDate": "2026-07-01T00:00:00Z", "live": False,
    "markets": [{"slug": "will-it-rain", "outcomes": '["Yes", "No"]', "clobTokenIds": '["y", "n"]'}],
}  # fmt: skip


def book(asset, ts_ms, bid, ask):
    sides = {name: [] if price is None else [{"price": price, "size": "10"}] for name, price in (("bids", bid), ("asks", ask))}
    return {"event_type": "book", "asset_id": asset, "timestamp": str(ts_ms), "hash": "", **sides}


def change(asset, ts_ms, side, price, size):
    return {
        "event_type": "price_change",
        "timestamp": str(ts_ms),
        "price_changes": [{"asset_id": asset, "price": price, "size": size, "side": side}],
    }


def take(reader, *messages):
    return [state for message in messages for state in reader.take(orjson.dumps(message), 0)]


@pytest.fixture
def reader():
    """Knows one yes/no market, of which nothing was quoted."""
    reader = PolymarketReader()
    take(reader, [EVENT])
    return reader


@pytest.fixture
def open_reader(reader):
    """Yes at 0.40 to 0.42, no at 0.58 to 0.60, both at time 100."""
    take(reader, [book("y", 100, "0.40", "0.42"), book("n", 100, "0.58", "0.60")])
    return reader


def test_a_market_is_priced_once_the_books_of_all_its_sides_are_known(reader):
    assert take(reader, book("y", 100, "0.40", "0.42")) == []

    (state,) = take(reader, book("n", 90, "0.60", "0.64"))

    assert (state.fixture_id, state.market_key, state.ts_ms, state.in_running) == (77, "will-it-rain||", 100, False)
    assert state.sides == ("no", "yes")
    assert state.prob_bps == (6019, 3981)
    assert state.odds_milli == (1563, 2381)


def test_a_message_that_moves_no_price_leaves_no_state(open_reader):
    assert take(open_reader, change("y", 101, "BUY", "0.39", "5"), change("y", 102, "BUY", "0.40", "7")) == []
    assert take(open_reader, {"event_type": "last_trade_price", "asset_id": "y", "price": "0.41", "timestamp": "103"}) == []
    assert take(open_reader, change("other", 104, "BUY", "0.41", "5"), book("other", 104, "0.1", "0.2")) == []


def test_levels_are_set_and_emptied_one_by_one(open_reader):
    (better,) = take(open_reader, change("y", 101, "BUY", "0.41", "5"))
    (gone,) = take(open_reader, change("y", 102, "BUY", "0.41", "0"))

    assert (better.ts_ms, better.prob_bps, better.odds_milli) == (101, (5871, 4129), (1667, 2381))
    assert (gone.ts_ms, gone.prob_bps) == (102, (5900, 4100))


@pytest.mark.parametrize(
    "messages",
    [
        [change("y", 101, "BUY", "0.40", "0")],  # nothing is bid: 0.42 lie between
        [change("y", 101, "BUY", "0.43", "5")],  # crossed
        [change("y", 101, "BUY", "0.42", "5")],
        [change("y", 101, "BUY", "0.31", "5"), change("y", 101, "BUY", "0.40", "0")],  # 0.11 lie between
        [{"event_type": "market_resolved", "assets_ids": ["y", "n"], "timestamp": "101"}],
    ],
)
def test_a_side_without_a_sound_price_suspends_its_market(open_reader, messages):
    state = take(open_reader, *messages)[-1]

    assert state.suspended
    assert state.odds_milli == (None, None)


def test_a_side_at_the_edge_needs_but_one_half_of_its_book(reader):
    (state,) = take(reader, [book("y", 100, None, "0.01"), book("n", 100, "0.99", None)])

    assert state.prob_bps == (9950, 50)
    assert state.odds_milli == (None, 100_000)


def test_no_change_is_applied_before_the_first_book_after_a_gap(open_reader):
    assert open_reader.forget(["y", "unheard-of"]) == {(77, "will-it-rain||")}
    assert open_reader.forget(["y"]) == set()

    assert take(open_reader, change("y", 101, "BUY", "0.41", "5"), change("n", 101, "SELL", "0.59", "5")) == []
    (state,) = take(open_reader, book("y", 102, "0.40", "0.42"))
    assert state.prob_bps == (5879, 4121)


def test_a_market_comes_back_at_the_price_that_it_had(open_reader):
    assert open_reader.forget(()) == {(77, "will-it-rain||")}

    (state,) = take(open_reader, [book("y", 100, "0.40", "0.42"), book("n", 100, "0.58", "0.60")])
    assert state.prob_bps == (5900, 4100)


def test_a_book_that_is_older_than_the_last_change_of_its_asset_leaves_nothing(open_reader):
    take(open_reader, change("y", 200, "BUY", "0.41", "5"))
    assert take(open_reader, book("y", 199, "0.30", "0.32")) == []

    open_reader.forget(())
    assert take(open_reader, book("y", 199, "0.30", "0.32"), book("n", 150, "0.58", "0.60")) == []
    (state,) = take(open_reader, book("y", 200, "0.41", "0.42"))
    assert state.prob_bps == (5871, 4129)


def test_of_a_level_the_later_word_holds_whatever_comes_first(open_reader):
    newer, older = change("y", 102, "BUY", "0.41", "0"), change("y", 101, "BUY", "0.41", "5")
    other = change("y", 101, "SELL", "0.41", "5")

    assert take(open_reader, newer, older) == []
    assert take(open_reader, change("y", 99, "BUY", "0.41", "5")) == []
    assert take(open_reader, other)[0].prob_bps == (5930, 4070)


@pytest.mark.parametrize(
    "message",
    [
        {"event_type": "book", "asset_id": "y", "timestamp": "101", "bids": []},
        {"asset_id": "y"},
        7,
        [book("y", 101, "0.30", "0.31"), book("n", "x", "0.5", "0.6")],
        [book("y", 101, "0.30", "0.31"), book("n", -1, "0.5", "0.6")],
        book("y", 101, "1.01", "0.6"),
        book("y", 101, "NaN", "0.6"),
        book("y", 101, [], "0.6"),
        change("y", 101, "BID", "0.5", "1"),
        [{"markets": [], "id": "x", "title": "", "slug": ""}],
        [{"markets": None, "id": "7", "title": "", "slug": ""}],
        [EVENT | {"id": "78", "markets": [{"slug": "a", "outcomes": '["Yes"]', "clobTokenIds": '["a"]'}]}],
    ],
)
def test_a_message_that_cant_be_read_is_refused_and_changes_nothing(open_reader, message):
    with pytest.raises(ValueError):  # noqa: PT011  # each says what is wrong in words of its own
        take(open_reader, message)

    (state,) = take(open_reader, change("y", 101, "BUY", "0.41", "5"))
    assert state.prob_bps == (5871, 4129)


@pytest.mark.parametrize("text", [b"", b"{", b"PONG", b"\xff", b'[{"event_type": "book"'])
def test_a_text_that_is_no_json_is_refused(reader, text):
    with pytest.raises(ValueError):  # noqa: PT011
        reader.take(text, 0)


def sides_of(*events):
    reader = PolymarketReader()
    take(reader, list(events))
    return {key: dict(assets) for (_, key), assets in reader.markets.items()}


def test_the_yes_no_markets_of_a_match_are_one_market_of_three_sides():
    assert sides_of(match_event(1)) == {MATCH: {"part1": "11", "draw": "12", "part2": "13"}}


def test_outcomes_that_exclude_each_other_are_sides_by_name():
    titles = {"Spain": "s", "Brazil": "b", "France": "f"}
    listed = [
        {"groupItemTitle": title, "outcomes": ["Yes", "No"], "clobTokenIds": [asset, f"{asset}0"]}
        for title, asset in titles.items()
    ]
    closed = {"groupItemTitle": "Italy", "outcomes": ["Yes", "No"], "clobTokenIds": ["i", "i0"], "closed": True}

    assert sides_of(EVENT | {"negRisk": True, "slug": "winner", "markets": [*listed, closed]}) == {"winner||": titles}


def test_other_markets_of_a_match_are_named_by_their_kind_and_line():
    listed = [
        {"sportsMarketType": "moneyline", "outcomes": '["Panthers", "Cardinals"]', "clobTokenIds": '["a", "h"]', "slug": "m"},
        {"sportsMarketType": "totals", "line": 2.5, "outcomes": '["Over", "Under"]', "clobTokenIds": '["o", "u"]', "slug": "t"},
        {
            "sportsMarketType": "totals",
            "line": 2.5,
            "outcomes": '["Over", "Under"]',
            "clobTokenIds": '["O", "U"]',
            "slug": "t2",
        },
    ]
    teams = [{"name": "Carolina", "alias": "Panthers", "ordering": "away"}, {"alias": "Cardinals", "ordering": "home"}]
    event = EVENT | {"title": "Panthers vs. Cardinals", "teams": teams, "markets": listed}

    assert sides_of(event) == {
        "moneyline||": {"part1": "h", "part2": "a"},
        "totals||line=2.5": {"over": "o", "under": "u"},
        "t2||": {"over": "O", "under": "U"},
    }


def test_a_later_description_moves_the_kickoff_and_says_what_is_in_play(open_reader):
    take(open_reader, [EVENT | {"startTime": "2026-06-30 18:00:00+00", "live": True}])

    (state,) = take(open_reader, change("y", 101, "BUY", "0.41", "5"))
    assert state.in_running
    assert open_reader.fixtures[77].kickoff_ts_ms == 1_782_842_400_000


def test_the_time_by_which_an_event_is_resolved_is_no_kickoff(reader):
    assert reader.fixtures[77].kickoff_ts_ms is None

    take(reader, [EVENT | {"markets": [EVENT["markets"][0] | {"gameStartTime": "2026-06-30 18:00:00+00"}]}])

    assert reader.fixtures[77].kickoff_ts_ms == 1_782_842_400_000
