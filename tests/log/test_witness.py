import json
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from clvlab.errors import LogError, LogForkError
from clvlab.log.log import commit
from clvlab.log.note import Checkpoint, Signer, checkpoint, open_note, write_note
from clvlab.log.tree import consistency, tree_root
from clvlab.log.witness import Witness, request
from clvlab.proof.canonical import canonical
from clvlab.store.runlog import RunLog

LOG, WITNESS = Signer("log.example", 1, bytes(range(32))), Signer("w.example", 4, bytes(range(1, 33)))


def grown(log, size):
    with log.write() as rows:
        for number in range(rows.size(), size):
            commit(rows, f"run_{number}", "o", "sha256:1", None, number)
    return log


def asked(log, old, *, size=None, signer=LOG, origin="log.example"):
    with log.read() as rows:
        size = rows.size() if size is None else size
        text = Checkpoint(origin, size, tree_root(rows, size)).text
        return request(old, consistency(rows, min(old, size), size), write_note(text, signer.line(text)))


@pytest.fixture
def witness(tmp_path):
    return Witness(WITNESS, [LOG.verifier], tmp_path / "witness.json")


def test_growing_log_is_cosigned_and_the_state_outlives_the_process(witness, tmp_path):
    log = grown(RunLog(), 3)
    first = witness.cosign(asked(log, 0), 100)
    again = Witness(WITNESS, [LOG.verifier], tmp_path / "witness.json")

    second = again.cosign(asked(grown(log, 8), 3), 200)

    with log.read() as rows:
        text = Checkpoint("log.example", 8, tree_root(rows, 8)).text
    assert open_note(write_note(text, second), WITNESS.verifier)[1] == (WITNESS.verifier,)
    assert first != second


def test_same_checkpoint_is_cosigned_again(witness):
    log = grown(RunLog(), 3)

    assert witness.cosign(asked(log, 0), 100) == witness.cosign(asked(log, 3), 100)


def test_smaller_tree_is_refused(witness):
    log = grown(RunLog(), 8)
    witness.cosign(asked(log, 0), 100)

    with pytest.raises(LogError, match="shrank from 8 to 5"):
        witness.cosign(asked(log, 8, size=5), 200)
    with pytest.raises(LogError, match="has 8 entries, the request starts at 0"):
        witness.cosign(asked(log, 0, size=5), 200)


@pytest.mark.parametrize("size", [8, 9, 16])
def test_forked_tree_is_refused_and_forgotten(witness, size):
    log, fork = grown(RunLog(), 8), RunLog()
    with fork.write() as rows:
        commit(rows, "run_of_the_fork", "o", "sha256:1", None, 0)
    witness.cosign(asked(log, 0), 100)

    with pytest.raises(LogForkError, match="forked"):
        witness.cosign(asked(grown(fork, size), 8), 200)

    assert witness.cosign(asked(grown(log, 12), 8), 300)


def evidence_of(folder):
    return [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("witness.json.fork-*.json"))]


def two_logs(size):
    log, fork = grown(RunLog(), 8), RunLog()
    with fork.write() as rows:
        commit(rows, "run_of_the_fork", "o", "sha256:1", None, 0)
    return log, grown(fork, size)


@pytest.mark.parametrize("old", [0, 3, 8, 9])
def test_two_signed_roots_of_one_size_are_kept_as_evidence_whatever_the_request_starts_at(witness, tmp_path, old):
    log, fork = two_logs(8)
    witness.cosign(asked(log, 0), 100)
    forged = asked(fork, 8).replace("old 8", f"old {old}")

    for _ in range(2):
        with pytest.raises(LogForkError, match="signed two roots of 8 entries") as caught:
            witness.cosign(forged, 200)

    [evidence] = evidence_of(tmp_path)
    notes = [open_note(evidence[name], LOG.verifier) for name in ("seen", "offered")]
    assert [signers for _, signers in notes] == [(LOG.verifier,)] * 2
    assert [checkpoint(text).size for text, _ in notes] == [8, 8]
    assert notes[0][0] != notes[1][0]
    assert (evidence["two_roots_of_one_size"], Path(caught.value.evidence).parent) == (True, tmp_path)


