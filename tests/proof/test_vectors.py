"""Bytes and hashes that other implementations can check themselves against. A change here is a change of the format."""

import json
from pathlib import Path

import pytest

from clvlab.errors import EvidenceError
from clvlab.proof import clv_verify
from clvlab.proof.canonical import canonical, parsed, sha256
from clvlab.proof.merkle import root_of_lines
from clvlab.proof.seal import SealedRun
from clvlab.proof.verify import verify
from tests.factories import make_sealed_run

VECTORS = Path(__file__).parents[1] / "vectors"
CANONICAL, MERKLE, RUN = (json.loads((VECTORS / f"{name}.json").read_text()) for name in ("canonical", "merkle", "run"))
FILES = ("events.jsonl", "scores.jsonl", "manifest.json")
HASHES = ("evidence_hash", "evidence_root", "score_root", "manifest_hash")


@pytest.mark.parametrize("vector", CANONICAL["canonical"], ids=lambda vector: vector["line"])
def test_canonical_line(vector):
    line = vector["line"].encode()

    assert canonical(vector["value"]) == clv_verify.canonical(vector["value"]) == line
    assert parsed(line) == clv_verify.parsed(line) == vector["value"]
    assert sha256(line) == clv_verify.sha256(line) == vector["sha256"]


@pytest.mark.parametrize("line", CANONICAL["refused"])
def test_refused_line(line):
    with pytest.raises(EvidenceError):
        parsed(line.encode())
    with pytest.raises(clv_verify.BrokenError):
        clv_verify.parsed(line.encode())


@pytest.mark.parametrize("size", range(len(MERKLE["roots"])))
def test_merkle_root(size):
    text = "".join(line + "\n" for line in MERKLE["lines"][:size]).encode()

    assert root_of_lines(text) == clv_verify.merkle_root(clv_verify.lines_of(text)) == MERKLE["roots"][size]


def test_engine_seals_the_run_of_the_vector():
    run = make_sealed_run()

    assert [run.events.decode(), run.scores.decode(), run.manifest.decode()] == [RUN[name] for name in FILES]
    assert (run.run_id, run.evidence_hash, run.manifest_hash) == (RUN["run_id"], RUN["evidence_hash"], RUN["manifest_hash"])


def test_package_verifies_the_run_of_the_vector():
    result = verify(SealedRun(RUN["run_id"], *(RUN[name].encode() for name in FILES)))

    assert result.passed
    assert (result.recomputed_evidence_hash, result.manifest_hash) == (RUN["evidence_hash"], RUN["manifest_hash"])


def test_stand_alone_verifier_verifies_the_run_of_the_vector(tmp_path):
    for name in FILES:
        (tmp_path / name).write_bytes(RUN[name].encode())

    result = clv_verify.verify(tmp_path)

    assert result["verified"]
    assert not any(result["checks"].values())
    assert (result["recomputed_evidence_hash"], result["manifest_hash"]) == (RUN["evidence_hash"], RUN["manifest_hash"])
    assert {name: json.loads(RUN["manifest.json"]).get(name, sha256(RUN["manifest.json"].encode())) for name in HASHES} == {
        name: RUN[name] for name in HASHES
    }
