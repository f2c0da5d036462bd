"""The run log of a store: what its use cases write there, and what anyone may read."""

import base64

import orjson
import pytest

from clvlab.arena.application import Application
from clvlab.arena.report_requests import BacktestRunRequest
from clvlab.arena.runs.in_database import give_up
from clvlab.errors import PackReplayError, PageError, UnsignedLogError
from clvlab.log.note import Signer
from clvlab.packs.reader import Pack
from clvlab.proof import clv_verify, merkle
from clvlab.proof.canonical import parsed
from tests.factories import ALICE, make_competition

KEY = Signer("log.example", 1, bytes(range(32)))
REQUEST = BacktestRunRequest(pack_id="starter", fixture_id=90000000, window_id="w", market_allowlist=[""])
BODY = {"strategy": "baseline", "source_mode": "replay", "pack_id": "starter"}


def entries(application):
    return [orjson.loads(entry["entry"]) for entry in application.log.entries()["entries"]]


def kinds(application):
    return [entry["kind"] for entry in entries(application)]


def test_every_kind_of_run_is_committed_to_by_its_owner_and_ends_in_its_result(application):
    answer = application.deploys.deploy(ALICE, BODY)
    committed = kinds(application)
    application.jobs.run_one()
    competition_id = make_competition(application, "baseline")
    run_id = application.competitions.start(ALICE, competition_id)["run_id"]
    application.backtests.run(REQUEST)
    application.backtests.run(REQUEST)

    assert committed == ["COMMIT"]
    assert kinds(application) == ["COMMIT", "RESULT"] * 3
    assert [entry["run_id"] for entry in entries(application)][:4] == [answer["run_id"]] * 2 + [run_id] * 2
    assert entries(application)[3]["manifest_hash"] == application.runs.verify(run_id)["manifest_hash"]
    assert parsed(application.runs.sealed_run(run_id).manifest)["commit_index"] == entries(application)[3]["commit_index"] == 2
    assert application.log.state()["owners"] == [
        {"owner": "anonymous", "committed": 1, "sealed": 1, "abandoned": 0, "open": 0},
        {"owner": ALICE, "committed": 2, "sealed": 2, "abandoned": 0, "open": 0},
    ]


def test_commitment_stands_before_the_tape_is_opened(application, monkeypatch):
    opened, seen = Pack.tape, []
    monkeypatch.setattr(Pack, "tape", lambda self, *given: seen.append(kinds(application)) or opened(self, *given))

    application.backtests.run(REQUEST)

    assert seen == [["COMMIT"]]


def test_failed_run_is_abandoned_with_its_cause_and_committed_to_anew(application, monkeypatch):
    def broken(*_):
        raise PackReplayError("a cause that may name what is nobody's business")

    with monkeypatch.context() as context:
        context.setattr(Pack, "tape", broken)
        with pytest.raises(PackReplayError):
            application.backtests.run(REQUEST)
    application.backtests.run(REQUEST)

    assert kinds(application) == ["COMMIT", "ABANDONED", "COMMIT", "RESULT"]
    assert entries(application)[1]["cause"] == "failed"
    assert application.log.state()["owners"][0] | {"owner": ""} == {
        "owner": "", "committed": 2, "sealed": 1, "abandoned": 1, "open": 0,
    }  # fmt: skip


def test_run_that_was_given_up_while_its_job_waited_is_committed_to_anew_by_the_job(application):
    run_id = application.deploys.deploy(ALICE, BODY)["run_id"]
    with application._database.write() as connection:
        give_up(connection, run_id, "by another worker", 1)

    assert application.jobs.run_one()

    assert application.runs.card(run_id)["run"]["status"] == "sealed"
    assert kinds(application) == ["COMMIT", "ABANDONED", "COMMIT", "RESULT"]


def test_run_that_another_worker_gave_up_meanwhile_ends_as_failed_and_can_be_asked_for_again(application, monkeypatch):
    opened = Pack.tape

    def meanwhile(self, *given):
        run_id = entries(application)[0]["run_id"]
        with application._database.write() as connection:
            give_up(connection, run_id, "by another worker", 1)
        return opened(self, *given)

    with monkeypatch.context() as context:
        context.setattr(Pack, "tape", meanwhile)
        with pytest.raises(PackReplayError):
            application.backtests.run(REQUEST)

    assert application.jobs.counts() == {"queued": 0, "leased": 0, "done": 0, "failed": 1}
    application.backtests.run(REQUEST)
    assert kinds(application) == ["COMMIT", "ABANDONED", "COMMIT", "RESULT"]


