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
from tests.factories import make_limited_run, make_sealed_run

VECTORS = Path(__file__).parents[1] / "vectors"
CANONICAL, MERKLE = (json.loads((VECTORS / f"{name}.json").read_text()) for name in ("canonical", "merkle"))
RUNS = {
    name: (json.loads((VECTORS / f"{name}.json").read_text()), make)
    for name, make in (("run", make_sealed_run), ("run_with_close_limit", lambda: make_limited_run().sealed))
}
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


@pytest.mark.parametrize(("vector", "make"), RUNS.values(), ids=RUNS)
def test_engine_seals_the_run_of_the_vector(vector, make):
    run = make()

    assert [run.events.decode(), run.scores.decode(), run.manifest.decode()] == [vector[name] for name in FILES]
    assert (run.run_id, run.evidence_hash, run.manifest_hash) == tuple(
        vector[name] for name in ("run_id", "evidence_hash", "manifest_hash")
    )


@pytest.mark.parametrize("vector", [vector for vector, _ in RUNS.values()], ids=RUNS)
def test_package_verifies_the_run_of_the_vector(vector):
    result = verify(SealedRun(vector["run_id"], *(vector[name].encode() for name in FILES)))

    assert result.passed
    assert (result.recomputed_evidence_hash, result.manifest_hash) == (vector["evidence_hash"], vector["manifest_hash"])


@pytest.mark.parametrize("vector", [vector for vector, _ in RUNS.values()], ids=RUNS)
def test_stand_alone_verifier_verifies_the_run_of_the_vector(vector, tmp_path):
    for name in FILES:
        (tmp_path / name).write_bytes(vector[name].encode())

    result = clv_verify.verify(tmp_path)

    assert result["verified"]
    assert not any(result["checks"].values())
    assert (result["recomputed_evidence_hash"], result["manifest_hash"]) == (vector["evidence_hash"], vector["manifest_hash"])
    manifest = vector["manifest.json"]
    assert {name: json.loads(manifest).get(name, sha256(manifest.encode())) for name in HASHES} == {
        name: vector[name] for name in HASHES
    }
