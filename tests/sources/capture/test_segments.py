import os
from contextlib import contextmanager, suppress

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clvlab.errors import FeedError, FileLockedError, SourceError
from clvlab.packs.files import MAX_LINE_BYTES, file_sha256
from clvlab.sources.capture.feed import Cut, FeedMessage, GapCause, Resumption
from clvlab.sources.capture.recorder import Segments
from clvlab.sources.capture.records import CaptureRecord, Header, end_line, name_of
from clvlab.sources.capture.source import Tracker
from clvlab.sources.txline.messages import TxLineReader
from tests.length import length

HEADER = Header("txline", "synthetic-devfeed", "cap", 1, None)
FIVE_MINUTES = 300_000


def price(number, fixture_id=7, **changes):
    over = 1000 + number % 8000
    return orjson.dumps({
        "FixtureId": fixture_id, "MessageId": f"m{number}", "Ts": 1_700_000_000_000 + number,
        "Bookmaker": "TXLineStablePriceDemargined", "SuperOddsType": "OVERUNDER", "InRunning": False,
        "MarketParameters": f"line={number % 3}.5", "MarketPeriod": None, "PriceNames": ["over", "under"],
        "Prices": [2833, 1545], "Pct": [f"{over / 100:.3f}", f"{(10_000 - over) / 100:.3f}"],
    } | changes)  # fmt: skip


def received(number, **changes):
    return FeedMessage(price(number, **changes), 1000 + number, mark=f"{number}")


@contextmanager
def opened(folder, header=HEADER, note=None):
    segments = Segments(folder, header, note)
    try:
        yield segments
    finally:
        segments.release()


def written(folder, *batches, header=HEADER):
    with opened(folder, header) as segments:
        for number, batch in enumerate(batches):
            segments.write(batch)
            segments.roll(number * FIVE_MINUTES)  # each batch but the first ends a segment
        return segments.paths()


def past(folder):
    with opened(folder) as segments:
        return list(segments.past())


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1}', b'{"a":1} ', b' {"a":1}', b'[{"a":"}"}]', b"{}\n{}", b"{\r\n}", b"", b"\n", b'"text"', b"7", b"PONG", b"{",
        "\N{SNOWMAN} \u2028".encode(), b"\xff\xfe\x00", b'{"a":"\xed\xa0\x80"}', b'{},"cut":{}', b'{"message":{}}',
        b"[" * 1_024 + b"]" * 1_024, b"[" * 5_000 + b"]" * 5_000, b'{"end":true}', b"\x00" * 10,
    ],
)  # fmt: skip
def test_a_message_of_any_bytes_comes_back_verbatim(tmp_path, text):
    with opened(tmp_path) as segments:
        written = segments.write([FeedMessage(text, 5, mark='1:"message":{')])

    assert past(tmp_path) == written == [CaptureRecord(5, text, '1:"message":{')]


def test_a_message_that_is_longer_than_a_line_may_be_is_a_gap_that_says_so(tmp_path):
    with opened(tmp_path) as segments:
        segments.write([received(1), FeedMessage(b"[" + b"7" * MAX_LINE_BYTES + b"]", 5), received(2)])

    tracker = Tracker(HEADER, TxLineReader())
    for record in past(tmp_path):
        tracker.take(record)

    assert tracker.messages == 2
    assert [(gap.cause, gap.from_ts_ms, gap.to_ts_ms) for gap in tracker.ledger()] == [("oversize", 5, 5)]


def test_a_message_that_is_too_long_does_not_end_the_cut_of_another_connection(tmp_path):
    items = [Cut(GapCause.CUT, 4, ("a",)), FeedMessage(b"7" * (MAX_LINE_BYTES + 1), 5), received(2), Resumption(2000)]

    assert gaps_of(tmp_path, items) == [("cut", 4, 2000), ("oversize", 5, 2000)]


def test_what_ends_the_recorders_own_cut_does_not_end_that_of_a_connection(tmp_path):
    items = [received(1), Cut(GapCause.RESTART, 1001), Cut(GapCause.CUT, 1001, ("a",)), received(2), Resumption(1009)]

    assert gaps_of(tmp_path, items) == [("restart", 1001, 1002), ("cut", 1001, 1002), ("cut", 1002, 1009)]


def gaps_of(folder, items):
    with opened(folder) as segments:
        segments.write(items)
    tracker = Tracker(HEADER, TxLineReader())
    for record in past(folder):
        tracker.take(record)
    return [(gap.cause, gap.from_ts_ms, gap.to_ts_ms) for gap in tracker.ledger()]


TORN = [b'{"at":17,"mess', b'{"at":17,"message":{"a":1}}', b"\x00" * 40, b"{"]