def test_job_whose_failure_can_not_be_noted_ends_all_the_same(application, monkeypatch):
    application.deploys.deploy(ALICE, BODY)

    def broken(*_):
        raise PackReplayError("broken")

    monkeypatch.setattr(Pack, "tape", broken)
    monkeypatch.setattr("clvlab.arena.deploys.job.give_up", broken)

    assert [application.jobs.run_one() for _ in range(2)] == [True, False]
    assert application.jobs.counts()["failed"] == 1


def test_counts_never_rank(application):
    application.backtests.run(REQUEST)
    before = application.leaderboard.rows()

    application.deploys.deploy("did:x:other", BODY)  # open

    assert application.leaderboard.rows() == before


def test_entries_rebuild_the_root_and_pages_join(application):
    for fixture_id in range(90000000, 90000004):
        application.backtests.run(REQUEST.model_copy(update={"fixture_id": fixture_id}))
    pages = [application.log.entries(since, 3)["entries"] for since in (0, 3, 6, 9)]

    joined = [entry for page in pages for entry in page]

    state = application.log.state()
    assert [entry["index"] for entry in joined] == list(range(8))
    root = merkle.root([merkle.leaf_hash(entry["entry"].encode()) for entry in joined])
    assert (state["size"], state["root_hash"]) == (8, "sha256:" + root.hex())
    old = merkle.root([merkle.leaf_hash(entry["entry"].encode()) for entry in joined[:3]])
    proof = [bytes.fromhex(value) for value in application.log.consistency(3, 8)["proof"]]
    assert clv_verify.extended(3, 8, proof, old) == (old, root)


@pytest.mark.parametrize("ask", [
    lambda log: log.entries(-1), lambda log: log.entries(2**53), lambda log: log.entries(0, 0),
    lambda log: log.entries(0, 1001), lambda log: log.consistency(2, 1), lambda log: log.consistency(0, 1),
    lambda log: log.consistency(-1, 0),
])  # fmt: skip
def test_pages_and_sizes_out_of_range_are_refused(in_memory, ask):
    with pytest.raises(PageError):
        ask(in_memory.log)


def test_log_without_a_key_says_so(in_memory):
    assert in_memory.log.state() | {"root_hash": None} == {
        "origin": None, "public_key": None, "size": 0, "root_hash": None, "owners": [], "restarts": [], "witnesses": [],
    }  # fmt: skip
    with pytest.raises(UnsignedLogError):
        in_memory.log.checkpoint()


def test_bundle_of_a_stored_run_holds_its_proofs_and_passes_the_file(database_url, local, tmp_path):
    application = Application(database_url, anchor=local.settings, log_key=KEY)
    run_id = application.competitions.start(ALICE, make_competition(application, "baseline"))["run_id"]
    application.backtests.run(REQUEST)
    path, trust = tmp_path / "run.clv", {
        "anchor_signers": {"localnet": [str(local.key.pubkey())]}, "logs": [str(KEY.verifier)],
    }  # fmt: skip

    def checked():
        path.write_bytes(application.runs.bundle(run_id))
        return clv_verify.verify(path, trust, ["anchor", "log"], without_witness=True)["checks"]

    early = checked()
    application.jobs.run_one()

    assert [name for name, wrong in early.items() if wrong] == ["anchor"]  # the chain has not got it yet
    assert not any(checked().values())
    application.close()


def test_bundle_without_a_key_has_no_log_proofs(application, tmp_path):
    run_id = application.backtests.run(REQUEST)["run_id"]
    path = tmp_path / "run.clv"
    path.write_bytes(application.runs.bundle(run_id))

    result = clv_verify.verify(path)

    assert not any(result["checks"].values())
    assert result["without"] == {"anchor": "the proof is not here", "log": "the proof is not here"}


def test_checkpoint_is_signed_and_only_grows():
    application = Application(log_key=KEY)
    notes = []
    for fixture_id in (90000000, 90000001):
        application.backtests.run(REQUEST.model_copy(update={"fixture_id": fixture_id}))
        notes.append(application.log.checkpoint())

    keys = clv_verify.trusted_keys({"logs": [str(KEY.verifier)], "witnesses": []})
    states = [clv_verify.state_of(clv_verify.signed_by(note, keys)[0]) for note in notes]

    assert [(origin, size) for origin, size, _ in states] == [("log.example", 2), ("log.example", 4)]
    assert "sha256:" + states[1][2].hex() == application.log.state()["root_hash"]
    assert base64.b64decode(notes[1].split("\n")[2]) == states[1][2]
    application.close()
