import itertools

import pytest

from clvlab.sources.txline.live import EventStream, ServerEvent

STREAM = (
    b"\xef\xbb\xbf: a comment\n"
    b"id: 1:0\ndata: {\"a\": 1}\n\n"
    b"event: heartbeat\r\ndata:{\"Ts\":5}\r\n\r\n"
    b"data: first\rdata:  second\r\r"
    b"id: 2\n\n"
    b"event: nothing\n\n"
    b"data: caf\xc3\xa9 \xff\nretry: 7\nunknown: x\n\n"
    b"id: 3:0\ndata: broken off"
)  # fmt: skip
EVENTS = [
    ServerEvent("message", b'{"a": 1}', "1:0"),
    ServerEvent("heartbeat", b'{"Ts":5}', "1:0"),
    ServerEvent("message", b"first\n second", "1:0"),
    ServerEvent("message", b"caf\xc3\xa9 \xff", "2"),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_are_the_same_however_their_bytes_come(size):
    stream = EventStream()
    chunks = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]

    assert list(itertools.chain.from_iterable(map(stream.take, chunks))) == EVENTS


def test_a_line_without_end_is_refused():
    stream = EventStream()

    with pytest.raises(ValueError, match="more than"):
        list(stream.take(b"x" * (17 << 20)))


def test_an_event_without_end_is_refused():
    stream = EventStream()

    with pytest.raises(ValueError, match="more than"):
        list(itertools.chain.from_iterable(map(stream.take, [b"data: " + b"x" * (1 << 20) + b"\n"] * 17)))
