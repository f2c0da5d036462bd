import logging
import threading
from contextlib import closing

import orjson
import pytest

from clvlab.errors import FeedError
from clvlab.sources.capture.feed import Cut, FeedMessage, GapCause, Resumption, Stop
from clvlab.sources.capture.records import CaptureRecord, Header
from clvlab.sources.capture.source import Tracker
from clvlab.sources.devfeeds.faults import read_plan
from clvlab.sources.devfeeds.the_odds_api import KEY, TheOddsApiServer
from clvlab.sources.source import fixture_id_of
from clvlab.sources.the_odds_api.live import TheOddsApiFeed, backfill_credits
from clvlab.sources.the_odds_api.messages import TheOddsApiReader
from tests.length import length
from tests.waiting import PATIENCE_S


def body(number):
    """An answer in which the home team's price moves with its number."""
    when = f"2026-01-02T12:{number // 60:02}:{number % 60:02}Z"
    outcomes = [{"name": "Home", "price": 1.5 + number / 100}, {"name": "Away", "price": 2.5}]
    quotes = [{"key": "h2h", "last_update": when, "outcomes": outcomes}]
    books = [{"key": key, "title": key, "last_update": when, "markets": quotes} for key in "abc"]
    event = {
        "id": "e1", "sport_key": "soccer_epl", "commence_time": "2026-01-02T18:00:00Z", "home_team": "Home",
        "away_team": "Away", "bookmakers": books,
    }  # fmt: skip
    return orjson.dumps([event])


def feed_of(server, **options):
    own = {"key": KEY, "sport": "soccer_epl", "interval_s": 0.002, "first_wait_s": 0.01, "most_wait_s": 0.02}
    return TheOddsApiFeed(url=server.url, **own | options)


def heard(feed, messages, **listening):
    """Listen until so many messages came."""
    stop, items = Stop(), []
    timer = threading.Timer(PATIENCE_S, stop.set)
    timer.start()
    with closing(feed.listen(stop, **listening)) as listened:
        for item in listened:
            items.append(item)
            if len(texts(items)) == messages:
                break
    timer.cancel()
    assert len(texts(items)) == messages
    return items


def texts(items):
    return [item.text for item in items if isinstance(item, FeedMessage)]


def gaps(items):
    return [item for item in items if not isinstance(item, FeedMessage)]


@pytest.mark.long
def test_every_answer_is_a_message_and_every_poll_without_one_a_gap():
    count = length(300, 10_000)
    bodies = [body(number) for number in range(count)]
    plan = read_plan("cut@20,429@60,500@100,cut@150,500@200,500@200,malformed@250")

    with TheOddsApiServer(bodies, plan, quota=2 * count) as server:
        items = heard(feed_of(server), count)

    received = texts(items)
    assert received[:250] + received[251:] == bodies[:250] + bodies[251:]
    assert bodies[250].startswith(received[250])
    found = gaps(items)
    assert [type(gap) for gap in found] == [Cut, Resumption] * 6
    causes = [gap.cause for gap in found if isinstance(gap, Cut)]
    assert causes == [GapCause.CUT, GapCause.QUOTA, GapCause.CUT, GapCause.CUT, GapCause.CUT, GapCause.CUT]
    assert not any(gap.resumable for gap in found if isinstance(gap, Cut))
    assert not any(gap.replayed for gap in found if isinstance(gap, Resumption))


@pytest.mark.parametrize("page", [b"<html>try later</html>", b"", b'{"message": "maintenance"}', b"\xff", b"[" * 2_000])
def test_an_answer_that_lists_no_events_is_kept_and_begins_a_gap(page):
    with TheOddsApiServer([body(0), page, page, body(1)], quota=10_000) as server:
        items = heard(feed_of(server), 4)

    assert [type(item) for item in items] == [FeedMessage, FeedMessage, Cut, FeedMessage, Resumption, FeedMessage]
    assert items[2].from_ts_ms == items[0].received_ts_ms


def test_an_answer_that_lists_no_events_ends_no_gap_of_a_restart():
    with TheOddsApiServer([body(0), b"", body(1)], quota=10_000) as server:
        heard(feed_of(server), 1)
        items = heard(feed_of(server), 2)

    assert [type(item) for item in items] == [FeedMessage, Cut, Resumption, FeedMessage]


