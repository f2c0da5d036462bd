import bz2
import http.server
import itertools
import logging
import threading
import time

import orjson
import polars as pl
import pytest

from clvlab.errors import FeedError
from clvlab.sources.betfair import history as importer
from clvlab.sources.betfair.live import BetfairFeed
from clvlab.sources.betfair.messages import SOURCE, BetfairReader
from clvlab.sources.capture.feed import Cut, FeedMessage, GapCause, Resumption, Stop
from clvlab.sources.capture.records import CaptureRecord, Header, cut_line, message_line, resumed_line
from clvlab.sources.capture.source import Tracker
from clvlab.sources.devfeeds.betfair import BetfairServer, Conversation, LeftError, made_up_markets
from clvlab.sources.devfeeds.faults import read_plan
from clvlab.sources.source import Options, fixture_id_of
from tests.length import length
from tests.waiting import PATIENCE_S

SECRETS = ("key", "session")


def feed_of(server, **other):
    settings = {
        "app_key": "key", "session_token": lambda: "session", "host": server.host, "port": server.port, "cafile": server.cafile,
        "heartbeat_ms": 500, "backoff_s": (0.01, 0.05),
    }  # fmt: skip
    return BetfairFeed(**settings | other)


def heard(feed, last_ms, **options):
    """Everything up to the message of a time."""
    stop, items = Stop(), []
    timer = threading.Timer(PATIENCE_S, stop.set)
    timer.start()
    for item in feed.listen(stop, **options):
        items.append(item)
        if isinstance(item, FeedMessage) and item.provider_ts_ms == last_ms:
            stop.set()
    timer.cancel()
    assert items
    assert getattr(items[-1], "provider_ts_ms", None) == last_ms, items[-1]
    return items


def times(items):
    return [item.provider_ts_ms for item in items if isinstance(item, FeedMessage)]


def turns(items):
    return [item for item in items if not isinstance(item, FeedMessage)]


def record_of(item):
    if isinstance(item, FeedMessage):
        return CaptureRecord(item.received_ts_ms, item.text, item.mark)
    if isinstance(item, Cut):
        return CaptureRecord(item.from_ts_ms, cut={"cause": item.cause, "markets": item.markets, "resumable": item.resumable})
    return CaptureRecord(item.to_ts_ms, resumed={"replayed": item.replayed})


def line_of(item):
    if isinstance(item, FeedMessage):
        return message_line(item.text, item.received_ts_ms, item.mark)
    if isinstance(item, Cut):
        return cut_line(item.from_ts_ms, item.cause, item.markets, resumable=item.resumable)
    return resumed_line(item.to_ts_ms, replayed=item.replayed)


def read(items):
    """What a run's tape says: market, whether it is suspended, and the odds, by message."""
    tracker = Tracker(Header("betfair", "synthetic-devfeed", "c", 1, None, live=True), BetfairReader(live=True))
    messages = [message for item in items for message in tracker.take(record_of(item))]
    return [(each.market_key, each.fixture_id, each.suspended, each.odds_milli) for each in messages], tracker


class Model:
    """Markets of a script, as plainly as can be: the best back offers of the runners of each."""

    def __init__(self):
        self.markets = {}

    def take(self, change):
        definition, offers = self.markets.get(change["id"], (None, {}))
        definition = change.get("marketDefinition", definition)
        offers = {} if change.get("img") else offers
        for delta in change.get("rc", ()):
            own = offers.setdefault(delta["id"], {})
            own.update(delta["atb"])
        self.markets[change["id"]] = definition, offers
        return self.state(change["id"])

    def state(self, market_id, *, known=True):
        definition, offers = self.markets[market_id]
        open_ = known and definition["status"] == "OPEN"
        odds = tuple(
            round(1000 * max(price for price, size in offers[runner["id"]].items() if size)) if open_ else None
            for runner in definition["runners"]
        )
        return definition["marketType"] + "||", fixture_id_of(definition["eventId"]), not open_, odds


