import json
from dataclasses import replace

import numpy as np
import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from clvlab.engine.run import run
from clvlab.errors import EvidenceError
from clvlab.law.closing import Window
from clvlab.law.lines import NONE
from clvlab.law.schema import SAFE_INTEGER
from clvlab.proof import clv_verify
from clvlab.proof.canonical import canonical, decimal_text, parsed, without_floats
from clvlab.proof.events import close_lines, decision_lines
from clvlab.proof.evidence import read_evidence
from clvlab.proof.verify import verify
from tests.factories import make_agent, make_decisions, make_run, make_tape, message
from tests.length import length

NASTY = [
    *(chr(code) for code in range(0x20)),
    '"',
    "\\",
    "/",
    "\x7f",
    "\x80",
    "é",
    "e\u0301",
    "\u2028\u2029",
    "\ufeff",
    "\uffff",
    "😀",
    "\\u0041",
    '\\"',
    "",
    "null",
]
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(NASTY)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-SAFE_INTEGER, SAFE_INTEGER) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(max_codepoint=127)), inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_canonical_form_is_that_of_rfc_8785(value):
    line = canonical(value)

    assert line == rfc8785.dumps(value) == clv_verify.canonical(value)
    assert parsed(line) == value == clv_verify.parsed(line)


@pytest.mark.parametrize("text", NASTY)
def test_every_awkward_text_is_written_as_rfc_8785_does(text):
    assert canonical(text) == rfc8785.dumps(text) == clv_verify.canonical(text)


@pytest.mark.parametrize(
    "value",
    [1.0, float("nan"), SAFE_INTEGER + 1, -SAFE_INTEGER - 1, {"é": 1}, {1: 2}, "\ud800", ["\udfff"], b"bytes", {1}, Ellipsis],
    ids=repr,
)
def test_value_without_a_canonical_form_is_refused(value):
    with pytest.raises(EvidenceError):
        canonical(value)


@pytest.mark.parametrize("value", [1.0, SAFE_INTEGER + 1, {"é": 1}, "\ud800"], ids=repr)
def test_stand_alone_verifier_refuses_the_same_values(value):
    with pytest.raises(clv_verify.BrokenError):
        clv_verify.canonical(value)


@pytest.mark.parametrize(
    "line",
    [b"", b" 1", b"1 ", b"1.0", b"1e0", b"-0", b"01", b"NaN", b'{"b":1,"a":2}', b'{"a":1,"a":1}', b'{"a": 1}', b'"\\u0041"',
     b'"\\/"', b'"\\u000A"', b'"\\u000a"', b'"\\ud800"', b'"\xff"', b"9007199254740992", b"[1,]", b"[" * 2000 + b"]" * 2000],
    ids=lambda line: repr(line[:20]),
)  # fmt: skip
def test_other_bytes_for_a_value_are_refused_by_both(line):
    with pytest.raises(EvidenceError):
        parsed(line)
    with pytest.raises(clv_verify.BrokenError):
        clv_verify.parsed(line)


@pytest.mark.long
@given(st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=4, unique_by=lambda names: names[0]))
@settings(max_examples=length(20, 60))
def test_columns_are_written_as_the_values_would_be(names):
    tape = make_tape(
        message(seq, seq, {side: 5000, side + "x": None}, market_key=market) for seq, (market, side, _) in enumerate(names)
    )
    rows = [
        {"tick_seq": seq, "market_key": market, "side": side, "reason": reason}
        for seq, (market, side, reason) in enumerate(names)
    ]

    result = make_run(tape, *rows)

    lines = b"".join(decision_lines(result.evidence.events)).splitlines(keepends=True)
    assert all(canonical(json.loads(line)) + b"\n" == line for line in lines)
    assert [json.loads(line)["payload"]["untrusted"]["reason"] for line in lines] == [row["reason"] for row in rows]
    assert clv_verify.read_evidence(result.sealed.events)
    assert read_evidence(result.sealed.events).decisions.equals(result.evidence.decisions)


@pytest.mark.parametrize(
    ("kind", "column"),
    [("decisions", "agent_id"), ("decisions", "action"), ("decisions", "ts_ms"), ("decisions", "states.side"),
     ("closes", "market_key"), ("closes", "close_kind"), ("closes", "end_seq"), ("closes", "states.side")],
)  # fmt: skip
def test_a_line_that_lacks_a_value_is_not_written(kind, column):
    events = make_run(make_tape([message(0, 0, {"part1": 6000, "part2": 4000})]), {}).evidence.events
    lines = getattr(events, kind)
    owner = lines.states if "." in column else lines
    name = column.rpartition(".")[2]
    null = np.full_like(getattr(owner, name), NONE) if name.endswith(("ms", "seq")) else nothing(getattr(owner, name))
    lacking = replace(owner, **{name: null})
    events = replace(events, **{kind: replace(lines, states=lacking) if "." in column else lacking})

    with pytest.raises(EvidenceError, match="a line needs a value where a null stands"):
        list({"decisions": decision_lines, "closes": close_lines}[kind](events))


def nothing(column):
    return replace(column, codes=np.full_like(column.codes, -1))


@pytest.mark.parametrize("text", NASTY)
def test_awkward_names_survive_sealing(text):
    tape = make_tape([message(0, 0, {text: 5000, "other": 5000}, market_key=text)])
    named = {"market_key": text, "side": text, "reason": text}

    result = make_run(tape, named, kind=text, origin_id=text)

    line = json.loads(result.sealed.events.split(b"\n")[1])
    assert line["payload"]["action"]["side"] == line["payload"]["untrusted"]["reason"] == text
    assert clv_verify.read_evidence(result.sealed.events)


@pytest.mark.parametrize("name", ["\n", '"', "é", "a\x00b", "\u2028"])
def test_awkward_agent_ids_survive_sealing(name):
    tape = make_tape([message(0, 0, {"part1": 5000, "part2": 5000})])

    result = run(tape, [make_agent(make_decisions({}), name), make_agent(make_decisions({}), "z")], Window())

    assert verify(result.sealed).passed
    decided = clv_verify.read_evidence(result.sealed.events).decisions
    assert {decision["agent_id"] for _, decision in decided} == {name, "z"}


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.4, "0.4"), (1e-7, "0.0000001"), (2.0, "2"), (1e22, "1" + 22 * "0"), (-0.5, "-0.5"), (0.1 + 0.2, "0.30000000000000004"),
     (100.0, "100")],
)  # fmt: skip
def test_fraction_is_sealed_as_its_shortest_decimal(number, text):
    assert decimal_text(number) == text
    assert float(text) == number


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_fraction_that_is_not_finite_is_refused(number):
    with pytest.raises(EvidenceError, match="finite"):
        without_floats({"a": [number]})


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_decimal_text_reads_back_as_the_same_number(number):
    text = decimal_text(number)

    assert float(text) == number
    assert "e" not in text.lower()


@pytest.mark.parametrize("levels", [255, 900, 1000, 1020, 1100, 100_000])
def test_more_than_254_levels_are_refused(levels):
    line = b"[" * levels + b"]" * levels

    with pytest.raises(EvidenceError):
        parsed(line)
    with pytest.raises(clv_verify.BrokenError):
        clv_verify.parsed(line)


def test_254_levels_are_read():
    line = b"[" * 254 + b"]" * 254

    assert canonical(parsed(line)) == clv_verify.canonical(clv_verify.parsed(line)) == line
