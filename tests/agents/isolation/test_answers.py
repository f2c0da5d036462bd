"""What an agent's process answers is judged byte by byte."""

import json
import random
import struct
from io import BytesIO

import polars as pl
import pytest

from clvlab.agents.isolation.answers import decisions_in, failure_in, identity_in
from clvlab.agents.isolation.columns import columns
from clvlab.agents.isolation.frames import FrameError, FrameKind, read_frame, write_frame
from clvlab.errors import AgentError, AgentFailedError, LookaheadError, SchemaError
from clvlab.law.schema import DECISIONS
from tests.factories import make_decisions

SOUND = make_decisions({"reason": "é", "confidence": 0.5}, {"tick_seq": 1, "action": "WAIT", "market_key": None, "side": None})
STATED = {"agent_id": "a", "strategy": "s", "strategy_version": "1", "proof_mode": "reproducible", "config": {"x": 0.4}}


def test_decisions_come_back_as_they_were_sent():
    assert decisions_in(columns(SOUND)).equals(SOUND)
    assert decisions_in(columns(SOUND.slice(1))).equals(SOUND.slice(1))
    assert decisions_in(columns(pl.concat([SOUND, SOUND], rechunk=False))).equals(pl.concat([SOUND, SOUND]))
    assert decisions_in(columns(SOUND.clear())).schema == pl.Schema(DECISIONS)


def with_head(place, value):
    data = bytearray(columns(SOUND))
    struct.pack_into("<q", data, 8 * place, value)
    return bytes(data)


def stream(**options):
    """An Arrow stream, which could state any size: these bytes are none."""
    written = BytesIO()
    pl.concat([SOUND] * 5_000).write_ipc_stream(written, compat_level=pl.CompatLevel.oldest(), **options)
    return written.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"", b"ARROW1", stream(), stream(compression="zstd"), columns(SOUND)[:-1], columns(SOUND) + b"0", with_head(0, 3),
        with_head(0, -1), with_head(0, 2**62), with_head(1, -2), with_head(2, 2**63 - 1), with_head(3, -1),
    ],
    ids=[
        "nothing", "short", "stream", "compressed", "cut", "longer", "a row more", "negative rows", "many rows",
        "negative size", "size that overflows", "no values",
    ],
)  # fmt: skip
def test_bytes_that_are_no_decisions_are_refused(data):
    with pytest.raises(AgentFailedError, match="GarbledAnswer"):
        decisions_in(data)


def test_any_byte_may_be_another_and_nothing_breaks():
    sound, dice = columns(pl.concat([SOUND] * 20)), random.Random(8)
    read = refused = 0
    for _ in range(1_500):
        data = bytearray(sound)
        for _ in range(dice.choice([1, 1, 2, 8])):
            data[dice.randrange(len(data))] = dice.choice([0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)])
        try:
            frame = decisions_in(bytes(data))
        except AgentFailedError:
            refused += 1
        else:
            assert frame.schema == pl.Schema(DECISIONS)
            assert len(frame.write_json()) > 0  # every value can be read
            read += 1
    assert min(read, refused) > 100


def test_identity_is_read_and_judged():
    assert identity_in(json.dumps(STATED).encode()).config == {"x": 0.4}


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b"{}", b"\xff", b"[" * 100_000, json.dumps(STATED | {"agent_id": 5}).encode(),
        json.dumps(STATED | {"agent_id": "x" * 999}).encode(), json.dumps(STATED | {"config": []}).encode(),
        json.dumps(STATED).replace("0.4", '{"x":' * 900 + "1" + "}" * 900).encode(),
        json.dumps(STATED).replace("0.4", "NaN").encode(),
    ],
    ids=["nothing", "a list", "no key", "no text", "deep", "a number", "long", "no config", "deep config", "no number"],
)  # fmt: skip
def test_identity_that_cant_stand_in_a_run_is_refused(data):
    with pytest.raises(AgentError):
        identity_in(data)


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({"kind": "ValueError", "message": "m", "trace": ""}, (AgentFailedError, "ValueError")),
        ({"kind": "SchemaError", "message": "m", "trace": ""}, (SchemaError, None)),
        ({"kind": "LookaheadError", "message": "m", "trace": ""}, (LookaheadError, None)),
        ({"kind": "PackTamperedError", "message": "m", "trace": ""}, (AgentFailedError, "PackTamperedError")),
        ({"kind": "AgentFailedError", "message": "m", "trace": ""}, (AgentFailedError, "AgentFailedError")),
        ({"kind": "__init__", "message": "m", "trace": ""}, (AgentFailedError, "__init__")),
        ({"kind": "a\nb", "message": "m", "trace": ""}, (AgentFailedError, "AgentFailed")),
        ({"kind": "x" * 999, "message": "m" * 10**6, "trace": "t"}, (AgentFailedError, "AgentFailed")),
        ({"kind": 5, "message": None, "trace": []}, (AgentFailedError, "AgentFailed")),
        ({}, (AgentFailedError, "GarbledAnswer")),
        ([], (AgentFailedError, "GarbledAnswer")),
    ],
    ids=lambda value: str(value)[:40],
)
def test_failure_becomes_an_error_of_ours_whatever_it_says(stated, expected):
    error = failure_in(json.dumps(stated).encode())

    assert (type(error), getattr(error, "kind", None)) == expected
    assert len(str(error)) < 5_000


def test_what_an_agent_says_steers_no_terminal():
    said = {"kind": "AgentError", "message": "\x1b[2J\x9b1Averified\x00\ud800", "trace": "line\n\tnext\x1b[A"}
    error = failure_in(json.dumps(said).encode())

    assert str(error) == r"\x1b[2J\x9b1Averified\x00\ud800"
    assert error.__notes__[0].endswith("line\n\tnext\\x1b[A")


def test_frames_pass_through_and_others_are_refused():
    written = BytesIO()
    write_frame(written, FrameKind.OUT, b"text")

    assert read_frame(BytesIO(written.getvalue()), {FrameKind.OUT: 9}) == (FrameKind.OUT, b"text")
    for broken, error in ((written.getvalue()[:-1], EOFError), (b"", EOFError), (b"?" + written.getvalue()[1:], FrameError)):
        with pytest.raises(error):
            read_frame(BytesIO(broken), {FrameKind.OUT: 9})
    for limits in ({FrameKind.OUT: 3}, {FrameKind.ERR: 9}):
        with pytest.raises(FrameError, match="4 bytes"):
            read_frame(BytesIO(written.getvalue()), limits)
