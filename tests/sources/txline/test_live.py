import math
import random
import socket
import threading
import time
from contextlib import closing

import orjson
import pytest

from clvlab.errors import FeedError
from clvlab.packs.lookup import open_pack
from clvlab.packs.manifest import Fixture
from clvlab.sources.capture.feed import Cut, FeedMessage, GapCause, Resumption, Stop
from clvlab.sources.capture.records import CaptureRecord, Header
from clvlab.sources.capture.replay import messages_of
from clvlab.sources.capture.source import Tracker
from clvlab.sources.devfeeds.faults import FaultPlan, FeedFault, PlannedFault, read_plan
from clvlab.sources.devfeeds.txline import TOKENS, ScriptedMessage, TxLineServer, txline_server
from clvlab.sources.txline.live import TxLineFeed
from clvlab.sources.txline.messages import TxLineReader
from tests.length import length
from tests.waiting import PATIENCE_S


def message(number, fixture_id=7, **changes):
    over = 1000 + number % 8000
    return {
        "FixtureId": fixture_id, "MessageId": f"m{number}", "Ts": int(time.time() * 1000) + number,
        "Bookmaker": "TXLineStablePriceDemargined", "BookmakerId": 10021, "SuperOddsType": "OVERUNDER", "GameState": None,
        "InRunning": False, "MarketParameters": f"line={number % 3}.5", "MarketPeriod": None, "PriceNames": ["over", "under"],
        "Prices": [2833, 1545], "Pct": [f"{over / 100:.3f}", f"{(10_000 - over) / 100:.3f}"],
    } | changes  # fmt: skip


def script(n, pace_s=0.0, **changes):
    return [ScriptedMessage(orjson.dumps(message(number, 7 + number % 2, **changes)), number * pace_s) for number in range(n)]


def feed_of(server, **options):
    own = {"jwt": TOKENS[0], "api_token": TOKENS[1], "first_wait_s": 0.02, "most_wait_s": 0.05, "timeout_s": 2.0}
    return TxLineFeed(url=server.url, **own | options)


def heard(feed, until, **listening):
    """Listen until ``until(items)`` holds."""
    stop, items = Stop(), []
    timer = threading.Timer(PATIENCE_S, stop.set)
    timer.start()
    with closing(feed.listen(stop, **listening)) as listened:
        for item in listened:
            items.append(item)
            if until(items):
                break
    timer.cancel()
    assert until(items), f"{len(items)} items within {PATIENCE_S} s, {feed.health}"
    return items


def texts(items):
    return [item.text for item in items if isinstance(item, FeedMessage)]


def all_of(server):
    return lambda items: server.script.ended.is_set() and len(texts(items)) >= len(server.script.published)


def records(items):
    for item in items:
        if isinstance(item, FeedMessage):
            yield CaptureRecord(item.received_ts_ms, item.text, item.mark)
        elif isinstance(item, Cut):
            yield CaptureRecord(item.from_ts_ms, cut={"cause": item.cause, "markets": [], "resumable": item.resumable})
        else:
            yield CaptureRecord(item.to_ts_ms, resumed={"replayed": item.replayed})


def tracked(items):
    tracker = Tracker(Header("txline", "synthetic-devfeed", "c", 1, None), TxLineReader())
    return tracker, [placed for record in records(items) for placed in tracker.take(record)]


def last_prices(published):
    """What a plain model says of every market in the end."""
    prices, seen = {}, set()
    for text in published:
        try:
            raw = orjson.loads(text)
        except orjson.JSONDecodeError:
            continue
        if raw["MessageId"] not in seen:
            seen.add(raw["MessageId"])
            prices[raw["FixtureId"], f"OVERUNDER||{raw['MarketParameters']}"] = tuple(
                round(float(percent) * 100) for percent in raw["Pct"]
            )
    return prices


def gaps(items):
    return [type(item) for item in items if not isinstance(item, FeedMessage)]


