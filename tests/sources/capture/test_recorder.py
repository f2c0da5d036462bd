import random
import re
import signal
import subprocess
import sys
import time
from contextlib import closing
from functools import partial

import orjson
import pytest

from clvlab.errors import FeedError
from clvlab.sources.capture.feed import Cut, FeedMessage, GapCause, Health, Resumption, Stop
from clvlab.sources.capture.recorder import CaptureRecorder
from clvlab.sources.capture.records import Header, records_of
from clvlab.sources.capture.source import Tracker
from clvlab.sources.devfeeds.faults import read_plan
from clvlab.sources.devfeeds.txline import TOKENS, ScriptedMessage, TxLineServer
from clvlab.sources.txline.messages import TxLineReader
from tests.length import few

HEADER = Header("txline", "synthetic-devfeed", "cap", 1, None)
KILLED = """
import sys
from pathlib import Path
from clvlab.sources.capture.recorder import CaptureRecorder
from clvlab.sources.capture.feed import Stop
from clvlab.sources.txline.live import TxLineFeed
from clvlab.sources.capture.records import Header
feed = TxLineFeed(url=sys.argv[1], jwt="dev-jwt", api_token="dev-api-token", first_wait_s=0.02, most_wait_s=0.05)
capturing = CaptureRecorder(Path(sys.argv[2]), feed, Header("txline", "synthetic-devfeed", "cap", 1, None))
print("lost", capturing.segments.lost_bytes, flush=True)
written = 0
for record in capturing.records(Stop()):
    written += record is not None
    print("written", written, flush=True)
"""


def price(number):
    return orjson.dumps({
        "FixtureId": 7, "MessageId": f"m{number}", "Ts": int(time.time() * 1000) + number,
        "Bookmaker": "TXLineStablePriceDemargined", "SuperOddsType": "OVERUNDER", "InRunning": False,
        "MarketParameters": f"line={number % 3}.5", "MarketPeriod": None, "PriceNames": ["over", "under"],
        "Prices": [2833, 1545], "Pct": ["35.000", "65.000"],
    })  # fmt: skip


class Numbered:
    """A feed of numbered messages, of which each that was drawn is gone; it goes on where it is, as a provider does.

    Listening with a mark, it sends again what was missed, if it can.
    """

    name, provenance = "txline", "synthetic-devfeed"

    def __init__(self, n, *, resumes=False, pace=None):
        self.health, self.n, self.resumes, self.pace = Health(), n, resumes, pace or (lambda _: None)
        self.next, self.listened = 0, []

    def fixtures(self):
        return []

    def listen(self, stop, _=(), after=None):
        self.listened.append(after)
        if after is not None and self.resumes:
            self.next = int(after) + 1
            yield Resumption(self.next, replayed=True)
        while self.next < self.n and not stop.is_set:
            number, self.next = self.next, self.next + 1
            self.pace(number)
            yield FeedMessage(b'{"n":%d}' % number, number, mark=str(number) if self.resumes else None)


def captured(folder, feed, stop=None, **options):
    """Capture until the feed ends; the records that were given out."""
    capturing = CaptureRecorder(folder, feed, HEADER, **options)
    try:
        return [record for record in capturing.records(stop or Stop()) if record is not None]
    finally:
        capturing.segments.close()


def numbers(records):
    return [orjson.loads(record.text)["n"] for record in records if record.text is not None]


def slow(capturing, seconds):
    write = capturing.segments.write

    def written(items):
        time.sleep(seconds)
        return write(items)

    capturing.segments.write = written


def kill_while_it_captures(url, folder, chance):
    """Run a capture in a process of its own, and kill it at some moment while it writes; what it said before."""
    with subprocess.Popen([sys.executable, "-c", KILLED, url, str(folder)], stdout=subprocess.PIPE, text=True) as process:
        lines = [process.stdout.readline() for _ in range(2 + chance.randrange(60))]
        time.sleep(chance.random() * 0.02)
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.read().splitlines()
    return " ".join(lines)


