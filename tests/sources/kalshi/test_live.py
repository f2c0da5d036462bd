import logging
import threading
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from clvlab.errors import FeedError
from clvlab.sources.capture.feed import Cut, FeedMessage, GapCause, Resumption, Stop
from clvlab.sources.devfeeds.faults import read_plan
from clvlab.sources.devfeeds.kalshi import KEY_ID, KalshiServer
from clvlab.sources.kalshi.live import API_URL, URL, KalshiFeed
from clvlab.sources.kalshi.messages import SOURCE as KALSHI
from clvlab.sources.source import fixture_id_of
from tests.length import length
from tests.sources.capture.venues import QUICK, START_MS, Model, heard, json_of, misfits, of_socket, record_of, tracker_of
from tests.waiting import PATIENCE_S

SIDES = {"HOM": "part1", "TIE": "draw", "AWY": "part2"}


@pytest.fixture
def key_file(tmp_path):
    return tmp_path / "key.pem"


def server(plan="", **how):
    return KalshiServer.synthetic(**{"messages": 200, "start_ms": START_MS, "plan": read_plan(plan), "ping_s": 0.2} | how)


def feed(to, key_file, **how):
    to.write_key(key_file)
    where = {"key_id": KEY_ID, "private_key_file": key_file, "url": to.url, "api_url": to.api_url, "patience": QUICK}
    return KalshiFeed(**where | ({} if "tickers" in how else {"event_tickers": list(to.events)}) | how)


def model(of):
    return Model(
        of._script,
        {
            market["ticker"]: ((fixture_id_of(event), "1X2_PARTICIPANT_RESULT||"), SIDES[market["ticker"].rpartition("-")[2]])
            for event in of.events
            for market in of.events[event]["markets"]
        },
    )


def is_description(text):
    return b'"close_time"' in text


def changes_of(text):
    message = json_of(text)
    is_delta = isinstance(message, dict) and message.get("type") == "orderbook_delta"
    return [(message["msg"]["market_ticker"], message["msg"]["ts_ms"])] if is_delta else []


def cuts(items):
    return [item for item in items if isinstance(item, Cut)]


@pytest.mark.long
@pytest.mark.parametrize("in_dollars", [False, True])
def test_thousands_of_messages_through_every_fault_are_received_in_order_or_lie_within_a_gap_and_read_as_the_script_says(
    key_file, in_dollars
):
    plan = (
        "cut@200,cut@800,500@900,cut@900,stall@1300:0.3,duplicate@1400,out-of-order@1500,cut@1700,429@1700,malformed@2000,"
        "sequence-hole@2300,cut@2700"
    )
    with server(plan, messages=length(3_000, 10_000), in_dollars=in_dollars) as to:
        items = heard(feed(to, key_file), to)

    connections = of_socket(items, is_description)
    assert len(connections) == len(to.peers) >= 6  # a connection that the feed gives up can be cut off meanwhile
    for received, peer in zip(connections, to.peers, strict=True):
        assert received == peer.sent[: len(received)]
    assert [cut.markets for cut in cuts(items) if cut.cause is GapCause.CUT] == [()] * (len(to.peers) - 1)
    holes = [cut for cut in cuts(items) if cut.cause is GapCause.SEQUENCE]
    assert holes  # a second one can lie within the first, which lasts until the new subscription is answered
    assert all(len({ticker.rpartition("-")[0] for ticker in hole.markets}) == 1 for hole in holes)

    tracker, last, wrong = misfits(KALSHI, items, model(to), changes_of)
    assert wrong == []
    assert sum(tracker.unreadable.values()) == 1
    assert tracker.arrival.counts["stale"] == 0
    assert all(model(to).fits(market, max(at for own, at in model(to).at if own == market), last[market]) for market in last)


def test_a_hole_in_the_numbers_cuts_the_tickers_of_its_subscription_alone_until_they_are_subscribed_again(key_file):
    with server("sequence-hole@60") as to:
        items = heard(feed(to, key_file), to)

    (cut,) = cuts(items)
    (resumed,) = [number for number, item in enumerate(items) if isinstance(item, Resumption)]
    assert cut.cause is GapCause.SEQUENCE
    assert len(cut.markets) == 3
    assert [json_of(item.text)["type"] for item in items[resumed + 1 : resumed + 3]] == ["subscribed", "orderbook_snapshot"]
    assert len(to.peers) == 1
    tracker, _, wrong = misfits(KALSHI, items, model(to), changes_of)
    assert wrong == []
    assert [gap.cause for gap in tracker.ledger()] == ["sequence-hole"]


def test_a_change_that_can_t_be_read_is_a_hole(key_file):
    class Lying(KalshiServer):
        def text(self, peer, change, added):
            message = super().text(peer, change, added)
            return message.replace('"delta":', '"delta":"NaN","was":') if self.number == 60 else message

    with Lying.synthetic(messages=200, start_ms=START_MS, ping_s=0.2) as to:
        items = heard(feed(to, key_file), to)

    (cut,) = cuts(items)
    assert cut.cause is GapCause.SEQUENCE
    assert len(cut.markets) == 3
    assert sum(isinstance(item, Resumption) for item in items) == 1


def test_neither_key_nor_signature_is_logged(key_file, caplog):
    caplog.set_level(logging.DEBUG)
    with server() as to:
        heard(feed(to, key_file), to)

    lines = [record.getMessage() for record in caplog.records if record.name != "websockets.server"]
    assert lines
    assert not any(KEY_ID in text or "ACCESS" in text for text in lines)