@pytest.mark.long
def test_everything_that_was_sent_around_five_cuts_comes_once_and_in_order():
    count = length(3_000, 10_000)
    cuts = sorted(random.sample(range(10, count - 10), 5))
    plan = FaultPlan([PlannedFault(at, FeedFault.CUT) for at in cuts])

    with TxLineServer(script(count, 0.0003), plan) as server:
        items = heard(feed_of(server), all_of(server))

    assert texts(items) == server.script.published
    assert gaps(items) == [Cut, Resumption] * 5
    assert all(item.resumable for item in items if isinstance(item, Cut))
    assert all(item.replayed for item in items if isinstance(item, Resumption))
    tracker, states = tracked(items)
    assert {(state.fixture_id, state.market_key): state.prob_bps for state in states} == last_prices(server.script.published)
    assert (len(states), len(tracker.gaps), tracker.unreadable) == (count, 5, {})


def test_each_fault_of_the_messages_is_received_verbatim_and_left_to_the_reader():
    plan = read_plan("duplicate@20,out-of-order@40,malformed@60,skew@80:30,sequence-hole@90,cut@95")

    with TxLineServer(script(200, 0.0005), plan) as server:
        items = heard(feed_of(server), all_of(server))

    assert texts(items) == server.script.published
    tracker, states = tracked(items)
    assert tracker.unreadable.total() == 2  # one that came twice, and one cut off
    assert {(state.fixture_id, state.market_key): state.prob_bps for state in states} == last_prices(server.script.published)


@pytest.mark.parametrize("fault", ["429@50:0.3", "500@50", "500@50,500@50,500@50"])
def test_a_refused_connection_is_tried_again(fault):
    with TxLineServer(script(150, 0.0005), read_plan(fault)) as server:
        items = heard(feed_of(server), all_of(server))

    assert texts(items) == server.script.published
    assert gaps(items) == [Cut, Resumption] * fault.count("@") or gaps(items) == [Cut, Resumption]


def test_a_token_that_was_refused_is_renewed():
    tokens = iter(["old", TOKENS[0], "newer"])

    with TxLineServer(script(80, 0.0005), read_plan("401@40")) as server:
        feed = feed_of(server, jwt=lambda: next(tokens, TOKENS[0]))
        items = heard(feed, all_of(server))

    assert texts(items) == server.script.published
    assert gaps(items) == [Cut, Resumption]


def test_a_token_that_can_t_be_renewed_and_a_bundle_without_the_match_end_the_feed():
    with TxLineServer(script(1), fixtures=[Fixture(fixture_id=7)]) as server:
        for options, listening, named in (
            ({"jwt": "wrong-secret"}, {}, "CLVLAB_TXLINE_JWT"),
            ({"jwt": lambda: "wrong-secret"}, {}, "CLVLAB_TXLINE_JWT"),
            ({"api_token": "wrong-secret"}, {}, "CLVLAB_TXLINE_API_TOKEN"),
            ({}, {"fixture_ids": (99,)}, "lacks fixture 99"),
            ({"stream_path": "/elsewhere"}, {}, "CLVLAB_TXLINE_URL"),
        ):
            feed = feed_of(server, **options)
            with pytest.raises(FeedError, match=named) as raised:
                list(feed.listen(Stop(), **listening))
            assert (
                "wrong-secret"
                not in f"{raised.value} {feed!r} {vars(feed.health) if hasattr(feed.health, '__dict__') else feed.health}"
            )


def test_silence_and_heartbeats_alone_are_cuts():
    with TxLineServer(script(60, 0.0005), read_plan("stall@30:3600"), heartbeat_s=0.05) as server:
        items = heard(feed_of(server, data_patience_s=0.3), all_of(server))
    with TxLineServer(script(60, 0.0005), read_plan("stall@30:3600"), heartbeat_s=3600.0) as server:
        silent = heard(feed_of(server, patience_s=0.3), all_of(server))

    for found in (items, silent):
        assert [orjson.loads(text)["MessageId"] for text in texts(found)] == [f"m{number}" for number in range(60)]
        assert {item.cause for item in found if isinstance(item, Cut)} == {GapCause.SILENCE}


def test_what_the_stream_can_t_replay_is_filled_from_blocks():
    with TxLineServer(script(400, 0.002), read_plan("cut@100"), holds=10) as server:
        items = heard(feed_of(server, first_wait_s=0.2, most_wait_s=0.3), all_of(server))

    assert sorted(texts(items)) == sorted(server.script.published)
    assert len(set(texts(items))) == 400
    assert [item.replayed for item in items if isinstance(item, Resumption)] == [True]
    _, states = tracked(items)
    assert {(state.fixture_id, state.market_key): state.prob_bps for state in states} == last_prices(server.script.published)