@pytest.mark.parametrize("torn", TORN)
def test_a_line_that_was_not_finished_is_cut_off_and_counted(tmp_path, torn):
    (path,) = written(tmp_path, [received(1), received(2)])
    with path.open("ab") as file:
        file.write(torn)

    with opened(tmp_path) as segments:
        assert (segments.lost_bytes, segments.mark, segments.last_ms) == (len(torn), "2", 1002)
        segments.write([received(3)])

    assert [record.mark for record in past(tmp_path)] == ["1", "2", "3"]


def rolled(folder):
    """Two segments, of which the second is closed as well: what stands when a process is killed between two."""
    paths = written(folder, [received(1)], [received(2)], [received(3)])
    assert len(paths) == 3
    paths[2].unlink()
    return paths


@pytest.mark.parametrize("start", [None, b"", b'{"schema":"clvlab-capt'])
def test_a_roll_that_was_killed_is_finished_and_noted(tmp_path, start):
    paths, noted = rolled(tmp_path), []
    if start is not None:
        paths[2].write_bytes(start)

    with opened(tmp_path, note=lambda *of: noted.append(of)) as segments:
        assert segments.header.number == 3
        assert segments.lost_bytes == len(start or b"")
        segments.write([received(3)])

    assert noted == [("cap", number, file_sha256(path)) for number, path in enumerate(paths[:2], 1)]
    assert [record.mark for record in past(tmp_path)] == ["1", "2", "3", "3"]


def test_a_log_that_does_not_take_a_segment_keeps_the_next_from_beginning(tmp_path):
    def refuse(*_):
        raise OSError("no log")

    with opened(tmp_path, note=refuse) as segments:
        segments.write([received(1)])
        segments.roll(0)
        with pytest.raises(OSError, match="no log"):
            segments.roll(FIVE_MINUTES)

    noted = []
    with opened(tmp_path, note=lambda *of: noted.append(of[1])) as segments:
        assert (segments.header.number, noted) == (2, [1])


def test_the_first_segment_is_open_for_its_time_and_an_empty_one_stays_open(tmp_path):
    with opened(tmp_path) as segments:
        for now in (10**12, 10**12 + FIVE_MINUTES - 1):
            segments.write([received(1)])
            segments.roll(now)
        assert segments.header.number == 1
        segments.roll(10**12 + FIVE_MINUTES)
        segments.roll(10**12 + 2 * FIVE_MINUTES)
        segments.roll(10**12 + 4 * FIVE_MINUTES)
        assert segments.header.number == 2


def changed(paths):
    paths[0].write_bytes(paths[0].read_bytes().replace(b"2833", b"2834"))


def left_out(paths):
    paths[1].unlink()


def first_left_out(paths):
    paths[0].unlink()


def line_removed(paths):
    lines = paths[1].read_bytes().splitlines(keepends=True)
    paths[1].write_bytes(b"".join([lines[0], *lines[2:]]))


def swapped(paths):
    one, other = (path.read_bytes() for path in paths[:2])
    paths[0].write_bytes(other)
    paths[1].write_bytes(one)


def garbled(paths):
    paths[2].write_bytes(paths[2].read_bytes() + b"nonsense\n")


@pytest.mark.parametrize("tamper", [changed, left_out, first_left_out, line_removed, swapped, garbled])
def test_a_segment_that_was_changed_or_left_out_is_refused(tmp_path, tamper):
    paths = written(tmp_path, [received(1)], [received(2)], [received(3)], [received(4)])[:3]
    (tmp_path / name_of(4)).unlink()

    tamper(paths)

    with pytest.raises(SourceError):
        past(tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        b"[]", b"7", b'{"message":{}}', b'{"at":-1,"message":{}}', b'{"at":1.5,"message":{}}', b'{"at":1}',
        b'{"at":1,"end":true,"text":""}',
        b'{"at":1,"cut":{"cause":"cut"}}', b'{"at":1,"cut":7}', b'{"at":1,"cut":{"cause":"c","markets":[1],"resumable":true}}',
        b'{"at":1,"resumed":{"replayed":1}}', b'{"at":1,"base64":"?"}', b'{"at":1,"mark":7,"text":""}',
        b'{"at":99999999999999999,"text":""}',
    ],
)  # fmt: skip
def test_a_line_that_is_none_of_a_capture_is_refused(tmp_path, line):
    (path,) = written(tmp_path, [received(1)])
    with path.open("ab") as file:
        file.write(line + b"\n")

    with pytest.raises(SourceError, match="is no line of a capture"):
        past(tmp_path)


def test_two_at_once_are_kept_apart(tmp_path):
    with opened(tmp_path), pytest.raises(FileLockedError):
        Segments(tmp_path, HEADER, None)
    with opened(tmp_path) as segments:
        assert segments.header.number == 1


@pytest.mark.parametrize(
    "other",
    [("txline", "genuine-txline", ()), ("replay", "synthetic-devfeed", ()), ("txline", "synthetic-devfeed", (7,))],
)
def test_a_capture_of_something_else_is_not_gone_on_with(tmp_path, other):
    feed, provenance, fixture_ids = other
    written(tmp_path, [received(1)])

    with pytest.raises(FeedError, match="name another folder"):
        Segments(tmp_path, Header(feed, provenance, "cap", 1, None, fixture_ids), None)


