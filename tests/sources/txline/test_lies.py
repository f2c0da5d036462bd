"""A TxLINE that lies about times and marks, or speaks out of order, makes no gap look filled that is not."""

import threading
import time
from contextlib import closing

import orjson
import pytest

from clvlab.sources.capture.feed import Cut, FeedMessage, Resumption, Stop
from clvlab.sources.capture.recorder import CaptureRecorder
from clvlab.sources.capture.records import Header
from clvlab.sources.capture.source import Tracker
from clvlab.sources.devfeeds.faults import HttpServer
from clvlab.sources.txline import live
from clvlab.sources.txline.live import HistoryPosition, Ids, TxLineFeed, elements
from clvlab.sources.txline.messages import TxLineReader
from tests.waiting import PATIENCE_S

HOUR_MS = 3_600_000
HEARTBEAT = b"event: heartbeat\ndata: {}\n\n"
RESET = b"event: reset\ndata: {}\n\n"
NOWHERE = "/nowhere/{day}/{hour}/{block}"


def now_ms():
    return time.time_ns() // 1_000_000


def event(number, ts_ms, mark=None):
    text = orjson.dumps({"FixtureId": 7, "MessageId": f"m{number}", "Ts": ts_ms})
    return b"id: %s\ndata: %s\n\n" % ((mark or f"{ts_ms}:{number}").encode(), text)


class Parroting(HttpServer):
    """Sends on each connection what it is told to; on the last one heartbeats follow. Blocks are empty."""

    def __init__(self, *connections):
        super().__init__()
        self.connections, self.marks, self.blocks = list(connections), [], []

    def get(self, request):
        if not request.path.endswith("/stream"):
            self.blocks.append(request.path)
            return request.reply(404 if "nowhere" in request.path else 200, b"[]")
        self.marks.append(request.headers.get("Last-Event-ID"))
        request.begin_stream()
        parts = self.connections.pop(0)
        for part in parts:
            request.send(part)
        while not self.connections and not self.closing.wait(0.05):
            request.send(HEARTBEAT)
        return request.cut(b"event")


def feed_of(server, **options):
    return TxLineFeed(url=server.url, jwt="j", api_token="t", first_wait_s=0.01, most_wait_s=0.02, **options)


def heard(feed, resumed):
    """What is heard until messages came again so many times."""
    stop, items = Stop(), []
    timer = threading.Timer(PATIENCE_S, stop.set)
    timer.start()
    with closing(feed.listen(stop)) as coming:
        for item in coming:
            items.append(item)
            if sum(isinstance(one, Resumption) for one in items) == resumed:
                break
    timer.cancel()
    return items


def test_a_message_that_lies_about_its_time_makes_no_block_be_left_out():
    hour_ago = now_ms() - HOUR_MS
    first = [event(1, hour_ago), event(2, 1_000, f"{hour_ago}:2")]

    with Parroting(first, [RESET]) as server:
        heard(feed_of(server), 1)

    assert len(server.blocks) >= 12


def test_a_mark_after_all_messages_makes_no_block_be_left_out():
    with Parroting([event(1, now_ms(), "99999999999999:1")], [RESET]) as server:
        heard(feed_of(server), 1)

    assert f"/{now_ms() // 86_400_000}/" in server.blocks[0]


def test_a_mark_after_all_times_at_the_start_is_no_proof_that_nothing_was_missed():
    with Parroting([RESET]) as server, closing(feed_of(server).listen(Stop(), after="99999999999999:1")) as coming:
        assert not next(coming).replayed


def test_a_reset_after_heartbeats_takes_back_that_messages_were_sent_again():
    with Parroting([event(1, now_ms())], [HEARTBEAT, RESET], [RESET]) as server:
        items = heard(feed_of(server, block_path=NOWHERE), 2)

    first, second = (item for item in items if isinstance(item, Cut))
    assert first.from_ts_ms == second.from_ts_ms
    assert [item.replayed for item in items if isinstance(item, Resumption)] == [True, False]


@pytest.mark.parametrize("mark", ["\N{SNOWMAN}:1", "9" * 5_000 + ":1", "1: 1", "\x07"])
def test_a_mark_that_can_t_be_sent_back_is_none(mark):
    with Parroting([event(1, now_ms(), "5:5"), event(2, now_ms(), mark)], [HEARTBEAT]) as server:
        items = heard(feed_of(server), 1)

    assert [item.mark for item in items if isinstance(item, FeedMessage)] == ["5:5", None]
    assert server.marks == [None, "5:5"]


@pytest.mark.parametrize("mark", ["9" * 25 + ":1", "9" * 30])
def test_a_mark_of_no_time_is_sent_back_and_tells_none(mark):
    place = HistoryPosition(frozenset(), mark, owed=True)

    place.begin(now_ms=5_000)

    assert (place.marked_ms, place.sound_ms) == (None, 5_000)


def test_a_clock_that_was_put_back_by_days_is_no_proof_that_nothing_was_missed():
    place = HistoryPosition(frozenset(), None, owed=True, sound_ms=10 * 24 * HOUR_MS)

    since_ms, until_ms, _ = place.missed_time(10 * 24 * HOUR_MS + 5, -48 * HOUR_MS)

    assert since_ms == 8 * 24 * HOUR_MS
    assert until_ms == 10 * 24 * HOUR_MS + 5 - live.SLACK_MS


def test_blocks_that_are_nested_without_end_are_no_answer():
    with pytest.raises(ValueError, match="nested too deep"):
        list(elements("[" * 100_000))


def test_no_more_ids_are_kept_than_may_be(monkeypatch):
    monkeypatch.setattr(live, "_MOST_IDS", 3)
    ids = Ids()

    for number in range(10):
        ids.add(str(number))

    assert [ids.take(name) for name in ("6", "7", "7", "9")] == [False, True, False, True]
    assert bool(ids)


def test_a_capture_that_ends_while_missed_messages_are_sent_again_says_that_some_are_missing(tmp_path):
    old = now_ms() - HOUR_MS
    with Parroting([event(1, old)], [event(2, old + 1), event(3, old + 2)] + [event(4, old + 3)] * 2_000) as server:
        server.connections.append([])  # no heartbeat tells that all came
        header, stop = Header("txline", "synthetic-devfeed", "cap", 1, None), Stop()
        capturing, tracker = CaptureRecorder(tmp_path, feed_of(server), header), Tracker(header, TxLineReader())
        for record in capturing.records(stop):
            if record is not None:
                tracker.take(record)
            if tracker.messages >= 3:
                stop.set()
        capturing.segments.close()

    assert [gap.replayed for gap in tracker.ledger()][-1] is None
    assert len({gap.from_ts_ms for gap in tracker.ledger()}) == 1