def test_a_gap_that_no_block_fills_is_recorded_and_suspends():
    late = ScriptedMessage(orjson.dumps(message(399, 7)), 60.0)  # for who comes back when all else has been sent
    with TxLineServer([*script(399, 0.002), late], read_plan("cut@100"), holds=10) as server:
        feed = feed_of(server, first_wait_s=0.2, most_wait_s=0.3, block_path="/nowhere/{day}/{hour}/{block}")
        items = heard(feed, lambda items: Resumption in map(type, items) and isinstance(items[-1], FeedMessage))

    assert [item.replayed for item in items if isinstance(item, Resumption)] == [False]
    assert 100 <= len(texts(items)) < 400
    at = next(n for n, item in enumerate(items) if isinstance(item, Resumption))
    tracker, states = tracked(items[: at + 1])
    assert [state.suspended for state in states[-6:]] == [True] * 6
    assert [gap.replayed for gap in tracker.gaps] == [None]


def test_a_mark_resumes_where_another_listener_ended():
    with TxLineServer(script(300, 0.001)) as server:
        first = heard(feed_of(server), lambda items: len(texts(items)) == 100)
        rest = heard(feed_of(server), lambda items: len(texts(items)) == 200, after=first[-1].mark)

    assert isinstance(rest[0], Resumption)
    assert rest[0].replayed
    assert texts(first) + texts(rest) == server.script.published


def test_only_what_was_subscribed_to_is_received():
    with TxLineServer(script(100, 0.0005)) as server:
        items = heard(feed_of(server), lambda items: len(texts(items)) == 50, fixture_ids=(8,))

    assert {orjson.loads(text)["FixtureId"] for text in texts(items)} == {8}


@pytest.mark.parametrize("answers", [True, False])
def test_it_ends_on_request_however_long_it_would_wait(answers):
    stop = Stop()
    with TxLineServer(script(1), heartbeat_s=3600.0) as server, socket.create_server(("127.0.0.1", 0)) as mute:
        url = server.url if answers else f"http://127.0.0.1:{mute.getsockname()[1]}"
        feed = TxLineFeed(url=url, jwt=TOKENS[0], api_token=TOKENS[1], timeout_s=3600.0)
        threading.Timer(0.4, stop.set).start()
        list(feed.listen(stop))

    assert not feed.health.connected


def test_fixtures_are_by_kickoff_or_from_the_current_block():
    known = [Fixture(fixture_id=8, names=("A", "B"), kickoff_ts_ms=20), Fixture(fixture_id=7, kickoff_ts_ms=30)]
    with TxLineServer(script(5), fixtures=known) as server:
        assert list(feed_of(server).fixtures()) == known
        heard(feed_of(server), all_of(server))
        assert {one.fixture_id for one in feed_of(server, fixtures_path="").fixtures()} <= {7, 8}


def test_health_and_label_say_what_it_is():
    with TxLineServer(script(20), heartbeat_s=0.05) as server:
        feed = feed_of(server)
        items = heard(feed, all_of(server))

    assert feed.provenance == "synthetic-devfeed"
    assert TxLineFeed(jwt="j", api_token="t").provenance == "genuine-txline"
    assert feed.health.data_ts_ms == items[-1].received_ts_ms
    assert abs(feed.health.clock_skew_ms) < 5000
    with pytest.raises(FeedError, match="CLVLAB_TXLINE_JWT"):
        TxLineFeed(jwt="two\nlines", api_token="t")


def test_a_replay_that_breaks_off_leaves_the_gap_open_from_its_beginning():
    old = int(time.time() * 1000) - 10_000
    with TxLineServer(script(300, Ts=old), read_plan("cut@100,cut@110"), heartbeat_s=5.0) as server:
        items = heard(feed_of(server), all_of(server))

    first, second = (item for item in items if isinstance(item, Cut))
    assert first.from_ts_ms == second.from_ts_ms
    assert texts(items) == server.script.published


def test_the_ticks_of_a_pack_come_back_over_the_protocol():
    pack = open_pack("starter")
    with txline_server(pack, speed=math.inf) as server:
        items = heard(feed_of(server), all_of(server))

    _, states = tracked(items)
    alike = [state._replace(ts_ms=0) for state in states]
    assert alike == [message._replace(ts_ms=0) for message in messages_of(pack)]
