import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from clvlab.arena.packs import open_pack
from clvlab.errors import DecisionError, LogConflictError, PlanChangedError, RunConflictError
from clvlab.log.log import counts, entry_of
from clvlab.proof.verify import verify
from clvlab.runs.execute import Commitment, execute, execute_all, perform
from clvlab.runs.run_folder import FolderRecorder, load
from clvlab.runs.spec import ReplaySpec, backtest_spec
from clvlab.store.runlog import RunLog
from tests.factories import FailingAgent, make_agent, make_decisions, performed


@pytest.fixture(scope="module")
def pack():
    return open_pack("starter")


def entries(log):
    with log.read() as rows:
        return [entry_of(rows, index) for index in range(rows.size())]


def logged(pack, log, agent="baseline", owner="did:x:me", folder=None):
    plan = backtest_spec(pack, agent, fixture_ids=[pack.fixture_ids[0]])
    with tempfile.TemporaryDirectory() as other:
        done = execute(plan, FolderRecorder(folder or Path(other), lambda: 5, log, owner))
        assert load((folder or Path(other)) / done.run_id) == done.sealed
    return done


def test_run_is_committed_to_before_its_tape_is_opened(pack, monkeypatch):
    log, seen = RunLog(), []
    opened = type(pack).tape
    monkeypatch.setattr(type(pack), "tape", lambda self, *given: seen.append(len(entries(log))) or opened(self, *given))

    test = logged(pack, log)

    assert seen == [1]
    assert [entry["kind"] for entry in entries(log)] == ["COMMIT", "RESULT"]
    assert entries(log)[1]["manifest_hash"] == test.sealed.manifest_hash
    assert (test.sealed.commit_index, verify(test.sealed, test.receipts).passed) == (0, True)


def test_only_the_manifest_knows_of_the_log(pack):
    plain = performed(pack, fixture_ids=[pack.fixture_ids[0]])
    test = logged(pack, RunLog())

    assert (test.sealed.run_id, test.sealed.events, test.sealed.scores) == (
        plain.sealed.run_id,
        plain.sealed.events,
        plain.sealed.scores,
    )
    assert test.sealed.manifest == plain.sealed.manifest.replace(b'"commit_index":null', b'"commit_index":0')


def test_asking_again_gives_the_same_bytes_and_no_new_entry(pack):
    log = RunLog()

    assert logged(pack, log).sealed == logged(pack, log).sealed
    assert len(entries(log)) == 2


def test_failed_run_is_abandoned_and_committed_to_anew_when_asked_for_again(pack):
    log = RunLog()
    for _ in range(2):
        with pytest.raises(DecisionError):
            logged(pack, log, FailingAgent())

    assert [entry["kind"] for entry in entries(log)] == ["COMMIT", "ABANDONED"] * 2
    assert entries(log)[1]["cause"] == "failed"
    with log.read() as rows:
        assert counts(rows)["did:x:me"].abandoned == 2


def test_interrupted_run_stays_open_and_goes_on_under_its_commitment(pack, monkeypatch):
    log, opened = RunLog(), type(pack).tape
    monkeypatch.setattr(type(pack), "tape", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        logged(pack, log)
    monkeypatch.setattr(type(pack), "tape", opened)

    assert [entry["kind"] for entry in entries(log)] == ["COMMIT"]
    assert logged(pack, log).sealed.commit_index == 0


def test_run_whose_folder_holds_other_bytes_is_abandoned_on_the_record(pack, tmp_path):
    log = RunLog()
    logged(pack, None, folder=tmp_path)

    with pytest.raises(RunConflictError):
        logged(pack, log, folder=tmp_path)

    assert [entry["kind"] for entry in entries(log)] == ["COMMIT", "ABANDONED"]


def test_run_that_has_a_result_keeps_it_where_another_lies_in_the_folder(pack, tmp_path):
    log = RunLog()
    logged(pack, log)
    logged(pack, None, folder=tmp_path)

    with pytest.raises(RunConflictError):
        logged(pack, log, folder=tmp_path)

    assert [entry["kind"] for entry in entries(log)] == ["COMMIT", "RESULT"]


def test_run_of_which_the_system_held_more_has_no_second_result(pack, tmp_path):
    log = RunLog()
    done = logged(pack, log)
    held = b'"isolation":[{"agent_id":"baseline","held":["calls","files"]}],"kind":'
    events = done.sealed.events.replace(b'"kind":"backtest"', held + b'"backtest"', 1)
    other = replace(done.sealed, events=events, manifest=done.sealed.manifest.replace(b"sha256:", b"sha256:0", 1))
    record = FolderRecorder(tmp_path, lambda: 6, log, "did:x:me")
    known, offered = done.sealed.manifest_hash, other.manifest_hash

    with pytest.raises(LogConflictError) as refused:
        record.keep(replace(done, sealed=other).knowing(pack=done.pack, evidence=done.evidence))
    record.abandon(done.run_id, "failed")

    assert f"another manifest: entry 1 has {known}, and this one {offered}; nothing was added" in str(refused.value)
    assert "Here the system restricted calls, files of its agents' processes" in str(refused.value)
    assert load(tmp_path / done.run_id) == other
    assert [entry["kind"] for entry in entries(log)] == ["COMMIT", "RESULT"]


def test_run_that_would_be_another_than_was_committed_to_is_refused(pack):
    plan = backtest_spec(pack, fixture_ids=[pack.fixture_ids[0]])

    with pytest.raises(PlanChangedError, match="run_0 was committed to"):
        perform(plan, Commitment("run_0"))


def test_run_that_nobody_committed_to_is_what_its_agent_was_when_it_was_asked(pack):
    agent = make_agent(make_decisions())
    spec = ReplaySpec(agents=[agent], pack=pack, fixtures=[pack.fixture_ids[0]])
    planned = spec.run_id
    object.__setattr__(agent, "identity", replace(agent.identity, strategy_version="2"))

    (made,) = execute_all([spec], 1)

    assert made.run_id == execute(spec).run_id != planned
    assert made.agent["strategy_version"] == "2"


def test_run_of_another_owner_is_refused(pack):
    log = RunLog()
    logged(pack, log)

    with pytest.raises(LogConflictError, match="did:x:me"):
        logged(pack, log, owner="did:x:other")
