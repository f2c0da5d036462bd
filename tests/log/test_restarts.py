"""Restarts as entries: what one may say, in what order, and what the log's keeper must tell of them."""

import json

import pytest

from clvlab.arena.log.audit import audit
from clvlab.arena.log.operations import signed_checkpoint
from clvlab.arena.log.public import PublicLog
from clvlab.arena.log.witnesses import WitnessWatch, witnessed_notes
from clvlab.errors import EvidenceError, LogBehindError, LogError
from clvlab.log.audit import Auditor
from clvlab.log.bundles import Trust
from clvlab.log.entries import Restart, read_entry
from clvlab.log.log import commit
from clvlab.log.note import Checkpoint, Signer, write_note
from clvlab.log.publication import Publication, notes_of
from clvlab.log.restarts import RestartRecord, fault, restart
from clvlab.log.witness import Witness, request
from clvlab.proof.canonical import canonical
from clvlab.store.database import Database
from clvlab.store.runlog import RunLog
from tests.arena.test_auditing import changed, honest, served
from tests.logs import hashed, run_of

FIRST, SECOND, THIRD = (Signer(name, 1, bytes(range(seed, seed + 32))) for seed, name in enumerate(["one", "two", "three"]))
WITNESS = Signer("witness", 4, bytes(range(9, 41)))


def note(signer, size, root=bytes(32)):
    text = Checkpoint(signer.name, size, root).text
    return write_note(text, signer.line(text))


LAST = note(FIRST, 3)


def entry(before=LAST, kept=1, log=str(SECOND.verifier), **other):
    content = {"before": before, "kept": kept, "kind": "RESTART", "log": log, "schema": "clvlab-log/3", "ts_ms": 1}
    return canonical(content | other)


def log_of(size):
    log = RunLog(Database())
    with log.write() as rows:
        for number in range(size):
            commit(rows, run_of(number), "owner", hashed(number), None, 1)
    return log


def test_restart_is_read_back():
    assert read_entry(entry()) == Restart(note(FIRST, 3), 1, str(SECOND.verifier))


@pytest.mark.parametrize("data", [
    entry(run_id="run_1"), entry(kept=-1), entry(kept=True), entry(schema="clvlab-log/2"), entry(kind="COMMIT"),
])  # fmt: skip
def test_entry_with_other_keys_or_values_is_no_restart(data):
    with pytest.raises(EvidenceError):
        read_entry(data)
    with pytest.raises(LogError, match="entry 1 is not a restart"):
        RestartRecord.read(1, data)


@pytest.mark.parametrize(("data", "said"), [
    (entry(kept=2), "keeps 2"), (entry(before=note(FIRST, 0)), "keeps 1"), (entry(before="no note"), "signed note"),
    (entry(log=str(Signer("one", 1, bytes(32)).verifier)), "without a new name"), (entry(log="two"), "no base64"),
    (entry(log=str(WITNESS.verifier)), "without a new name"), (entry().replace(b"RESTART", b"COMMIT"), "is not a restart"),
])  # fmt: skip
def test_restart_that_its_place_or_words_contradict_breaks_the_log(data, said):
    auditor = Auditor()
    with log_of(1).read() as rows:
        auditor.add(rows.entry(0))

    auditor.add(data)

    assert [said in broken.rule or "not well-formed" in broken.rule for broken in auditor.broken] == [True]


@pytest.mark.parametrize(("second", "said"), [
    (entry(note(FIRST, 4), 0, str(THIRD.verifier)), "restarts 'one', not 'two'"),
    (entry(note(SECOND, 4), 0, str(Signer("one", 1, bytes(32)).verifier)), "which the log had before"),
    (entry(note(SECOND, 4), 0, str(Signer("four", 1, SECOND.seed).verifier)), "which the log had before"),
    (entry(note(SECOND, 4), 0, str(THIRD.verifier)), None),
])  # fmt: skip
def test_second_restart_ends_the_origin_of_the_first_and_takes_nothing_up_again(second, said):
    auditor = Auditor()

    for data in (entry(kept=0), second):
        auditor.add(data)

    assert [said in broken.rule for broken in auditor.broken] == [True] * (said is not None)
    assert len(auditor.restarts) == 2


