import gzip
import socket
import threading
from dataclasses import replace

import orjson
import pytest

from clvlab.errors import FeedError
from clvlab.law.message import ticks_of
from clvlab.sources.capture.connection import Patience
from clvlab.sources.capture.feed import Cut, FeedMessage, GapCause, Resumption, Stop
from clvlab.sources.capture.records import name_of
from clvlab.sources.devfeeds.faults import FaultPlan, read_plan
from clvlab.sources.devfeeds.polymarket import PolymarketServer, match_event
from clvlab.sources.devfeeds.sockets import LadderChange, LadderScript
from clvlab.sources.polymarket.live import PolymarketFeed
from clvlab.sources.polymarket.messages import SOURCE as POLYMARKET
from clvlab.sources.source import Options
from tests.length import length
from tests.sources.capture.venues import (
    QUICK,
    START_MS,
    Model,
    heard,
    json_of,
    misfits,
    of_socket,
    record_of,
    tracker_of,
    written,
)
from tests.waiting import PATIENCE_S

MATCH = "1X2_PARTICIPANT_RESULT||"


def server(plan="", **how):
    return PolymarketServer.synthetic(**{"messages": 200, "start_ms": START_MS, "plan": read_plan(plan)} | how)


def feed(to, **how):
    events = [event["slug"] for event in to.events]
    return PolymarketFeed(**{"events": events, "url": to.url, "gamma_url": to.http_url, "patience": QUICK} | how)


def model(of):
    return Model(
        of._script,
        {
            f"{number}{outcome}": ((1000 + number, MATCH), side)
            for number in range(1, len(of.events) + 1)
            for outcome, side in (("1", "part1"), ("2", "draw"), ("3", "part2"))
        },
    )


def is_description(text):
    return b'"markets"' in text


def changes_of(text):
    message = json_of(text)
    if not isinstance(message, dict) or message.get("event_type") != "price_change":
        return []
    return [(change["asset_id"], int(message["timestamp"])) for change in message["price_changes"]]


def cuts(items):
    return [item for item in items if isinstance(item, Cut)]


@pytest.mark.long
def test_thousands_of_messages_through_every_fault_are_received_in_order_or_lie_within_a_gap_and_read_as_the_script_says():
    plan = (
        "cut@200,cut@800,500@900,cut@900,stall@1300:0.3,duplicate@1400,out-of-order@1500,cut@1700,429@1700,malformed@2000,"
        "stall@2010:0.5,old-snapshot@2300,cut@2700"
    )
    count = length(3_000, 10_000)
    with server(plan, messages=count) as to:
        items = heard(feed(to, heartbeat_s=0.1), to)

    connections = of_socket(items, is_description)
    assert len(connections) == len(to.peers) >= 7  # a connection that the feed gives up can be cut off meanwhile
    for received, peer in zip(connections, to.peers, strict=True):
        assert received == peer.sent[: len(received)]
    ended_by_the_feed = [received for received in connections if json_of(received[-1]) is None]
    assert len(ended_by_the_feed) == 1
    assert all(
        received == peer.sent or received in ended_by_the_feed for received, peer in zip(connections, to.peers, strict=True)
    )
    sent = {ts_ms for received in connections for text in received for _, ts_ms in changes_of(text)}
    missed = sorted(set(range(START_MS + 100, START_MS + 100 * (count + 1), 100)) - sent)
    assert 6 * 2 < len(missed) < 600
    assert [(cut.cause, cut.markets, cut.resumable) for cut in cuts(items)] == [(GapCause.CUT, (), False)] * (len(to.peers) - 1)

    tracker, last, wrong = misfits(POLYMARKET, items, model(to), changes_of)
    swapped = [START_MS + 100 * 1501, START_MS + 100 * 1502]
    assert set(wrong) <= set(swapped)
    assert len(tracker.gaps) == len(to.peers) - 1
    assert sum(tracker.unreadable.values()) == 1
    assert tracker.arrival.counts["stale"] == 0
    assert all(model(to).fits(market, max(at for own, at in model(to).at if own == market), last[market]) for market in last)


def test_gamma_comes_first_on_every_connection_and_describes_the_fixtures():
    with server("cut@50") as to:
        own = feed(to)
        fixtures = own.fixtures()
        items = heard(own, to)

    assert [(fixture.fixture_id, fixture.names, fixture.source_id) for fixture in fixtures] == [
        (1001, ("Home 1", "Away 1"), "match-1"),
        (1002, ("Home 2", "Away 2"), "match-2"),
    ]
    assert fixtures[0].kickoff_ts_ms == START_MS + 3_600_000
    received = [item for item in items if isinstance(item, FeedMessage)]
    assert [is_description(item.text) for item in received[:3]] == [True, True, False]
    resumed = next(number for number, item in enumerate(items) if isinstance(item, Resumption))
    assert isinstance(items[resumed - 1], Cut)
    assert [is_description(item.text) for item in items[resumed + 1 : resumed + 4]] == [True, True, False]