@pytest.mark.long
def test_through_five_cuts_every_message_comes_once_and_in_order():
    script = made_up_markets(1, messages=length(3_000, 10_000))
    model = Model()

    with BetfairServer(script, read_plan("cut@0,cut@7,cut@400,cut@401,cut@2500")) as server:
        items = heard(feed_of(server), script[-1]["pt"])

    assert times(items) == [message["pt"] for message in script]
    assert [orjson.loads(item.text)["mc"] for item in items if isinstance(item, FeedMessage)] == [m["mc"] for m in script]
    assert {item.text for item in items if isinstance(item, FeedMessage)} <= set(server.sent)
    assert [(type(item), getattr(item, "resumable", True)) for item in turns(items)] == [(Cut, True), (Resumption, True)] * 5
    assert all(item.replayed for item in turns(items) if isinstance(item, Resumption))
    messages, tracker = read(items)
    assert messages == [model.take(change) for message in script for change in message["mc"]]
    assert [gap.replayed for gap in tracker.ledger()] == [True] * 5


def test_where_the_clock_is_too_old_an_image_comes_and_what_was_missed_lies_within_a_gap():
    script = made_up_markets(2, messages=2000)
    number_of = {message["pt"]: n for n, message in enumerate(script)}
    model = Model()
    plan = ",".join(f"cut@{n},old-snapshot@{n}" for n in (300, 700, 701, 1100, 1500))

    with BetfairServer(script, read_plan(plan), missed=20, segment=3) as server:
        items = heard(feed_of(server), script[-1]["pt"])

    assert [item.replayed for item in turns(items) if isinstance(item, Resumption)] == [False] * 5
    expected, at = [], 0
    for n, item in enumerate(items):
        if isinstance(item, Resumption):
            upto = number_of[items[n + 1].provider_ts_ms] + 1
            for message in script[at:upto]:
                model.take(message["mc"][0])
                assert items[n - 1].from_ts_ms <= item.to_ts_ms
            before = [row for row in {row[:2]: row for row in expected}.values() if not row[2]]
            expected += sorted((row[0], row[1], True, (None,) * len(row[3])) for row in before)
            at = upto
        elif isinstance(item, FeedMessage):
            message = orjson.loads(item.text)
            if message.get("ct") == "SUB_IMAGE":
                expected += sorted((model.state(change["id"]) for change in message["mc"]), key=lambda row: (row[1], row[0]))
                continue
            assert number_of[item.provider_ts_ms] == at
            expected.append(model.take(script[at]["mc"][0]))
            at += 1
    assert at == len(script)
    messages, tracker = read(items)
    assert not tracker.unreadable
    assert by_market(messages) == by_market(expected)


@pytest.mark.parametrize(
    ("plan", "cuts"),
    [("stall@50:1.2", 0), ("429@50:0.2", 1), ("500@50,500@60", 2), ("malformed@50", 1), ("cut@3,500@3,429@3:0.1", 1)],
)
def test_other_faults_lose_nothing(plan, cuts):
    script = made_up_markets(3, messages=300)

    with BetfairServer(script, read_plan(plan)) as server:
        feed = feed_of(server)
        items = heard(feed, script[-1]["pt"])

    assert [each for each in times(items) if each is not None] == [message["pt"] for message in script]
    assert len(turns(items)) == 2 * cuts
    assert sum(item.provider_ts_ms is None for item in items if isinstance(item, FeedMessage)) == plan.count("malformed")
    assert (feed.health.retries, feed.health.error) == (0, None)


def test_a_refusal_for_too_many_requests_is_a_gap_of_its_own_kind():
    script = made_up_markets(3, messages=300)

    with BetfairServer(script, read_plan("429@50")) as server:
        cut, resumed = turns(heard(feed_of(server), script[-1]["pt"]))

    assert (cut.cause, cut.resumable, resumed.replayed) == (GapCause.QUOTA, True, True)


def test_a_broken_line_is_kept_refused_by_the_reader_and_sent_again():
    script = made_up_markets(3, messages=300)
    model = Model()

    with BetfairServer(script, read_plan("malformed@50")) as server:
        messages, tracker = read(heard(feed_of(server), script[-1]["pt"]))

    assert messages == [model.take(change) for message in script for change in message["mc"]]
    assert sum(tracker.unreadable.values()) == 1


def test_a_message_that_is_sent_twice_comes_twice_and_changes_nothing():
    script = made_up_markets(4, messages=100)

    with BetfairServer(script, read_plan("duplicate@50")) as server:
        items = heard(feed_of(server), script[-1]["pt"])

    assert times(items) == [message["pt"] for message in script[:51] + script[50:]]
    assert [row for row, _ in itertools.groupby(read(items)[0])] == [row for row, _ in itertools.groupby(states_of(script))]


