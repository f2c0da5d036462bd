from dataclasses import replace

import pytest

from clvlab.errors import LogConflictError, LogError
from clvlab.log.entries import OpeningEntry, PlanEntry, read_entry
from clvlab.log.log import commit, counts
from clvlab.log.plans import note_opening, note_plan, openings, plan_id_of, planned
from clvlab.log.tree import tree_root
from clvlab.proof.canonical import canonical
from clvlab.store.runlog import RunLog
from tests.logs import audited, entries, hashed, run_of

HASH = "sha256:" + "a" * 64
PLAN_ID = plan_id_of(HASH)
PLAN = PlanEntry(PLAN_ID, "local", HASH, "sha256:" + "b" * 64)
TRIALS = ["sha256:" + digit * 64 for digit in "cd"]


@pytest.fixture
def log():
    log = RunLog()
    with log.write() as rows:
        commit(rows, run_of(1), "local", hashed(1), None, 5)
        note_plan(rows, PLAN, 6)
        note_opening(rows, PLAN_ID, TRIALS[0], 7)
        note_opening(rows, PLAN_ID, TRIALS[1], 8, again=True)
    return log


def test_a_plan_and_its_openings_are_read_back(log):
    with log.read() as rows:
        assert planned(rows, PLAN_ID) == 1
        assert openings(rows, PLAN_ID) == [
            (2, OpeningEntry(PLAN_ID, 1, TRIALS[0], again=False)),
            (3, OpeningEntry(PLAN_ID, 1, TRIALS[1], again=True)),
        ]
        assert planned(rows, "plan_2") is None
    assert read_entry(entries(log)[1]) == PLAN


def test_the_same_again_changes_nothing(log):
    before = entries(log)

    with log.write() as rows:
        assert note_plan(rows, PLAN, 99) == 1
        assert note_opening(rows, PLAN_ID, TRIALS[0], 99) == 2
        assert note_opening(rows, PLAN_ID, TRIALS[1], 99) == 3

    assert entries(log) == before


def test_another_configuration_is_refused_unless_it_is_said_to_be_another():
    log = RunLog()
    with log.write() as rows:
        note_plan(rows, PLAN, 1)
        note_opening(rows, PLAN_ID, TRIALS[0], 2)

    with pytest.raises(LogConflictError, match="opened as entry 1 for another"), log.write() as rows:
        note_opening(rows, PLAN_ID, TRIALS[1], 3)
    with pytest.raises(LogConflictError, match="no plan plan_2"), log.write() as rows:
        note_opening(rows, "plan_2", TRIALS[1], 3)
    assert len(entries(log)) == 2


def test_plans_count_as_no_runs_and_their_log_is_sound(log):
    auditor = audited(entries(log))

    assert auditor.broken == []
    assert [(one.plan_id, one.index, one.openings) for one in auditor.plans()] == [(PLAN_ID, 1, {2: TRIALS[0], 3: TRIALS[1]})]
    with log.read() as rows:
        assert auditor.root() == tree_root(rows, rows.size())
        assert [(owner, count.committed) for owner, count in counts(rows).items()] == [("local", 1)]


def plan(**changes):
    stated = {
        "kind": "PLAN",
        "schema": "clvlab-log/5",
        "ts_ms": 1,
        "plan_id": PLAN_ID,
        "owner": "x",
        "plan_hash": HASH,
        "content_hash": "sha256:" + "b" * 64,
    }
    return canonical(stated | changes)


def opened(**changes):
    stated = {
        "kind": "OPENED",
        "schema": "clvlab-log/5",
        "ts_ms": 1,
        "plan_id": PLAN_ID,
        "plan_index": 0,
        "trial": TRIALS[0],
        "again": False,
    }
    return canonical(stated | changes)


@pytest.mark.parametrize(
    ("found", "rule"),
    [
        ([plan(), plan()], f"plans {PLAN_ID!r} again, which is entry 0"),
        ([opened()], f"opens plan {PLAN_ID!r} of entry 0, which is not that plan's"),
        ([plan(), opened(plan_index=1)], f"opens plan {PLAN_ID!r} of entry 1, which is not that plan's"),
        ([plan(), opened(plan_id="q")], "opens plan 'q' of entry 0, which is not that plan's"),
        ([plan(), opened(again=True)], f"opens plan {PLAN_ID!r} again, which is not so"),
        ([plan(), opened(), opened()], f"opens plan {PLAN_ID!r} first, which is not so"),
        ([plan(), opened(), opened(again=True)], "for the configuration for which entry 1 did"),
        ([plan(), opened(trial="t")], f"opens plan {PLAN_ID!r} for no configuration: 't'"),
        ([plan(plan_id="")], "names no plan"),
        ([plan(), plan(plan_id="plan_1")], "names no plan: 'plan_1' is not the id of"),
        ([plan(plan_hash="h")], "plans by no hash: 'h'"),
        ([plan(content_hash="c")], "plans by no hash"),
        ([plan(owner="")], "has a name of 0 bytes"),
        ([plan(schema="clvlab-log/2")], "not well-formed"),
        ([plan(), opened(again=1)], "not well-formed"),
        ([plan(), opened(plan_index=True)], "not well-formed"),
        ([plan(), opened(run_id="x")], "not well-formed"),
    ],
)
def test_a_plan_out_of_turn_or_of_another_form_is_named(found, rule):
    auditor = audited(found)

    assert [rule in broken.rule for broken in auditor.broken] == [True]
    assert auditor.broken[0].index == len(found) - 1


@pytest.mark.parametrize("owner", ["", "x" * 301, "x\x1b[2J"])
def test_owner_of_a_plan_that_is_no_name_is_refused(owner):
    with RunLog().write() as rows:
        with pytest.raises(LogError, match="the owner of a plan has a name"):
            note_plan(rows, replace(PLAN, owner=owner), 6)

        assert rows.size() == 0
