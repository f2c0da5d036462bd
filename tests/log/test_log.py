"""The rules of the run log, against every store."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from clvlab.arena.log.operations import open_log
from clvlab.errors import LogConflictError, LogError, StoreError
from clvlab.law.schema import SAFE_INTEGER
from clvlab.log import tree
from clvlab.log.audit import Auditor
from clvlab.log.entries import read_entry
from clvlab.log.log import RunCounts, abandon, commit, conclude, counts, draw_audit, entry_of, proven, recommit
from clvlab.log.tree import consistency, tree_root
from clvlab.proof import merkle
from clvlab.proof.manifest import sources_hash
from clvlab.store.database import Database
from clvlab.store.runlog import RunLog
from tests.logs import entries, hashed, run_of
from tests.merkle import consistency_proof

INPUTS, MANIFEST, PACK = ("sha256:" + digit * 64 for digit in "123")
SOURCES = ["sha256:" + "4" * 64, None]


@pytest.fixture
def database(database_url):
    opened = Database(database_url)
    yield opened
    opened.close()


@pytest.fixture
def log(database):
    return RunLog(database)


def test_run_is_committed_to_and_then_has_exactly_one_result(log):
    with log.write() as rows:
        assert commit(rows, "run_1", "did:x:a", INPUTS, PACK, 1, sources=SOURCES) == 0
        assert commit(rows, "run_2", "did:x:a", INPUTS, PACK, 2) == 1
        assert conclude(rows, "run_1", MANIFEST, PACK, 3) == 2

    with log.read() as rows:
        about = {"run_id": "run_1", "schema": "clvlab-log/6"}
        assert entry_of(rows, 0) == about | {
            "kind": "COMMIT", "owner": "did:x:a", "inputs_hash": INPUTS, "content_hash": PACK, "ts_ms": 1,
            "sources_hash": sources_hash(SOURCES),
        }  # fmt: skip
        assert entry_of(rows, 2) == about | {
            "kind": "RESULT",
            "commit_index": 0,
            "content_hash": PACK,
            "manifest_hash": MANIFEST,
            "ts_ms": 3,
        }
        assert counts(rows) == {"did:x:a": RunCounts(committed=2, sealed=1, abandoned=0)}
        assert counts(rows)["did:x:a"].open == 1


def test_the_same_again_changes_nothing(log):
    with log.write() as rows:
        first = [commit(rows, "run_1", "o", INPUTS, PACK, 1), conclude(rows, "run_1", MANIFEST, PACK, 2)]
        again = [commit(rows, "run_1", "o", INPUTS, PACK, 8), conclude(rows, "run_1", MANIFEST, PACK, 9)]

        assert (first, again, rows.size()) == ([0, 1], [0, 1], 2)


@pytest.mark.parametrize(
    "refused",
    [
        lambda rows: conclude(rows, "run_9", MANIFEST, PACK, 5),  # no commitment
        lambda rows: abandon(rows, "run_9", "gone", 5),
        lambda rows: commit(rows, "run_1", "other", INPUTS, PACK, 5),
        lambda rows: commit(rows, "run_1", "o", MANIFEST, PACK, 5),
        lambda rows: commit(rows, "run_1", "o", INPUTS, INPUTS, 5),  # over another pack
        lambda rows: commit(rows, "run_2", "o", INPUTS, None, 5),
        lambda rows: conclude(rows, "run_1", INPUTS, PACK, 5),  # another result
        lambda rows: abandon(rows, "run_1", "gone", 5),  # it has a result
        lambda rows: conclude(rows, "run_3", MANIFEST, INPUTS, 5),  # over another pack
        lambda rows: conclude(rows, "run_3", MANIFEST, None, 5),
        lambda rows: conclude(rows, "run_2", MANIFEST, PACK, 5),  # it was abandoned
        lambda rows: abandon(rows, "run_2", "another cause", 5),
    ],
)
def test_second_or_contrary_entry_is_refused_and_leaves_the_log_as_it_was(log, refused):
    with log.write() as rows:
        commit(rows, "run_1", "o", INPUTS, PACK, 1)
        conclude(rows, "run_1", MANIFEST, PACK, 2)
        commit(rows, "run_2", "o", INPUTS, PACK, 3)
        abandon(rows, "run_2", "gone", 4)
        commit(rows, "run_3", "o", INPUTS, PACK, 5)
        before = tree_root(rows, 5)

    with pytest.raises(LogConflictError), log.write() as rows:
        refused(rows)

    with log.read() as rows:
        assert (rows.size(), tree_root(rows, 5)) == (5, before)


def test_audits_are_drawn_by_what_nobody_knew_before_the_commitment_and_every_one_that_came_to_nothing_counts(log):
    def attempt(name, owner="o", pack=PACK, audited=1, answers=1):
        index = commit(rows, run_of(name), owner, hashed(name), pack, rows.size(), audited=audited)
        return drawn(name, index, answers)

    def drawn(name, index, answers=1):
        seed, count = draw_audit(rows, run_of(name), "agent", hashed(answers), rows.size())
        draws[index] = read_entry(rows.entry(index)), seed, count
        assert seed <= SAFE_INTEGER  # JSON has it whole everywhere
        return seed, count

    draws = {}
    with log.write() as rows:
        first, count = attempt("a")
        assert (attempt("a"), count) == ((first, 1), 1)  # taken up again
        abandon(rows, run_of("a"), "failed", 9)
        again, count = attempt("a")
        assert (again != first, count) == (True, 2)
        conclude(rows, run_of("a"), MANIFEST, PACK, 9)
        assert attempt("b")[1] == 2  # which is left open
        assert [attempt("other", "another")[1], attempt("c", pack=INPUTS)[1]] == [1, 1]
        assert attempt("d")[1] == 3
        conclude(rows, run_of("d"), MANIFEST, PACK, 9, failed_audits=1)
        conclude(rows, run_of("d"), MANIFEST, PACK, 9, failed_audits=1)
        assert attempt("e")[1] == 4
        abandon(rows, run_of("e"), "failed", 9)
        assert drawn("e", recommit(rows, run_of("e"), 9))[1] == 5
        assert rows.tally()["o"] == {"COMMIT": 7, "RESULT": 2, "ABANDONED": 2}
        assert attempt("f", audited=4)[1] == 6  # all four stand for an attempt each while there is no result
        assert attempt("g", audited=2)[1] == 10
        abandon(rows, run_of("f"), "failed", 9)
        assert drawn("f", recommit(rows, run_of("f"), 9))[1] == 12
        assert attempt("h", audited=2)[1] == 16
        conclude(rows, run_of("f"), MANIFEST, PACK, 9, failed_audits=2)
        conclude(rows, run_of("g"), MANIFEST, PACK, 9, failed_audits=1)  # as many as before: nothing to note
        conclude(rows, run_of("h"), MANIFEST, PACK, 9, failed_audits=0)
        assert attempt("i")[1] == 5 + 4 + 2 + 1 + 1  # up to e, f abandoned, f, g, and this one

    auditor = Auditor()
    for index, (entry, _, _) in draws.items():
        auditor.recount(entry, index, len(entries(log)), None, str(index))
    for data in entries(log):
        auditor.add(data)
    auditor.finish()
    assert (auditor.broken, len(auditor.recounts)) == ([], len(draws))
    failed = {"d": 1, "f": 2, "g": 1}  # those that failed in the run itself
    last = {entry.run_id: index for index, (entry, _, _) in draws.items()}
    beside = {last[run_of(name)]: count for name, count in failed.items()}
    assert {int(one.bundle): (one.draws[0].seed, one.draws[0].attempts) for one in auditor.recounts} == {
        index: (seed, count + beside.get(index, 0)) for index, (_, seed, count) in draws.items()
    }
    assert [one.further_attempts for one in auditor.counts() if (one.owner, one.content_hash) == ("o", PACK)] == [1 + 3 + 2 + 1]


def test_another_answer_under_one_commitment_is_another_attempt_and_draws_anew(log):
    with log.write() as rows:
        index = commit(rows, run_of("a"), "o", hashed("a"), PACK, 1)
        told = [draw_audit(rows, run_of("a"), agent, hashed(answer), 2) for agent, answer in ("x1", "x2", "y1", "x1", "x3")]
        size = rows.size()
        conclude(rows, run_of("a"), MANIFEST, PACK, 3)
        assert draw_audit(rows, run_of("a"), "x", hashed("3"), 4) == told[-1]
        assert draw_audit(rows, run_of("a"), "x", hashed("4"), 4) is None  # it has its result
        later = commit(rows, run_of("b"), "o", hashed("b"), PACK, 5)
        after = draw_audit(rows, run_of("b"), "x", hashed("1"), 6)
        with pytest.raises(LogConflictError, match="no commitment"):
            draw_audit(rows, run_of("c"), "x", hashed("1"), 6)

    assert [count for _, count in told] == [1, 2, 2, 1, 3]
    assert told[3] == told[0]
    assert len({seed for seed, _ in told}) == 4
    assert (size, after[1]) == (5, 3)  # both further answers of x
    auditor = Auditor()
    for at in (index, later):
        auditor.recount(read_entry(entries(log)[at]), at, len(entries(log)), None, str(at))
    for data in entries(log):
        auditor.add(data)
    auditor.finish()
    drawn = {(one.bundle, each.agent_id): (each.seed, each.attempts) for one in auditor.recounts for each in one.draws}
    assert auditor.broken == []
    assert drawn == {(str(index), "x"): told[-1], (str(index), "y"): told[2], (str(later), "x"): after}


@pytest.mark.parametrize(
    "call", [("", 1), ("o" * 301, 1), ("o\x1b[2J", 1), ("o\u202eo", 1), ("o\no", 1), ("o", -1), ("o", 2**53)]
)
def test_entry_out_of_range_is_refused(log, call):
    with pytest.raises(LogError), log.write() as rows:
        commit(rows, "run_1", call[0], INPUTS, PACK, call[1])


def filled(log, size):
    with log.write() as rows:
        for number in range(size):
            commit(rows, f"run_{number}", f"owner {number % 3}", INPUTS, PACK, number)
    return log


def test_stored_tree_gives_the_roots_and_proofs_of_the_plain_one(log):
    filled(log, 21)

    with log.read() as rows:
        leaves = [merkle.leaf_hash(rows.entry(index)) for index in range(21)]
        for size in range(22):
            assert tree_root(rows, size) == merkle.root(leaves[:size])
            for index in range(size):
                assert tree.inclusion(rows, index, size) == merkle.inclusion_proof(leaves[:size], index)
            for first in range(1, size + 1):
                assert consistency(rows, first, size) == consistency_proof(leaves[:size], first)


@given(size=st.integers(1, 3000), data=st.data())
def test_proofs_hold_at_any_size(size, data):
    nodes: dict = {}

    class Grown:
        def node(self, level, index):
            return nodes[level, index]

    for number in range(size):
        nodes |= tree.completed_roots(Grown(), number, b"%d" % number)
    index, first = data.draw(st.integers(0, size - 1)), data.draw(st.integers(1, size))
    root, older = tree_root(Grown(), size), tree_root(Grown(), first)

    leaf = merkle.leaf_hash(b"%d" % index)
    assert merkle.check_inclusion(leaf, index, size, tree.inclusion(Grown(), index, size), root)
    assert merkle.check_consistency(first, size, older, root, consistency(Grown(), first, size))


def test_commitment_and_outcome_of_a_run_are_proved(log):
    with log.write() as rows:
        commit(rows, "run_1", "o", INPUTS, PACK, 1)
        commit(rows, "run_2", "o", INPUTS, PACK, 2)
        conclude(rows, "run_1", MANIFEST, PACK, 3)

        found = proven(rows, "run_1", 3)

        assert [entry.index for entry in found] == [0, 2]
        for entry in found:
            assert merkle.check_inclusion(merkle.leaf_hash(entry.entry), entry.index, 3, entry.proof, tree_root(rows, 3))
        assert [entry.index for entry in proven(rows, "run_1", 2)] == [0]
        with pytest.raises(LogError, match="no entry about run run_9"):
            proven(rows, "run_9", 3)


def test_abandoned_run_is_committed_to_anew_and_both_stay_on_record(log):
    with log.write() as rows:
        commit(rows, "run_1", "o", INPUTS, PACK, 1)
        abandon(rows, "run_1", "gone", 2)
        again = commit(rows, "run_1", "other", INPUTS, PACK, 3)
        assert (again, commit(rows, "run_1", "other", INPUTS, PACK, 4)) == (2, 2)
        conclude(rows, "run_1", MANIFEST, PACK, 5)

        assert [entry.index for entry in proven(rows, "run_1", 4)] == [2, 3]
        assert [entry.index for entry in proven(rows, "run_1", 2)] == [0, 1]
        assert counts(rows) == {"o": RunCounts(1, 0, 1), "other": RunCounts(1, 1, 0)}


def test_log_survives_its_process(tmp_path):
    place = tmp_path / "runs.db"
    with open_log(place, create=True) as log:
        filled(log, 5)

    with open_log(place) as log, log.read() as rows:
        assert rows.size() == 5


@pytest.mark.parametrize("change", ["UPDATE log_entries SET owner = 'x'", "DELETE FROM log_entries WHERE idx = 4"])
def test_database_refuses_to_change_what_the_log_holds(log, database, change):
    filled(log, 5)

    with pytest.raises(StoreError, match="append-only"), database.write() as connection:
        connection.execute(text(change))

    with log.read() as rows:
        assert counts(rows)["owner 0"].committed == 2


def test_database_refuses_a_second_outcome_of_a_commitment(log):
    filled(log, 1)

    def conclude_twice():
        with log.write() as rows:
            for index in (1, 2):
                rows.add(index, "RESULT", "run_0", "owner 0", PACK, 0, b"{}", {(0, index): b"0" * 32})

    with pytest.raises(StoreError):
        conclude_twice()

    with log.read() as rows:
        assert rows.size() == 1


def test_writers_take_turns_and_every_entry_finds_its_place(log):
    def write(number):
        with log.write() as rows:
            return commit(rows, f"run_{number}", "o", INPUTS, PACK, number)

    with ThreadPoolExecutor(8) as pool:
        places = sorted(pool.map(write, range(40)))

    assert places == list(range(40))
    with log.read() as rows:
        leaves = [merkle.leaf_hash(rows.entry(index)) for index in range(40)]
        assert tree_root(rows, 40) == merkle.root(leaves)


def test_what_fails_inside_a_transaction_leaves_no_entry(log):
    def broken_off():
        with log.write() as rows:
            commit(rows, "run_1", "o", INPUTS, PACK, 1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken_off()

    with log.read() as rows:
        assert rows.size() == 0


def test_missing_or_foreign_file_is_refused(tmp_path):
    with pytest.raises(LogError, match="no run log"), open_log(tmp_path / "nowhere.db"):
        pass
    (tmp_path / "text.db").write_text("no database at all, but long enough to look at" * 40)
    with pytest.raises(StoreError, match="can't be used"), open_log(tmp_path / "text.db"):
        pass
