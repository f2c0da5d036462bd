import pytest

from clvlab.errors import LogConflictError, LogError
from clvlab.log.entries import Segment, read_entry
from clvlab.log.log import commit, counts, note_segment, segments
from clvlab.log.tree import tree_root
from clvlab.proof.canonical import canonical
from clvlab.store.runlog import RunLog
from tests.logs import audited, entries, hashed, run_of

HASHES = [f"sha256:{digit * 64}" for digit in "0123"]


@pytest.fixture
def log():
    log = RunLog()
    with log.write() as rows:
        commit(rows, run_of(1), "local", hashed(1), None, 5)
        for number, digest in enumerate(HASHES, 1):
            note_segment(rows, "cap_1", number, digest, 10 + number)
            if number == 2:
                note_segment(rows, "cap_2", 1, HASHES[0], 13)
    return log


def test_the_segments_of_a_capture_are_read_back_in_order(log):
    with log.read() as rows:
        assert [one.sha256 for one in segments(rows, "cap_1")] == HASHES
        assert segments(rows, "cap_2") == [Segment("cap_2", 1, HASHES[0])]
        assert segments(rows, "cap_3") == []


def test_noting_a_segment_again_changes_nothing(log):
    before = entries(log)

    with log.write() as rows:
        for number, digest in enumerate(HASHES, 1):
            note_segment(rows, "cap_1", number, digest, 99)

    assert entries(log) == before


@pytest.mark.parametrize(("number", "digest"), [(2, HASHES[2]), (6, HASHES[2]), (0, HASHES[0]), (-1, HASHES[2])])
def test_another_hash_and_a_number_out_of_turn_are_refused(log, number, digest):
    with pytest.raises(LogConflictError), log.write() as rows:
        note_segment(rows, "cap_1", number, digest, 99)


def test_segments_count_as_no_runs_and_their_log_is_sound(log):
    auditor = audited(entries(log))

    assert auditor.broken == []
    with log.read() as rows:
        assert auditor.root() == tree_root(rows, rows.size())
        assert [(owner, count.committed) for owner, count in counts(rows).items()] == [("local", 1)]


def segment(number, capture_id="cap_1", **changes):
    return canonical(
        {
            "kind": "SEGMENT",
            "schema": "clvlab-log/4",
            "ts_ms": 1,
            "capture_id": capture_id,
            "number": number,
            "sha256": HASHES[0],
        }
        | changes
    )


@pytest.mark.parametrize(
    ("found", "rule"),
    [
        ([segment(1), segment(3)], "is segment 3 of capture 'cap_1', 2 is due"),
        ([segment(2)], "is segment 2 of capture 'cap_1', 1 is due"),
        ([segment(1), segment(1)], "is segment 1 of capture 'cap_1', 2 is due"),
        ([segment(1), segment(2, "cap_2")], "is segment 2 of capture 'cap_2', 1 is due"),
        ([segment(1, schema="clvlab-log/2")], "not well-formed"),
        ([segment(1, owner="x")], "not well-formed"),
        ([segment("1")], "not well-formed"),
        ([segment(1, sha256="x")], "names no segment: 'cap_1', 'x'"),
        ([segment(1, capture_id="c" * 400)], "names no segment"),
    ],
)
def test_a_segment_out_of_turn_or_of_another_form_is_named(found, rule):
    auditor = audited(found)

    assert [rule in broken.rule for broken in auditor.broken] == [True]
    assert auditor.broken[0].index == len(found) - 1


def test_an_entry_of_a_segment_is_read_as_one():
    assert read_entry(segment(3)) == Segment("cap_1", 3, HASHES[0])


@pytest.mark.parametrize("name", ["", "x" * 301, "cap_\x1b[2J"])
def test_capture_that_has_no_name_is_refused(name):
    with RunLog().write() as rows:
        with pytest.raises(LogError, match="a capture has a name"):
            note_segment(rows, name, 1, HASHES[0], 5)

        assert rows.size() == 0