def by_market(rows):
    return [[row for row in rows if row[:2] == market] for market in sorted({row[:2] for row in rows})]


def states_of(script):
    model = Model()
    return [model.take(change) for message in script for change in message["mc"]]


def test_health_has_the_skew_of_the_providers_clock():
    script = made_up_markets(5, messages=100)

    with BetfairServer(script, read_plan("skew@50:3600")) as server:
        feed = feed_of(server)
        items = heard(feed, script[-1]["pt"] + 3_600_000)

    assert times(items) == [message["pt"] + 3_600_000 * (n >= 50) for n, message in enumerate(script)]
    assert feed.health.clock_skew_ms == items[-1].provider_ts_ms - items[-1].received_ts_ms


def test_heartbeats_alone_for_longer_than_the_patience_are_a_silence():
    script = made_up_markets(6, messages=100)

    with BetfairServer(script, read_plan("stall@50:3600")) as server:
        items = heard(feed_of(server, data_patience_s=0.7), script[-1]["pt"])

    assert times(items) == [message["pt"] for message in script]
    assert turns(items)[0].cause is GapCause.SILENCE
    assert all(item.replayed for item in turns(items) if isinstance(item, Resumption))


def test_a_server_that_falls_silent_counts_as_dead(monkeypatch):
    script = made_up_markets(6, messages=100)
    with BetfairServer(script, read_plan("stall@50:3600")) as server:
        feed, stop = feed_of(server), Stop()
        monkeypatch.setattr(Conversation, "_beat", lambda _: None)
        for item in feed.listen(stop):
            if isinstance(item, Cut):
                stop.set()
                assert (item.cause, item.resumable) == (GapCause.SILENCE, True)
                assert "not even heartbeats" in feed.health.error


def test_a_heartbeat_before_the_answer_does_not_have_what_was_missed_left_out(monkeypatch):
    script, clocks = made_up_markets(6, messages=100), []
    subscribe = Conversation._subscribe

    def beat_and_leave_once(self, clk):
        clocks.append(clk)
        if len(clocks) == 2:
            self._say({"op": "mcm", "id": self._id, "ct": "HEARTBEAT", "clk": "99", "pt": 0})
            raise LeftError
        return subscribe(self, clk)

    monkeypatch.setattr(Conversation, "_subscribe", beat_and_leave_once)
    with BetfairServer(script, read_plan("cut@50")) as server:
        items = heard(feed_of(server), script[-1]["pt"])

    assert clocks == [None, 50, 50]
    assert times(items) == [message["pt"] for message in script]
    assert len(turns(items)) == 2


def test_an_image_in_segments_is_a_message_each_and_resumed_after_the_last_alone():
    script = made_up_markets(7, messages=60)

    with BetfairServer(script, published=4, segment=1) as server:
        items = heard(feed_of(server), script[-1]["pt"])

    assert [orjson.loads(item.text).get("segmentType") for item in items[:5]] == ["SEG_START", "SEG", "SEG", "SEG_END", None]
    assert [item.mark is not None for item in items[:5]] == [False, False, False, True, True]
    assert all(not item.text.endswith(b"\r\n") for item in items)


@pytest.mark.parametrize(("kept", "replayed"), [(1000, True), (0, False)])
def test_a_mark_has_the_feed_say_first_whether_what_was_missed_comes_now(kept, replayed):
    script = made_up_markets(8, messages=200)

    with BetfairServer(script, read_plan("cut@120"), kept=kept) as server:
        first = []
        for item in feed_of(server).listen(Stop()):
            first.append(item)
            if len(first) == 100:
                break
        then = heard(feed_of(server), script[-1]["pt"], after=first[-1].mark)

    assert then[0] == Resumption(then[0].to_ts_ms, replayed=replayed)
    if replayed:
        assert times(first) + times(then) == [message["pt"] for message in script]


def test_fixtures_are_the_events_of_the_markets_and_can_be_subscribed_to():
    script = made_up_markets(9, events=3, messages=200)

    with BetfairServer(script, published=6) as server:
        feed = feed_of(server)
        fixtures = feed.fixtures()
        wanted = fixtures[0]
        own = [n for n, m in enumerate(script) if m["mc"][0]["id"].startswith(f"1.{wanted.source_id[-1]}")]
        items = heard(feed_of(server), script[own[-1]]["pt"], fixture_ids=[wanted.fixture_id])

    assert {fixture.source_id: fixture.fixture_id for fixture in fixtures} == {
        each: fixture_id_of(each) for each in ("9001", "9002", "9003")
    }
    assert {fixture.kickoff_ts_ms for fixture in fixtures} == {1_780_007_200_000}
    ids = {change["id"] for item in items for change in orjson.loads(item.text)["mc"]}
    assert ids == {script[n]["mc"][0]["id"] for n in own}