def test_some_fixtures_alone_can_be_listened_to():
    with server() as to:
        to._shares = {"21", "22", "23"}  # what has to be followed before it begins
        items = heard(feed(to), to, fixture_ids=[1002])

    tracker = tracker_of(POLYMARKET)
    for item in items:
        tracker.take(record_of(item))
    assert list(tracker.fixtures) == [1002]
    with server() as to, pytest.raises(FeedError, match="none of the events is fixture 7: add it to CLVLAB_POLYMARKET_EVENTS"):
        heard(feed(to), to, fixture_ids=[7])


def test_a_cut_of_one_connection_of_several_names_its_assets_and_leaves_the_others():
    with server("cut@60", messages=300) as to:
        items = heard(feed(to, assets_per_connection=3), to)

    assert len(to.peers) == 3
    *_, cut = cuts(items)
    assert set(cut.markets) in ({"11", "12", "13"}, {"21", "22", "23"})
    tracker, _, wrong = misfits(POLYMARKET, items, model(to), changes_of)
    assert wrong == []
    assert tracker.ledger()[-1].markets == cut.markets


def test_each_connection_of_several_is_cut_until_it_stands():
    with server(messages=300) as to:
        items = heard(feed(to, assets_per_connection=3), to)

    gaps = [item for item in items if not isinstance(item, FeedMessage)]
    assert {frozenset(cut.markets) for cut in cuts(items)} == {frozenset({"11", "12", "13"}), frozenset({"21", "22", "23"})}
    assert (type(items[0]), type(gaps[-1])) == (Cut, Resumption)


def test_a_connection_that_stays_cut_is_cut_again_after_another_one_is_resumed():
    with server("cut@60,cut@64,cut@66,cut@70", messages=300, missed=20) as to:
        items = heard(feed(to, assets_per_connection=3), to)

    open_cuts = set()
    for item in items:
        if isinstance(item, Cut):
            open_cuts |= set(item.markets)
        elif isinstance(item, Resumption):
            open_cuts.clear()
        else:
            assert not any(share in open_cuts for share, _ in changes_of(item.text))
    assert misfits(POLYMARKET, items, model(to), changes_of)[2] == []


def test_silence_with_heartbeats_is_a_cut_once_it_lasts_longer_than_the_patience():
    with server("stall@100:1.2") as to:
        patient = heard(feed(to, heartbeat_s=0.1), to, quiet_s=0.3)
    with server("stall@100:3600") as to:
        hasty = heard(feed(to, heartbeat_s=0.1, patience=replace(QUICK, data_s=0.5)), to)

    assert cuts(patient) == []
    assert {cut.cause for cut in cuts(hasty)} == {GapCause.SILENCE}
    assert misfits(POLYMARKET, hasty, model(to), changes_of)[2] == []


def test_no_byte_at_all_is_a_cut_before_silence_of_messages_is():
    with server("stall@100:3600") as to:
        items = heard(feed(to, heartbeat_s=3600.0, patience=replace(QUICK, silence_s=0.5)), to)

    assert {cut.cause for cut in cuts(items)} == {GapCause.SILENCE}


@pytest.mark.parametrize("status", ["401@0", "401@50,cut@50"])
def test_a_refusal_that_no_try_can_mend_ends_the_feed_and_names_the_setting(status):
    with server(status) as to, pytest.raises(FeedError, match=r"HTTP 401: check CLVLAB_POLYMARKET_(GAMMA_)?URL"):
        heard(feed(to), to)


def test_an_event_that_is_not_there_ends_the_feed():
    with server() as to, pytest.raises(FeedError, match="Polymarket has no event 'no-such': check CLVLAB_POLYMARKET_EVENTS"):
        feed(to, events=["no-such"]).fixtures()
    with pytest.raises(FeedError, match="set CLVLAB_POLYMARKET_EVENTS"):
        PolymarketFeed(events=[])


def test_a_provider_that_is_not_there_is_tried_again_until_stopped():
    with server() as to:
        url, gamma_url = to.url, to.http_url
    own, stop = PolymarketFeed(events=["match-1"], url=url, gamma_url=gamma_url, patience=QUICK), Stop()
    threading.Timer(0.4, stop.set).start()

    assert list(own.listen(stop)) == []
    assert own.health.retries > 0
    assert not own.health.connected
    assert "Connect" in own.health.error
    with pytest.raises(FeedError, match="gamma can't be asked now"):
        own.fixtures()


def test_stopping_ends_it_and_closes_the_connection():
    with server(messages=20) as to:
        own, stop = feed(to), Stop()
        listening = own.listen(stop)
        for _ in range(5):
            next(listening)
        stop.set()
        list(listening)
        assert to.peers[0].socket.wait_closed(PATIENCE_S)