@few(1)
@pytest.mark.parametrize("seed", range(2))
def test_a_process_that_is_killed_loses_nothing_that_the_provider_sends_again(tmp_path, seed):
    chance = random.Random(seed)
    lost = 0

    with TxLineServer([ScriptedMessage(price(number), number * 0.002) for number in range(2500)]) as server:
        for _ in range(3):
            output = kill_while_it_captures(server.url, tmp_path, chance)
            lost += int(re.search(r"lost (\d+)", output)[1])
        from clvlab.sources.txline.live import TxLineFeed

        feed, stop = TxLineFeed(url=server.url, jwt=TOKENS[0], api_token=TOKENS[1]), Stop()
        capturing = CaptureRecorder(tmp_path, feed, HEADER)
        last = None
        with closing(capturing.records(stop)) as coming:
            for record in coming:
                last = last if record is None else record.text
                is_all = server.script.ended.is_set() and last == server.script.published[-1]
                if is_all and feed.health.owed_since_ms is None:
                    stop.set()
        capturing.segments.close()
        published = server.script.published

    found = [record for path in capturing.segments.paths() for record in records_of(path)][1:]
    tracker = Tracker(HEADER, TxLineReader())
    for record in found:
        tracker.take(record)
    first = published.index(next(record.text for record in found if record.text is not None))
    assert [record.text for record in found if record.text is not None] == published[first:]
    assert [(gap.cause, gap.replayed) for gap in tracker.ledger()] == [("restart", True)] * 3


def test_a_feed_that_can_t_send_again_leaves_a_gap_of_the_restart_in_its_place(tmp_path):
    feed = Numbered(10)
    captured(tmp_path, feed)
    feed.n, feed.next = 30, 15

    records = captured(tmp_path, feed)

    assert [record.cut for record in records if record.cut] == [{"cause": "restart", "markets": [], "resumable": False}]
    tracker = Tracker(HEADER, TxLineReader())
    with closing(CaptureRecorder(tmp_path, feed, HEADER).segments) as segments:
        for record in segments.past():
            tracker.take(record)
    assert [(gap.cause, gap.from_ts_ms, gap.to_ts_ms, gap.replayed) for gap in tracker.ledger()] == [("restart", 9, 15, None)]


@pytest.mark.parametrize("resumes", [False, True])
def test_a_feed_that_is_faster_than_the_disk_is_cut_loudly_and_nothing_vanishes(tmp_path, resumes):
    feed = Numbered(6000, resumes=resumes)
    capturing = CaptureRecorder(tmp_path, feed, HEADER, backlog=100, patience_s=0.05)
    slow(capturing, 0.2)
    records = []
    for record in capturing.records(Stop()):
        if record is not None:
            records.append(record)
            if len(feed.listened) == 3:
                capturing.segments.__dict__.pop("write", None)  # the disk has recovered

    known = numbers(records)
    assert len(feed.listened) >= 2
    assert {record.cut["cause"] for record in records if record.cut} == {"backlog"}
    assert known == sorted(set(known))
    last, is_cut, holes = -1, False, []
    for record in records:
        is_cut = is_cut or record.cut is not None
        if record.text is not None:
            (number,) = numbers([record])
            holes += [(is_cut, last, number)] if number != last + 1 else []
            last, is_cut = number, False
    assert all(cause for cause, *_ in holes)
    assert last == 5999
    assert bool(holes) != resumes


def test_messages_that_are_too_large_together_are_a_backlog_like_too_many(tmp_path, monkeypatch):
    monkeypatch.setattr("clvlab.sources.capture.recorder._MOST_BYTES", 500)
    capturing = CaptureRecorder(tmp_path, Numbered(6000), HEADER, patience_s=0.05)
    slow(capturing, 0.2)
    stop, records = Stop(), []
    for record in capturing.records(stop):
        records += [] if record is None else [record]
        if any(record.cut for record in records):
            stop.set()

    assert {record.cut["cause"] for record in records if record.cut} == {"backlog"}
    assert len(numbers(records)) < 200