@pytest.mark.parametrize("count", range(7))
def test_records_that_no_caller_has_seen_are_taken_back(tmp_path, count):
    noted = []
    with opened(tmp_path, note=lambda _, number, digest: noted.append((number, digest))) as segments:
        for number in range(3):
            segments.write([received(2 * number), received(2 * number + 1)])
            segments.roll(number * FIVE_MINUTES)
        noted.clear()
        segments.keep(count)
        segments.close()
        kept = segments.paths()

    assert [record.mark for record in past(tmp_path)] == [f"{number}" for number in range(count)]
    assert noted == [(len(kept), file_sha256(kept[-1]))]
    assert len(kept) == (1 if count <= 4 else 2)
    last = kept[-1].read_bytes().splitlines(keepends=True)
    assert last[-1] == end_line(1000 + count - 1 if count else 0)


MESSAGES = st.one_of(
    st.builds(price, st.integers(0, 30), st.sampled_from([7, 8])),
    st.binary(max_size=30),
    st.builds(orjson.dumps, st.dictionaries(st.text(max_size=3), st.integers(0, 9) | st.text(max_size=3), max_size=3)),
)
TIMES = st.integers(0, 1000)
ITEMS = st.lists(
    st.one_of(
        st.builds(FeedMessage, MESSAGES, TIMES, mark=st.none() | st.text(max_size=3)),
        st.builds(Cut, st.sampled_from(GapCause), TIMES, st.sampled_from([(), ("OVERUNDER||line=1.5",)]), st.booleans()),
        st.builds(Resumption, TIMES, st.booleans()),
    ),
    max_size=25,
)


def plainly(items):
    """The records of a capture, by a model that knows of no files: a message ends a gap that the recorder made itself.

    Gaps that the feed made after that one go on.
    """
    is_open, others = False, []
    for item in items:
        match item:
            case Cut():
                cut = {"cause": item.cause.value, "markets": list(item.markets), "resumable": item.resumable}
                yield CaptureRecord(item.from_ts_ms, cut=cut)
                if item.cause in ("restart", "backlog"):
                    is_open, others = True, []
                else:
                    others.append(cut)
            case Resumption():
                yield CaptureRecord(item.to_ts_ms, resumed={"replayed": item.replayed})
                is_open, others = False, []
            case FeedMessage():
                if is_open:
                    yield CaptureRecord(item.received_ts_ms, resumed={"replayed": False})
                    yield from (CaptureRecord(item.received_ts_ms, cut=cut) for cut in others)
                is_open = False
                yield CaptureRecord(item.received_ts_ms, item.text, item.mark)


def tracked(records):
    tracker = Tracker(HEADER, TxLineReader())
    return [placed for record in records for placed in tracker.take(record)], tracker.ledger(), tracker.unreadable


@settings(max_examples=length(20, 60))
@given(batches=st.lists(st.tuples(ITEMS, st.sampled_from(["go on", "roll", "kill", "tear"])), max_size=5))
def test_what_is_read_again_is_what_was_written_however_it_was_broken_up(tmp_path_factory, batches):
    folder = tmp_path_factory.mktemp("capture")
    segments = Segments(folder, HEADER, None)
    for items, then in batches:
        if items:
            segments.write(items)
        match then:
            case "roll":
                segments.roll(0)
                segments.roll(FIVE_MINUTES)
            case "kill" | "tear":
                path = segments.paths()[-1]
                segments.release()
                if then == "tear":
                    with path.open("ab") as file:
                        file.write(b'{"at":1,"text":"tor')
                segments = Segments(folder, HEADER, None)
    segments.release()

    expected = list(plainly(item for items, _ in batches for item in items))
    assert past(folder) == expected
    assert tracked(past(folder)) == tracked(expected)


def test_messages_of_one_connection_do_not_end_the_cut_of_another(tmp_path):
    items = [received(1), Cut(GapCause.CUT, 1001, ("a",)), received(2), received(3), Resumption(1009)]

    with opened(tmp_path) as segments:
        segments.write(items)

    tracker = Tracker(HEADER, TxLineReader())
    for record in past(tmp_path):
        tracker.take(record)
    assert [(gap.from_ts_ms, gap.to_ts_ms) for gap in tracker.ledger()] == [(1001, 1009)]


def test_a_full_disk_is_an_error_and_what_was_written_before_stands(tmp_path):
    with opened(tmp_path) as segments:
        segments.write([received(1)])
        os.close(segments._file)
        segments._file = os.open("/dev/full", os.O_WRONLY)
        with pytest.raises(OSError, match=r"No space.*000001\.jsonl"):
            segments.write([received(2)])
        with suppress(OSError):
            segments.sync()

    assert [record.mark for record in past(tmp_path)] == ["1"]