def test_reading_gives_the_prices_of_the_answers_and_none_while_they_were_missed():
    with TheOddsApiServer([body(number) for number in range(60)], read_plan("cut@20,500@40"), quota=10_000) as server:
        items = heard(feed_of(server), 60)
    tracker = Tracker(Header("the-odds-api", "synthetic-devfeed", "c", 1, None), TheOddsApiReader())

    states = []
    for item in items:
        if isinstance(item, FeedMessage):
            states += tracker.take(CaptureRecord(item.received_ts_ms, item.text))
        elif isinstance(item, Cut):
            states += tracker.take(CaptureRecord(item.from_ts_ms, cut={"cause": item.cause, "resumable": item.resumable}))
        else:
            states += tracker.take(CaptureRecord(item.to_ts_ms, resumed={"replayed": item.replayed}))

    home = [state.odds_milli[0 if state.sides[0] == "part1" else 1] for state in states]
    expected = [1500 + 10 * number for number in range(60)]
    assert home == [*expected[:20], None, *expected[20:40], None, *expected[40:]]
    assert [gap.cause for gap in tracker.gaps] == ["cut", "cut"]


def test_an_answer_that_did_not_change_is_heard_and_is_no_message():
    with TheOddsApiServer([body(1), body(1), body(1), body(2)]) as server:
        feed = feed_of(server)
        items = heard(feed, 2)

    assert texts(items) == [body(1), body(2)]
    assert server.quota == feed.health.quota_left == 498


def test_credits_are_spent_down_to_the_reserve_and_no_further():
    with TheOddsApiServer([body(number) for number in range(20)], quota=13) as server:
        feed, items = feed_of(server, reserve=3, regions="eu,uk", markets="h2h, totals"), []
        with pytest.raises(FeedError, match=r"5 credits are left, a poll costs 4.*_RESERVE"):
            items.extend(feed.listen(Stop()))

    assert server.quota == 5


@pytest.mark.parametrize(
    ("options", "plan", "named"),
    [
        ({"key": "secret-key"}, "", "CLVLAB_THE_ODDS_API_KEY"),
        ({"sport": "chess"}, "", "CLVLAB_THE_ODDS_API_SPORT"),
        ({}, "no-quota@1", "nothing is left"),
    ],
)
def test_it_ends_where_another_request_can_t_help(options, plan, named):
    with TheOddsApiServer([body(1), body(2)], read_plan(plan)) as server:
        feed = feed_of(server, **options)
        with pytest.raises(FeedError, match=named) as raised:
            list(feed.listen(Stop()))

    assert "secret-key" not in f"{raised.value}{feed!r}{feed.health}"


def test_fixtures_name_their_league():
    with TheOddsApiServer([body(0)]) as server:
        (fixture,) = feed_of(server).fixtures()

    assert (fixture.league, fixture.names) == ("soccer_epl", ("Home", "Away"))


def test_an_unknown_fixture_is_named_and_a_known_one_is_requested():
    with TheOddsApiServer([body(1)]) as server:
        with pytest.raises(FeedError, match="no fixture 99"):
            list(feed_of(server).listen(Stop(), (99,)))
        assert len(heard(feed_of(server), 1, fixture_ids=(fixture_id_of("e1"),))) == 1
        (fixture,) = feed_of(server).fixtures()

    assert (fixture.source_id, fixture.names, fixture.kickoff_ts_ms) == ("e1", ("Home", "Away"), 1_767_376_800_000)


def test_a_restart_begins_with_a_gap_that_nothing_fills():
    with TheOddsApiServer([body(1)]) as server:
        items = heard(feed_of(server), 1, after="")

    assert gaps(items) == [Resumption(items[0].to_ts_ms)]


def test_no_key_is_logged(caplog):
    caplog.set_level(logging.DEBUG)
    with TheOddsApiServer([body(1)], key="secret-key") as server:
        heard(feed_of(server, key="secret-key"), 1)

    assert "/v4/sports/soccer_epl/odds" in caplog.text
    assert "secret-key" not in caplog.text


def test_it_ends_on_request_however_long_it_would_wait():
    stop = Stop()
    with TheOddsApiServer([body(1)]) as server:
        threading.Timer(0.3, stop.set).start()
        list(feed_of(server, interval_s=3600).listen(stop))


def test_a_backfill_is_estimated_before_anything_is_spent():
    assert backfill_credits(0, 3_600_000, 300, ["eu"], ["h2h", "totals"]) == 13 * 20
    assert TheOddsApiFeed(key="k", sport="s").provenance == "genuine-the-odds-api"
