"""The regular expressions of the stand-alone verifier against a reader that walks values, and against hostile lines."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clvlab.proof import clv_verify
from clvlab.proof.canonical import canonical
from tests.factories import make_sealed_run
from tests.length import length
from tests.proof.walk import KINDS, SAFE, walked

texts = st.text(st.sampled_from('a"\\/\x00\x08\t\n\x0b\x1f\x7f\xe9\u2028\U0001f600{}[],:0'), max_size=5)


def around(low, high):
    """Integers about the ends of a range, and about changes in the number of digits."""
    near = [bound + step for bound in (low, high, 0, 10**9, 10**15, -(10**15), SAFE, -SAFE) for step in (-1, 0, 1)]
    return st.integers(low, high) | st.sampled_from([number for number in near if -SAFE <= number <= SAFE])


def values(shape):
    """Values of a shape, and now and then of none."""
    if isinstance(shape, tuple):
        return st.none() | values(shape[0])
    if isinstance(shape, list):
        return st.lists(values(shape[0]), max_size=3)
    if isinstance(shape, dict):
        return st.fixed_dictionaries({key: values(inner) for key, inner in shape.items()})
    if isinstance(shape, range):
        return around(shape.start, shape.stop - 1)
    if isinstance(shape, set):
        return st.sampled_from([*sorted(shape), "other"]) if shape else st.none()
    return texts if shape is str else st.booleans()


@st.composite
def lines(draw):
    """Lines of a kind, most of them as they should be, some with a piece replaced."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    event = {"kind": kind, "payload": draw(values(KINDS[kind])), "seq": draw(around(0, SAFE))}
    text = canonical(event)
    if draw(st.booleans()):
        place = draw(st.integers(0, len(text) - 1))
        width = draw(st.integers(0, 3))
        filler = st.sampled_from(
            [b"", b" ", b"0", b"-", b"-0", b".0", b"e1", b"null", b"true", b'"', b"\\", b"\\/", b"\\u007f", b"\\u0008", b"\\b",
             b"\\u001F", b"\\u001f", b"\\ud800", b"\xff", b"\xc3\xa9", b"\xed\xa0\x80", b"\n", b",", b"{}", b"[]",
             b'"a":1,', b"\x7f", b"\xef\xbb\xbf", b"\xd9\xa1"]
        )  # fmt: skip
        text = text[:place] + draw(filler) + text[place + width :]
    return kind, text


def matched(line, kind):
    try:
        return bool(clv_verify.OF_KIND[kind].fullmatch(clv_verify.unescaped(line.decode("utf-8"))))
    except UnicodeDecodeError:
        return False


@given(lines())
@settings(max_examples=length(150, 600))
def test_a_line_matches_exactly_when_walking_it_finds_no_fault(drawn):
    kind, line = drawn

    assert matched(line, kind) == walked(line, kind)


def test_every_piece_of_a_real_line_that_is_replaced_is_judged_alike():
    for line in make_sealed_run().events.splitlines()[1:]:
        kind = json.loads(line)["kind"]
        assert matched(line, kind)
        for place in range(len(line)):
            for piece in (b"", b"0", b'"', b"}", b" ", line[place : place + 1] * 2):
                other = line[:place] + piece + line[place + 1 :]
                assert matched(other, kind) == walked(other, kind), other


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 0), (0, 1), (1, 9), (0, 10), (0, 99), (0, 100), (7, 321), (100, 1999), (1001, 1010), (999, 1001), (-120, 45), (-1, 0)],
)
def test_range_matches_its_integers_and_no_other_text(low, high):
    pattern = re.compile(clv_verify.between(low, high))

    found = {number for number in range(-2500, 2500) if pattern.fullmatch(str(number))}

    assert found == set(range(low, high + 1))
    assert not any(pattern.fullmatch(text) for text in ("", "-", "-0", "00", "01", "+1", "1.0", "1e1", " 1", "1\n", "\u0661"))


@given(st.integers(-SAFE, SAFE), st.integers(0, SAFE), st.integers(-SAFE * 9, SAFE * 9))
@settings(max_examples=length(80, 300))
def test_range_of_large_integers_ends_where_it_says(low, size, other):
    high = max(low + size, 0)
    pattern = re.compile(clv_verify.between(low, high))

    for number in (low - 1, low, (low + high) // 2, high, high + 1, other, 0):
        assert bool(pattern.fullmatch(str(number))) == (low <= number <= high)


REAL = next(line for line in make_sealed_run().events.decode().splitlines() if '"reason":"' in line)
SIDE = '{"odds_milli":2500,"prob_bps":4000,"side":"part1"}'
MANY = 200_000
HOSTILE = {
    "text without an end": REAL[: REAL.index('"reason":"') + 10] + "a" * 10 * MANY,
    "escapes without an end": REAL[: REAL.index('"reason":"') + 10] + "\\\\" * MANY,
    "odd escape at the end": REAL.replace('"reason":"', '"reason":"' + "\\n" * MANY + "\\x"),
    "sides without an end": REAL[: REAL.index('"sides":[') + 9] + f"{SIDE}," * (MANY // 10),
    "sides, then a fault": REAL.replace('"sides":[', '"sides":[' + f"{SIDE}," * (MANY // 10)).replace('"seq":', '"seq":x'),
    "digits": REAL.replace('"seq":', '"seq":' + "1" * 10 * MANY),
    "reasons, then a fault": REAL.replace('"reasons":[', '"reasons":[' + '"order_cap",' * MANY),
    "brackets": "[" * 10 * MANY,
}


@pytest.mark.parametrize("line", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_line_is_refused_in_time_that_grows_with_its_length(line):
    assert not any(shape.fullmatch(clv_verify.unescaped(line)) for shape in clv_verify.OF_KIND.values())


def test_long_lines_that_are_in_order_are_read():
    for piece in ("a" * MANY, "\\n" * MANY, "\\u0001" * MANY):
        line = REAL.replace('"reason":"', '"reason":"' + piece)
        assert matched(line.encode(), "DECISION")
