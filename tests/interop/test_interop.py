"""Programs in Go, which share no code with clvlab, judge its logs and cosign them."""

import os
import subprocess
from contextlib import contextmanager

import pytest

from clvlab.arena.log.operations import open_log, signed_checkpoint
from clvlab.arena.log.tiles import export_tiles
from clvlab.arena.log.witnesses import Cosigners, WitnessOutcome
from clvlab.log.log import commit
from clvlab.log.note import Keys, Signer, trusted_checkpoint
from clvlab.log.policy import Policy
from tests.interop.__main__ import judged
from tests.interop.build import NoGoError, build
from tests.interop.cases import LOG, cases
from tests.logs import hashed, run_of


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    pytest.importorskip("sigstore", reason="the extra 'interop' brings sigstore")
    try:
        return build(tmp_path_factory.mktemp("go"))
    except NoGoError as error:
        pytest.skip(str(error))


def grown(log, size, name=""):
    with log.write() as rows:
        for number in range(rows.size(), size):
            commit(rows, run_of(f"{name}{number}"), "did:x:me", hashed(f"{name}{number}"), None, number)
    return log


@contextmanager
def witnessing(programs, state):
    """The witness in Go: its key and its URL."""
    command = [str(programs["witness"]), "127.0.0.1:0", "go.example/w", str(state), str(LOG.verifier)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.stdout.readline().split()
        finally:
            process.terminate()


def asked(key, url):
    return Cosigners(Policy.read(f"witness go {key} {url}\nquorum go\n"), timeout_s=20)


def test_go_and_sigstore_agree_with_clvlab_about_changed_logs_proofs_and_notes(programs):
    count = int(os.environ.get("CLVLAB_INTEROP_CASES", "500"))

    faults, counts = judged(cases(count, 36), programs["verifier"])

    assert faults == []
    assert all(counts[kind, verdict] > count // 60 for kind in ("note", "tiles", "proof") for verdict in (True, False))
    assert counts["sigstore", True] > count // 10


def test_go_reads_exported_tiles_and_refuses_a_changed_one(programs, tmp_path):
    with open_log(tmp_path / "runs.log", create=True) as log:
        export_tiles(grown(log, 300), str(tmp_path / "tiles"), lambda: signed_checkpoint(log, LOG))
    command = [str(programs["verifier"]), "tiles", str(tmp_path / "tiles"), str(LOG.verifier)]

    sound = subprocess.run(command, capture_output=True, text=True)
    entries = tmp_path / "tiles" / "tile" / "entries" / "000"
    entries.write_bytes(entries.read_bytes().replace(b"did:x:me", b"did:x:mi", 1))
    changed = subprocess.run(command, capture_output=True, text=True)

    assert (sound.returncode, sound.stdout) == (0, 'holds: 300 entries, signed by "log.example" and 0 witnesses\n')
    assert (changed.returncode, changed.stdout) == (1, "refused: entry 0 is not the one that was hashed\n")


def test_witness_in_go_cosigns_a_growing_log_over_restarts_and_refuses_another(programs, tmp_path):
    with open_log(tmp_path / "runs.log", create=True) as log, open_log(tmp_path / "other.log", create=True) as other:
        with witnessing(programs, tmp_path / "state") as (key, url):
            first = asked(key, url).cosigned(log, signed_checkpoint(grown(log, 5), LOG))
        with witnessing(programs, tmp_path / "state") as (key, url):
            cosigners = asked(key, url)  # which does not know what the witness saw, and is told
            second = cosigners.cosigned(log, signed_checkpoint(grown(log, 300), LOG))
            grown(other, 300, "other")
            of_another = cosigners.cosigned(other, signed_checkpoint(other, LOG))
            outcomes = [cosigners.replies[0].outcome]
            grown(other, 310, "other")
            cosigners.cosigned(other, signed_checkpoint(other, LOG))
            outcomes.append(cosigners.replies[0].outcome)
            stranger = Signer("another.example", 1, bytes(range(5, 37)))
            cosigners.cosigned(log, signed_checkpoint(log, stranger))
            outcomes.append(cosigners.replies[0].outcome)
        cosigners.cosigned(log, signed_checkpoint(log, LOG))

    keys = Keys.read([str(LOG.verifier)], [key])
    assert [trusted_checkpoint(note, keys)[1] for note in (first, second)] == [("go.example/w",)] * 2
    assert trusted_checkpoint(of_another, keys)[1] == ()
    assert outcomes == [WitnessOutcome.FORK, WitnessOutcome.FORK, WitnessOutcome.REFUSED]
    assert cosigners.replies[0].outcome == WitnessOutcome.AWAY