def test_stopping_ends_it():
    script = made_up_markets(10, messages=60)

    with BetfairServer(script) as server:
        stop, feed = Stop(), feed_of(server)
        items = feed.listen(stop)
        next(items)
        threading.Timer(0.3, stop.set).start()
        assert len(list(items)) == len(script) - 1
        assert not feed.health.connected
        assert not [thread for thread in threading.enumerate() if thread.name == "betfair-stream"]


def test_a_server_that_is_not_there_is_tried_again_until_stopped():
    with BetfairServer([]) as server:
        feed = feed_of(server)
    stop = Stop()
    threading.Timer(0.5, stop.set).start()

    assert list(feed.listen(stop)) == []
    assert feed.health.retries > 2
    assert "no connection" in feed.health.error
    with pytest.raises(FeedError, match="check CLVLAB_BETFAIR_HOST, _PORT and _CAFILE"):
        feed.fixtures()


@pytest.mark.parametrize(
    ("other", "mends"),
    [
        ({"app_key": "secret-1"}, "INVALID_APP_KEY: check CLVLAB_BETFAIR_APP_KEY"),
        ({"app_key": ""}, "NO_APP_KEY: check CLVLAB_BETFAIR_APP_KEY"),
        (
            {"session_token": lambda: "secret-2"},
            "INVALID_SESSION_INFORMATION: check CLVLAB_BETFAIR_SESSION_TOKEN, or _USERNAME and _PASSWORD",
        ),
        ({"cafile": None}, "see CLVLAB_BETFAIR_CAFILE"),
    ],
)
def test_what_trying_again_cant_mend_is_an_error_that_names_the_setting(other, mends):
    with BetfairServer(made_up_markets(1, messages=60)) as server:
        feed = feed_of(server, **other)

        with pytest.raises(FeedError, match=mends) as raised:
            list(feed.listen(Stop()))

    assert "secret" not in f"{raised.value}{feed!r}{feed.health!r}"
    assert (feed.health.connected, feed.health.error) == (False, str(raised.value))


def test_a_session_that_is_refused_midway_is_an_error():
    with (
        BetfairServer(made_up_markets(1, messages=60), read_plan("401@20")) as server,
        pytest.raises(FeedError, match="INVALID_SESS"),
    ):
        list(feed_of(server).listen(Stop()))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"heartbeat_ms": 100}, "heartbeat_ms"),
        ({"conflate_ms": -1}, "conflate_ms"),
        ({"login_url": "http://betfair.example/api/"}, "CLVLAB_BETFAIR_LOGIN_URL must begin with https"),
        ({"login_url": "ftp://127.0.0.1/"}, "CLVLAB_BETFAIR_LOGIN_URL must begin with https"),
        ({"session_token": None}, "set CLVLAB_BETFAIR_SESSION_TOKEN, or _USERNAME and _PASSWORD"),
    ],
)
def test_a_setting_out_of_range_is_refused(other, message):
    with pytest.raises(FeedError, match=message):
        BetfairFeed(**{"app_key": "key", "session_token": lambda: "session"} | other)


def test_an_unknown_fixture_and_a_mark_of_another_feed_are_errors():
    with BetfairServer(made_up_markets(1, messages=60), published=4) as server:
        with pytest.raises(FeedError, match="no market of fixture 7"):
            list(feed_of(server).listen(Stop(), [7]))
        with pytest.raises(FeedError, match="is no mark"):
            list(feed_of(server).listen(Stop(), after="x"))


def test_only_messages_of_another_machine_are_genuine():
    labels = {
        host: BetfairFeed(app_key="key", session_token=str, host=host).provenance
        for host in ("127.0.0.1", "127.1", "::1", "localhost", "0.0.0.0", "stream-api.betfair.com")
    }

    assert [host for host, label in labels.items() if label == "genuine-betfair"] == ["stream-api.betfair.com"]