def test_proof_that_fails_keeps_both_notes_and_accuses_nobody(witness, tmp_path):
    log = grown(RunLog(), 8)
    witness.cosign(asked(log, 0), 100)
    head, blank, note = asked(grown(log, 12), 8).partition("\n\n")
    wrong = "\n".join([*head.split("\n")[:1], b64encode(bytes(32)).decode()]) + blank + note

    with pytest.raises(LogForkError, match="or the proof is wrong"):
        witness.cosign(wrong, 200)

    assert [found["two_roots_of_one_size"] for found in evidence_of(tmp_path)] == [False]
    assert witness.cosign(asked(log, 8), 300)


def test_evidence_is_never_written_over(witness, tmp_path):
    log, fork = two_logs(8)
    witness.cosign(asked(log, 0), 100)
    for size in (8, 9, 10):
        with pytest.raises(LogForkError):
            witness.cosign(asked(grown(fork, size), 8), 200)
    before = {path: path.stat().st_ino for path in tmp_path.iterdir()}

    with pytest.raises(LogForkError):
        witness.cosign(asked(fork, 8), 200)

    assert len(evidence_of(tmp_path)) == 3
    assert {path: path.stat().st_ino for path in tmp_path.iterdir()} == before


def test_state_keeps_what_the_log_signed_and_no_other_line(witness, tmp_path):
    log = grown(RunLog(), 3)
    asking = asked(log, 0)

    witness.cosign(asking + "\u2014 nobody.example AAAAAAAA\n", 100)

    kept = json.loads((tmp_path / "witness.json").read_text("utf-8"))
    assert kept == {"schema": "clvlab-witness/2", "checkpoints": [asking.partition("\n\n")[2]]}


def test_state_of_an_older_witness_is_read_and_goes_on(tmp_path):
    log = grown(RunLog(), 3)
    with log.read() as rows:
        text = Checkpoint("log.example", 3, tree_root(rows, 3)).text
    path = tmp_path / "witness.json"
    path.write_bytes(canonical({"schema": "clvlab-witness/1", "checkpoints": [text]}))
    witness = Witness(WITNESS, [LOG.verifier], path)

    with pytest.raises(LogForkError):
        witness.cosign(asked(two_logs(3)[1], 3), 200)
    assert [found["seen"] for found in evidence_of(tmp_path)] == [text]
    assert witness.cosign(asked(grown(log, 8), 3), 200)
    assert json.loads(path.read_text("utf-8"))["schema"] == "clvlab-witness/2"


def test_witnesses_of_one_state_lose_no_update_even_by_another_path(tmp_path):
    keys = [Signer(f"log{number}.example", 1, bytes([number] * 32)) for number in range(12)]
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "link.json").symlink_to(tmp_path / "witness.json")
    log = grown(RunLog(), 3)

    def cosign(number):
        path = tmp_path / ("elsewhere/link.json" if number % 2 else "witness.json")
        key = keys[number]
        return Witness(WITNESS, [key.verifier], path).cosign(asked(log, 0, signer=key, origin=key.name), 100)

    with ThreadPoolExecutor(6) as pool:
        assert len(list(pool.map(cosign, range(12)))) == 12

    assert len(json.loads((tmp_path / "witness.json").read_text("utf-8"))["checkpoints"]) == 12
    assert (tmp_path / "elsewhere" / "link.json").is_symlink()


def test_key_of_a_witness_is_no_key_of_a_log(tmp_path):
    with pytest.raises(LogError, match="signs for no log"):
        Witness(WITNESS, [WITNESS.verifier], tmp_path / "witness.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (lambda log: asked(log, 0, signer=Signer("log.example", 1, bytes(32))), "not signed by the key"),
        (lambda log: asked(log, 0, origin="other.example"), "not watched"),
        (lambda log: asked(log, 0).replace("old 0", "old x"), "not a request"),
        (lambda log: asked(log, 0).replace("old 0", "old 0\n" + "A" * 44), "no base64|of 32 bytes"),
        (lambda log: asked(log, 0).replace("\n3\n", "\n4\n"), "does not hold"),
        (lambda _: "", "not a request"),
    ],
)
def test_request_that_proves_nothing_is_refused(witness, text, message):
    with pytest.raises(LogError, match=message):
        witness.cosign(text(grown(RunLog(), 3)), 100)


def test_damaged_state_is_refused_instead_of_forgotten(witness, tmp_path):
    log = grown(RunLog(), 3)
    witness.cosign(asked(log, 0), 100)
    (tmp_path / "witness.json").write_text("{}")

    with pytest.raises(LogError, match="state of the witness"):
        witness.cosign(asked(log, 0), 100)