def test_stopping_ends_it_while_nobody_answers():
    with socket.create_server(("127.0.0.1", 0)) as mute:
        where = f"127.0.0.1:{mute.getsockname()[1]}"
        patience = Patience(3600.0, 3600.0, 3600.0, 0.01, 0.05)
        own, stop = PolymarketFeed(events=["a"], url=f"ws://{where}", gamma_url=f"http://{where}", patience=patience), Stop()
        threading.Timer(0.2, stop.set).start()
        assert list(own.listen(stop)) == []


def test_what_was_heard_and_written_down_is_imported_as_the_same_ticks(tmp_path):
    with server("cut@60,malformed@120") as to:
        items = heard(feed(to), to)
    tracker = tracker_of(POLYMARKET)
    live = [message for item in items for message in tracker.take(record_of(item))]

    imported = POLYMARKET.normalise({name_of(1): written(tmp_path, POLYMARKET, items)}, Options(lenient=True), tmp_path)

    assert imported.ticks.equals(ticks_of(live).sort("fixture_id", "tick_seq", "side"))
    assert [fixture.fixture_id for fixture in imported.fixtures] == [1001, 1002]
    assert imported.capture.gaps == tracker.ledger()


def test_leaving_off_closes_the_connection():
    with server(messages=20) as to:
        listening = feed(to).listen(Stop())
        for _ in range(5):
            next(listening)
        listening.close()
        assert to.peers[0].socket.wait_closed(PATIENCE_S)


def test_a_mark_is_answered_by_saying_that_nothing_is_replayed():
    with server() as to:
        items = heard(feed(to), to, after="anything")

    assert isinstance(items[0], Resumption)
    assert not items[0].replayed


def test_the_clocks_of_provider_and_machine_may_differ():
    with server("skew@100:3600") as to:
        own = feed(to)
        items = heard(own, to)

    last = [item for item in items if isinstance(item, FeedMessage)][-1]
    assert last.provider_ts_ms == START_MS + 100 * 200 + 3_600_000
    assert own.health.clock_skew_ms == last.provider_ts_ms - last.received_ts_ms


def test_a_market_that_is_suspended_over_the_close_ends_without_a_price():
    with server(closes=True) as to:
        items = heard(feed(to), to)

    _, last, wrong = misfits(POLYMARKET, items, model(to), changes_of)
    assert wrong == []
    assert all(message.suspended for message in last.values())


def test_what_is_on_this_machine_is_never_called_genuine():
    assert PolymarketFeed(events=["a"], url="ws://127.0.0.1:1").provenance == "synthetic-devfeed"
    assert PolymarketFeed(events=["a"]).provenance == "genuine-polymarket"


def test_a_plan_without_faults_loses_nothing():
    with PolymarketServer.synthetic(messages=500, start_ms=START_MS, plan=FaultPlan()) as to:
        items = heard(feed(to), to)

    assert of_socket(items, is_description) == [to.peers[0].sent]
    assert cuts(items) == []


def script_of(folder):
    """Books half a cent around the prices of a real history, all of its changes at times of their own."""
    quotes = [
        (quote["ts"] * 1000, name, round(quote["native_price"] * 1000))
        for name in ("home", "draw", "away")
        for quote in map(orjson.loads, gzip.decompress((folder / f"{name}.jsonl.gz").read_bytes()).splitlines())
    ]
    known, opening, changes, at = {}, [], [], 0
    for ts_ms, name, price in sorted(quotes):
        levels = {(True, max(price - 5, 1)): 100, (False, min(price + 5, 999)): 100}
        before = known.get(name, {})
        for level in sorted(before.keys() ^ levels.keys()):
            at = max(at + 1, ts_ms)
            (changes if before else opening).append(LadderChange(name, at, *level, levels.get(level, 0)))
        known[name] = levels
    return LadderScript(opening, changes)


@pytest.mark.realdata
def test_books_around_real_prices_through_cuts_are_read_as_they_were(realdata):
    fixture = orjson.loads((realdata / "polymarket" / "fixtures.json").read_bytes())[0]
    script = script_of(realdata / "polymarket" / str(fixture["fixture_id"]))
    names = {"home": "part1", "draw": "draw", "away": "part2"}
    plan = read_plan("cut@50,cut@100,cut@150")
    with PolymarketServer([match_event(1, assets=list(names))], script, plan) as to:
        items = heard(feed(to), to)

    own = Model(script, {name: ((1001, MATCH), side) for name, side in names.items()})
    tracker, last, wrong = misfits(POLYMARKET, items, own, changes_of)
    assert wrong == []
    assert (len(script.changes) > 200, len(cuts(items)), sum(tracker.unreadable.values())) == (True, 3, 0)
    assert own.fits((1001, MATCH), max(at for _, at in own.at), last[1001, MATCH])