def test_rest_comes_first_and_describes_the_fixtures(key_file):
    with server() as to:
        own = feed(to, key_file)
        fixtures = own.fixtures()
        items = heard(own, to)

    assert [(fixture.names, fixture.source_id, fixture.kickoff_ts_ms) for fixture in fixtures] == [
        (("Home 1", "Away 1"), "MATCH-1", START_MS + 7_200_000),
        (("Home 2", "Away 2"), "MATCH-2", START_MS + 7_200_000),
    ]
    assert [is_description(item.text) for item in items[:3]] == [True, True, False]


def test_tickers_by_themselves_are_markets_of_yes_and_no(key_file):
    with server(matches=1) as to:
        to._shares = {"MATCH-1-HOM"}
        items = heard(feed(to, key_file, tickers=["MATCH-1-HOM"]), to)

    tracker = tracker_of(KALSHI)
    messages = [message for item in items for message in tracker.take(record_of(item))]
    assert {(message.market_key, message.sides) for message in messages} == {("MATCH-1-HOM||", ("no", "yes"))}


def test_no_ping_for_longer_than_the_patience_is_a_cut(key_file):
    with server("stall@100:3600", ping_s=None) as to:
        items = heard(feed(to, key_file, patience=replace(QUICK, silence_s=2.0)), to)
    assert GapCause.SILENCE in {cut.cause for cut in cuts(items)}

    with server("stall@100:6", ping_s=0.1) as to:
        items = heard(feed(to, key_file, patience=replace(QUICK, silence_s=5.0)), to)
    assert cuts(items) == []


def test_pings_without_messages_are_a_cut_after_a_longer_patience(key_file):
    with server("stall@100:3600", ping_s=0.1) as to:
        items = heard(feed(to, key_file, patience=replace(QUICK, data_s=0.5)), to)

    assert {cut.cause for cut in cuts(items)} == {GapCause.SILENCE}


def test_a_wrong_key_ends_the_feed_and_is_not_printed(key_file, tmp_path):
    with server() as to, pytest.raises(FeedError, match="HTTP 401: check CLVLAB_KALSHI_KEY_ID, _PRIVATE_KEY_FILE") as refused:
        heard(feed(to, key_file, key_id="the-wrong-one"), to)
    assert "the-wrong-one" not in str(refused.value)

    with server() as to, server() as other:
        own = feed(to, key_file, private_key_file=other.write_key(tmp_path / "other.pem"))
        with pytest.raises(FeedError, match="HTTP 401"):
            heard(own, to)
    assert "key" not in repr(own)


def test_a_key_file_that_holds_no_rsa_key_is_named(key_file):
    with pytest.raises(
        FeedError, match=r"CLVLAB_KALSHI_PRIVATE_KEY_FILE '.*key.pem' can't be read as a PEM key: FileNotFoundError"
    ):
        KalshiFeed(key_id="k", private_key_file=key_file, tickers=["A"])
    key_file.write_bytes(ed25519.Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(FeedError, match="holds no RSA key"):
        KalshiFeed(key_id="k", private_key_file=key_file, tickers=["A"])
    with pytest.raises(FeedError, match="set CLVLAB_KALSHI_EVENT_TICKERS or _TICKERS"):
        KalshiFeed(key_id="k", private_key_file=key_file)


def test_an_event_that_is_not_there_ends_the_feed(key_file):
    with (
        server() as to,
        pytest.raises(FeedError, match="HTTP 404: check CLVLAB_KALSHI_EVENT_TICKERS, _TICKERS and _API_URL, for 'events/NONE'"),
    ):
        heard(feed(to, key_file, event_tickers=["NONE"]), to)


def test_a_ticker_that_kalshi_does_not_take_ends_the_feed(key_file):
    with server(matches=1) as to:
        to._shares = {"MATCH-1-HOM"}
        with pytest.raises(FeedError, match="error 16: Market not found; check CLVLAB_KALSHI_EVENT_TICKERS"):
            heard(feed(to, key_file), to)


def test_stopping_ends_it_and_closes_the_connection(key_file):
    with server(messages=20) as to:
        own, stop = feed(to, key_file), Stop()
        listening = own.listen(stop)
        for _ in range(5):
            next(listening)
        threading.Timer(0.1, stop.set).start()
        list(listening)
        assert to.peers[0].socket.wait_closed(PATIENCE_S)


def test_a_market_that_is_suspended_over_the_close_ends_without_a_price(key_file):
    with server(closes=True) as to:
        items = heard(feed(to, key_file), to)

    _, last, wrong = misfits(KALSHI, items, model(to), changes_of)
    assert wrong == []
    assert all(message.suspended for message in last.values())


def test_health_says_how_it_is(key_file):
    with server("skew@100:60") as to:
        own = feed(to, key_file)
        items = heard(own, to)

    last = [item for item in items if isinstance(item, FeedMessage)][-1]
    assert last.provider_ts_ms == START_MS + 20_000 + 60_000
    assert own.health.clock_skew_ms == last.provider_ts_ms - last.received_ts_ms
    assert own.health.heard_ts_ms > own.health.data_ts_ms
    assert own.health.error is None


def test_what_is_on_this_machine_is_never_called_genuine(key_file):
    with server() as to:
        assert feed(to, key_file).provenance == "synthetic-devfeed"
        assert feed(to, key_file, url=URL, api_url=API_URL).provenance == "genuine-kalshi"
