import pytest

from clvlab.anchor.log import commit, consistency, tree_root
from clvlab.anchor.note import Checkpoint, Signer, opened, signed
from clvlab.anchor.witness import Witness, request
from clvlab.errors import LogError
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
        return request(old, consistency(rows, min(old, size), size), signed(text, signer.line(text)))


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
    assert opened(signed(text, second), WITNESS.verifier)[1] == (WITNESS.verifier,)
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

    with pytest.raises(LogError, match="forked"):
        witness.cosign(asked(grown(fork, size), 8), 200)

    assert witness.cosign(asked(grown(log, 12), 8), 300)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (lambda log: asked(log, 0, signer=Signer("log.example", 1, bytes(32))), "not signed by the key"),
        (lambda log: asked(log, 0, origin="other.example"), "not watched"),
        (lambda log: asked(log, 0).replace("old 0", "old x"), "no request"),
        (lambda log: asked(log, 0).replace("old 0", "old 0\n" + "A" * 44), "no base64|of 32 bytes"),
        (lambda log: asked(log, 0).replace("\n3\n", "\n4\n"), "does not hold"),
        (lambda _: "", "no request"),
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