def test_neither_key_nor_session_is_logged(caplog):
    caplog.set_level(logging.DEBUG)
    script = made_up_markets(1, messages=60)

    with BetfairServer(script, app_key="secret-1", session="secret-2") as server:
        heard(feed_of(server, app_key="secret-1", session_token=lambda: "secret-2"), script[-1]["pt"])

    assert "secret" not in caplog.text


class _Login(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        sent = self.rfile.read(int(self.headers["Content-Length"])).decode()
        good = "username=me&password=secret" in sent
        answer = (
            {"status": "SUCCESS", "token": "session"} if good else {"status": "FAIL", "error": "INVALID_USERNAME_OR_PASSWORD"}
        )
        self.send_response(200)
        self.end_headers()
        self.wfile.write(orjson.dumps(answer))

    def log_message(self, *_):
        return


def test_an_account_is_logged_in_and_a_wrong_one_is_an_error_without_its_password():
    script = made_up_markets(1, messages=60)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Login) as login, BetfairServer(script) as server:
        threading.Thread(target=login.serve_forever, args=(0.05,), daemon=True).start()
        account = {"session_token": None, "username": "me", "login_url": f"http://127.0.0.1:{login.server_port}/"}

        items = heard(feed_of(server, **account, password="secret"), script[-1]["pt"])
        with pytest.raises(FeedError, match="check CLVLAB_BETFAIR_USERNAME, _PASSWORD and _APP_KEY") as raised:
            list(feed_of(server, **account, password="sesame").listen(Stop()))
        login.shutdown()

    assert len(items) == len(script)
    assert "sesame" not in str(raised.value)


def test_a_slow_listener_makes_the_sender_wait_and_loses_nothing(monkeypatch):
    monkeypatch.setattr("clvlab.sources.betfair.live._QUEUED", 5)
    script = made_up_markets(1, messages=200)

    with BetfairServer(script) as server:
        stop, received = Stop(), []
        for item in feed_of(server).listen(stop):
            received.append(item)
            time.sleep(0.002)
            if item.provider_ts_ms == script[-1]["pt"]:
                stop.set()

    assert times(received) == [message["pt"] for message in script]


def cut_five_times(path, script, tmp_path):
    """What a capture becomes that was cut five times, and what the importer makes of the file."""
    with BetfairServer(script, read_plan(",".join(f"cut@{n * len(script) // 6}" for n in range(1, 6)))) as server:
        items = heard(feed_of(server), script[-1]["pt"])
    assert len(turns(items)) == 10
    for folder in ("capture", "ours", "theirs"):
        (tmp_path / folder).mkdir()
    segment = tmp_path / "capture" / "000001.jsonl"
    header = Header("betfair", "synthetic-devfeed", "c", 1, None)
    segment.write_bytes(header.line() + b"".join(line_of(item) for item in items))
    ours = SOURCE.normalise({segment.name: segment}, Options(), tmp_path / "ours")
    return ours, importer.normalise({path.name: path}, Options(), tmp_path / "theirs")


@pytest.mark.usefixtures("every_message")
@pytest.mark.realdata
@pytest.mark.parametrize("name", length(["1.197931750"], ["1.197931750", "1.200806927", "BASIC-1.132153978"]))
def test_a_real_stream_through_five_cuts_has_the_ticks_of_its_file(realdata, tmp_path, name):
    path = realdata / "betfair-stream" / f"{name}.bz2"
    script = [orjson.loads(line) for line in bz2.decompress(path.read_bytes()).splitlines()]

    ours, theirs = cut_five_times(path, script, tmp_path)

    assert ours.ticks.equals(theirs.ticks)
    assert ours.fixtures == theirs.fixtures


@pytest.mark.usefixtures("every_message")
def test_made_up_markets_through_five_cuts_have_the_ticks_of_their_file_and_half_are_suspended_over_the_close(tmp_path):
    script, path = made_up_markets(11, messages=600), tmp_path / "1.1"
    path.write_bytes(b"".join(orjson.dumps(message) + b"\n" for message in script))

    ours, theirs = cut_five_times(path, script, tmp_path)

    ticks = ours.ticks
    assert ticks.equals(theirs.ticks)
    assert ours.fixtures == theirs.fixtures
    closing = ticks.filter(~pl.col("in_running")).group_by("fixture_id", "market_key").agg(pl.col("suspended").last())
    assert closing.sort("market_key")["suspended"].to_list() == [False, False, True, True]
