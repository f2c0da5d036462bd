import pytest

from clvlab.report.proofs.tampering import difference


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (b"abc\nstake 100\n", b"abc\nstake 900\n", (1, 10, b"1", b"9", b"stake ", b"00")),
        (b"a\nb\n", b"a\nx\nb\n", (1, 2, b"", b"x\n", b"", b"b")),
        (b"aaaa", b"aa", (0, 2, b"aa", b"", b"aa", b"")),
        (b"", b"new", (0, 0, b"", b"new", b"", b"")),
        (b"\xff\n", b"\xfe\n", (0, 0, b"\xff", b"\xfe", b"", b"")),
    ],
)
def test_a_difference_is_found_with_what_stands_around_it(before, after, found):
    own = difference("events.jsonl", before, after)

    assert (own.line, own.offset, own.before, own.after, own.lead, own.trail) == found
    assert before[: own.offset] + own.after + before[own.offset + len(own.before) :] == after


def test_what_is_the_same_has_none():
    assert difference("events.jsonl", b"a", b"a") is None


def test_both_sides_are_marked_without_colour_and_escaped():
    shown = difference("manifest.json", b"<b>1", b"<b>2").to_html()

    assert ">1</del>" in shown
    assert ">2</ins>" in shown
    assert "<code>31</code> → <code>32</code>" in shown


def test_a_long_difference_is_cut_and_says_so():
    shown = difference("events.jsonl", b"a" * 1000, b"b" * 1000).to_html()

    assert "1,000 bytes → 1,000 bytes" in shown
    assert "the first 240 are shown" in shown
    assert "b" * 241 not in shown
