"""What an agent's process answers is judged byte by byte."""

import json
import random
import re
import struct
import subprocess
import sys
from io import BytesIO

import polars as pl
import pytest

from clvlab.agents.isolation.columns import MAX_AT_MESSAGE, columns, most_bytes, most_decisions
from clvlab.agents.isolation.frames import FrameError, FrameKind, read_frame, write_frame
from clvlab.agents.isolation.process import decisions_in, failure_in, identity_in
from clvlab.errors import AgentError, AgentFailedError, LookaheadError, SchemaError
from clvlab.law.actions import MAX_NAME_BYTES, MAX_REASON_BYTES
from clvlab.law.schema import DECISIONS, conform
from tests.factories import make_decisions, make_tape, message

SOUND = make_decisions({"reason": "é", "confidence": 0.5}, {"tick_seq": 1, "action": "WAIT", "market_key": None, "side": None})
STATED = {"agent_id": "a", "strategy": "s", "strategy_version": "1", "proof_mode": "reproducible", "config": {"x": 0.4}}


def read(data):
    return decisions_in(data, MAX_AT_MESSAGE)


def test_decisions_come_back_as_they_were_sent():
    assert read(columns(SOUND)).equals(SOUND)
    assert read(columns(SOUND.slice(1))).equals(SOUND.slice(1))
    assert read(columns(pl.concat([SOUND, SOUND], rechunk=False))).equals(pl.concat([SOUND, SOUND]))
    assert read(columns(SOUND.clear())).schema == pl.Schema(DECISIONS)


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
        read(data)


def test_more_decisions_than_were_asked_for_are_refused():
    assert decisions_in(columns(SOUND), 2).height == 2
    with pytest.raises(AgentFailedError, match="2 decisions, and at most 1 are read"):
        decisions_in(columns(SOUND), 1)


def test_texts_that_no_decision_may_have_are_refused_and_those_a_little_too_long_are_the_laws_to_name():
    long = SOUND.with_columns(reason=pl.lit("x" * 20_000))
    longer = SOUND.with_columns(reason=pl.lit("x" * 200_000))

    assert read(columns(long)).equals(long)
    with pytest.raises(AgentFailedError, match="bytes are more than 2 decisions can have"):
        read(columns(longer))


def test_decisions_of_every_side_at_every_message_and_of_the_longest_texts_are_read():
    tape = make_tape([message(seq, seq, {"a": 5000, "b": 5000}, market_key="M") for seq in range(9000)], {1: 10**6})
    name = "n" * MAX_NAME_BYTES
    backs = tape.ticks().collect().select("fixture_id", "tick_seq", "side", market_key=pl.lit(name), action=pl.lit("BACK"))
    waits = backs.unique("tick_seq").with_columns(action=pl.lit("WAIT"))
    texts = pl.concat([backs, waits]).with_columns(
        agent_id=pl.lit(name), side=pl.lit(name), reason=pl.lit("r" * MAX_REASON_BYTES)
    )
    decided = conform(
        pl.concat([make_decisions().clear(), texts], how="diagonal_relaxed").select(*DECISIONS), DECISIONS, "DECISIONS"
    )
    data = columns(decided)

    assert len(data) <= most_bytes(most_decisions(tape))
    assert decisions_in(data, most_decisions(tape)).equals(decided)


@pytest.mark.parametrize(("rows", "size"), [(1_000_000, 8), (1, 200 << 20)], ids=["many decisions", "one reason"])
def test_refusing_an_answer_takes_little_memory(rows, size):
    script = f"""
import resource, struct
from clvlab.agents.isolation.process import decisions_in
from clvlab.agents.isolation.columns import _BUFFERS, _HEAD
parts = [bytes(8 * {rows} + 8)] * sum(_BUFFERS)
ends = struct.pack("<q", {size})
parts[20:23] = b"\\xff" * ({rows} // 8 + 1), bytes(8) + ends * {rows}, bytes({size})
data = b"".join([_HEAD.pack({rows}, *map(len, parts)), *parts])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decisions_in(data, 10_000)
except Exception as error:
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10, error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    megabytes, _, said = done.stdout.partition(" ")
    assert re.search("decisions, and at most|more than 1 decisions can have", said)
    assert int(megabytes) < 50


def test_any_byte_may_be_another_and_nothing_breaks():
    sound, dice = columns(pl.concat([SOUND] * 20)), random.Random(8)
    sound_still = refused = 0
    for _ in range(1_500):
        data = bytearray(sound)
        for _ in range(dice.choice([1, 1, 2, 8])):
            data[dice.randrange(len(data))] = dice.choice([0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)])
        try:
            frame = read(bytes(data))
        except AgentFailedError:
            refused += 1
        else:
            assert frame.schema == pl.Schema(DECISIONS)
            assert len(frame.write_json()) > 0  # every value can be read
            sound_still += 1
    assert min(sound_still, refused) > 100


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