def test_log_is_restarted_again_and_what_was_kept_of_the_first_is_what_both_kept():
    log = log_of(2)
    early = signed_checkpoint(log, FIRST)
    with log.write() as rows:
        commit(rows, run_of(2), "owner", hashed(2), None, 1)
    middle = signed_checkpoint(log, FIRST)
    with log.write() as rows:
        assert restart(rows, [note(FIRST, 9)], SECOND, 1).kept == 3
        assert restart(rows, [note(SECOND, 7), note(SECOND, 4)], THIRD, 1).kept == 0
        with pytest.raises(LogError, match="the checkpoint is of 'other'"):
            restart(rows, [note(Signer("other", 1, bytes(32)), 9)], Signer("four", 1, bytes(32)), 1)
        said = [fault(rows, one, FIRST.verifier) for one in (middle, note(FIRST, 9), note(FIRST, 10), note(SECOND, 7))]

    assert [one is None for one in said] == [True, True, False, True]
    with served(honest(PublicLog(log._database, THIRD))) as url:
        done = audit(url, checkpoints={"early": early, "middle": middle})
    assert (done.sound, len(done.lost), [one.kept for one in done.restarts]) == (True, 2, [3, 0]), done.broken


def restarted():
    log = log_of(2)
    with log.write() as rows:
        restart(rows, [note(FIRST, 9)], SECOND, 1)
    return PublicLog(log._database, SECOND)


@pytest.mark.parametrize(("change", "said"), [
    (lambda state: state | {"restarts": []}, "which its keeper does not say"),
    (lambda state: state | {"restarts": [*state["restarts"], state["restarts"][0] | {"index": 1}]}, "has another entry 1"),
    (lambda state: state | {"restarts": [{"index": 2, "entry": "{}"}]}, "is not a restart"),
])  # fmt: skip
def test_keeper_that_tells_of_other_restarts_than_the_entries_is_found_out(change, said):
    public = restarted()

    with served(changed(public, "/log", lambda status, body: (status, json.dumps(change(json.loads(body))).encode()))) as url:
        done = audit(url)

    assert any(said in broken.rule for broken in done.broken), done.broken


def test_checkpoint_by_another_key_of_the_new_name_is_not_of_the_log():
    impostor = Signer("two", 1, bytes(32))
    public = restarted()
    state = public.state()
    forged = note(impostor, state["size"], bytes.fromhex(state["root_hash"].removeprefix("sha256:")))

    with served(changed(public, "/log/checkpoint", lambda *_: (200, forged.encode()))) as url:
        done = audit(url, trust=Trust(logs=[str(impostor.verifier)]))

    assert "not signed by the key that the log was restarted with" in done.broken[0].rule


def test_named_checkpoint_is_judged_where_the_old_key_is_trusted():
    log = log_of(2)
    with log.write() as rows:
        restart(rows, [note(Signer("one", 1, bytes(32)), 9)], SECOND, 1)

    with served(honest(PublicLog(log._database, SECOND))) as url:
        done = audit(url, trust=Trust(logs=[str(FIRST.verifier), str(SECOND.verifier)]))

    assert "the checkpoint that entry 2 restarts the log after does not count" in done.broken[0].rule


def test_witness_is_heard_by_its_state_over_http(tmp_path):
    Witness(WITNESS, [FIRST.verifier], tmp_path / "seen").cosign(request(0, [], note(FIRST, 5)), 1)
    state, published, log = (tmp_path / "seen").read_bytes(), Publication(key=FIRST.verifier), log_of(2)

    with served(lambda path: (200 if path == "/state" else 404, state)) as url:
        WitnessWatch(published, f"{url}/other").look()
        published.require(log)
        watch = WitnessWatch(published, f"{url}/state", every_s=0.01)
        watch.start()
        watch.stop()
        with pytest.raises(LogBehindError, match="with 5 entries"):
            published.require(log)
        assert witnessed_notes(f"{url}/state") == [note(FIRST, 5)]
        with pytest.raises(LogError, match="answers 404"):
            witnessed_notes(f"{url}/other")


@pytest.mark.parametrize("content", [b"{", b"{}", b'{"checkpoints":null}'])
def test_file_of_json_that_is_no_state_of_a_witness_is_refused(content):
    with pytest.raises(LogError, match="neither a checkpoint"):
        notes_of(content)


def test_checkpoint_that_can_not_be_kept_is_not_signed_away(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "a path")

    monkeypatch.setattr("clvlab.log.publication.replace_file", full)

    with pytest.raises(LogBehindError, match=r"No space left on device$"):
        signed_checkpoint(log_of(1), FIRST, Publication(tmp_path / "newest", FIRST.verifier))
    with pytest.raises(LogBehindError, match="No such file or directory"):
        signed_checkpoint(log_of(1), FIRST, Publication(tmp_path / "missing" / "newest", FIRST.verifier))