def test_a_feed_that_fails_says_why_after_all_that_came_before_is_written(tmp_path):
    def fail(number):
        if number == 7:
            raise FeedError("the key is wrong: see CLVLAB_TXLINE_JWT")

    capturing = CaptureRecorder(tmp_path, Numbered(10, pace=fail), HEADER)
    with pytest.raises(FeedError, match="CLVLAB_TXLINE_JWT"):
        list(capturing.records(Stop()))
    capturing.segments.release()

    with closing(CaptureRecorder(tmp_path, Numbered(0), HEADER).segments) as segments:
        assert numbers(segments.past()) == list(range(7))


def test_a_feed_with_a_fault_of_its_own_is_a_feed_error_with_its_cause(tmp_path):
    def fail(number):
        raise RuntimeError(f"at {number}")

    capturing = CaptureRecorder(tmp_path, Numbered(1, pace=fail), HEADER)
    with pytest.raises(FeedError, match="failed with RuntimeError: at 0"):
        list(capturing.records(Stop()))
    capturing.segments.release()


def test_it_stops_on_request_and_keeps_what_came(tmp_path):
    stop = Stop()

    def pace(number):
        if number == 100:
            stop.set()

    records = captured(tmp_path, Numbered(10**9, pace=pace), stop)

    assert numbers(records) == list(range(len(records)))
    assert len(records) >= 100


def test_nothing_comes_now_and_then_and_old_segments_are_closed_while_the_feed_is_silent(tmp_path):
    stop, now, noted = Stop(), [0], []
    feed = Numbered(3, pace=lambda number: stop.wait(10) if number == 2 else None)
    capturing = CaptureRecorder(tmp_path, feed, HEADER, note=lambda *of: noted.append(of[1]), clock=lambda: now[0])
    silent = 0
    for record in capturing.records(stop):
        silent += record is None
        now[0] = 400_000 if silent else 0
        if noted or silent > 30:
            stop.set()
    capturing.segments.close()

    assert noted == [1, 2]


def test_a_live_capture_is_on_the_disk_before_it_is_returned(tmp_path):
    capturing = CaptureRecorder(tmp_path, Numbered(50), Header("txline", "synthetic-devfeed", "cap", 1, None, live=True))
    synced = []
    capturing.segments.sync = partial(_noting, capturing.segments.sync, synced, capturing.segments)
    for record in capturing.records(Stop()):
        if record is not None:
            assert synced[-1] == capturing.segments.paths()[0].stat().st_size
    capturing.segments.close()


def _noting(sync, synced, segments):
    sync()
    synced.append(segments.paths()[0].stat().st_size)


def test_gaps_of_the_feed_stand_where_they_were(tmp_path):
    class Gapped(Numbered):
        def listen(self, *_):
            yield FeedMessage(b"{}", 1)
            yield Cut(GapCause.SILENCE, 1, ("a",))
            yield Resumption(5)
            yield FeedMessage(b"{}", 6)

    records = captured(tmp_path, Gapped(0))

    assert [record.cut or record.resumed or record.text for record in records] == [
        b"{}", {"cause": "silence", "markets": ["a"], "resumable": False}, {"replayed": False}, b"{}",
    ]  # fmt: skip


def test_a_capture_over_every_fault_of_the_protocol_holds_what_was_published(tmp_path):
    plan = read_plan("duplicate@20,out-of-order@40,malformed@60,sequence-hole@90,cut@95,cut@200,500@210")
    from clvlab.sources.txline.live import TxLineFeed

    stop = Stop()
    with TxLineServer([ScriptedMessage(price(number), number * 0.0005) for number in range(400)], plan) as server:
        feed = TxLineFeed(url=server.url, jwt=TOKENS[0], api_token=TOKENS[1], first_wait_s=0.02, most_wait_s=0.05)
        texts = []
        capturing = CaptureRecorder(tmp_path, feed, HEADER)
        for record in capturing.records(stop):
            texts += [record.text] if record is not None and record.text is not None else []
            if server.script.ended.is_set() and len(texts) >= len(server.script.published):
                stop.set()
        capturing.segments.close()

    assert texts == server.script.published
