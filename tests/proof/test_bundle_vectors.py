"""Logs, notes and bundles that other implementations can check themselves against. A change here is a change of the format."""

import json
from base64 import b64decode
from pathlib import Path

import pytest

from clvlab.log.bundles import Trust, judge
from clvlab.log.note import Signer, Verifier, checkpoint, open_note
from clvlab.log.tree import completed_roots, consistency, inclusion, tree_root
from clvlab.log.witness import request
from clvlab.proof import clv_verify
from clvlab.proof.bundle import read_bundle, run_of
from clvlab.proof.canonical import parsed
from clvlab.proof.verify import verify
from clvlab.store.runlog import RunLog
from tests.proof.bundles import make_bundle

VECTORS = Path(__file__).parents[1] / "vectors"
LOG = json.loads((VECTORS / "log.json").read_text("utf-8"))
SIZE = len(LOG["entries"])


@pytest.fixture
def rows():
    with RunLog().write() as filled:
        for index, entry in enumerate(LOG["entries"]):
            kind, run_id = parsed(entry.encode())["kind"], parsed(entry.encode())["run_id"]
            filled.add(index, kind, run_id, "", None, None, entry.encode(), completed_roots(filled, index, entry.encode()))
        yield filled


def test_roots_and_proofs(rows):
    assert [tree_root(rows, size).hex() for size in range(SIZE + 1)] == LOG["roots"]
    assert [[value.hex() for value in inclusion(rows, index, SIZE)] for index in range(SIZE)] == LOG["inclusion"]
    assert [[value.hex() for value in consistency(rows, size, SIZE)] for size in range(SIZE + 1)] == LOG["consistency"]


@pytest.mark.parametrize("index", range(SIZE))
def test_file_agrees_on_inclusion(index):
    proof = [bytes.fromhex(value) for value in LOG["inclusion"][index]]

    assert clv_verify.included(clv_verify.leaf(LOG["entries"][index].encode()), index, SIZE, proof).hex() == LOG["roots"][SIZE]


@pytest.mark.parametrize("size", range(1, SIZE + 1))
def test_file_agrees_on_consistency(size):
    old, new = (bytes.fromhex(LOG["roots"][at]) for at in (size, SIZE))
    proof = [bytes.fromhex(value) for value in LOG["consistency"][size]]

    assert clv_verify.extended(size, SIZE, proof, old) == (old, new)
    for wrong in ([*proof, bytes(32)], proof[1:] or [bytes(32)], [bytes(32), *proof[1:]]):
        assert wrong == proof or joined(size, SIZE, wrong, old) != (old, new)
    for other in (size - 1, size + 1, 0, -1):  # of the sizes; the larger one is bound by the checkpoint's signature
        assert joined(other, SIZE, proof, old) != (old, new)


def joined(first, size, proof, old):
    try:
        return clv_verify.extended(first, size, proof, old)
    except clv_verify.BrokenError:
        return None


def test_checkpoint_is_signed_cosigned_and_asked_for(rows):
    log, witness = Signer("log.example", 1, bytes.fromhex(LOG["log_seed"])), Verifier.parse(LOG["witness_key"])
    note = LOG["checkpoint"] + LOG["cosignature"]
    text, signers = open_note(note, Verifier.parse(LOG["log_key"]), witness)

    assert LOG["checkpoint"] == f"{text}\n{log.line(text)}"
    assert signers == (log.verifier, witness)
    assert Signer(witness.name, 4, bytes.fromhex(LOG["witness_seed"])).line(text, LOG["cosigned_s"]) == LOG["cosignature"]
    assert (checkpoint(text).size, checkpoint(text).root.hex()) == (SIZE, LOG["roots"][SIZE])
    assert request(3, consistency(rows, 3, SIZE), LOG["checkpoint"]) == LOG["request"]
    keys = clv_verify.trusted_keys({"logs": [LOG["log_key"]], "witnesses": [LOG["witness_key"]]})
    assert clv_verify.signed_by(note, keys) == (text, [(log.name, False), (witness.name, True)])


@pytest.mark.parametrize("name", ["bundle", "bundle_with_claim", "bundle_with_sources"])
def test_bundle_is_read(tmp_path, name):
    vector = json.loads((VECTORS / f"{name}.json").read_text("utf-8"))
    content = b64decode(vector["bundle"])
    (tmp_path / "run.clv").write_bytes(content)
    (tmp_path / "decision.json").write_text(vector["disclosure"], "utf-8")
    (tmp_path / "keys.json").write_text(json.dumps(vector["trust"]))
    contents = read_bundle(content)
    verified = verify(run_of(contents), contents["receipts.jsonl"])
    checks = judge(contents, verified, Trust(**vector["trust"]), ["anchor", "log"])

    assert run_of(contents).manifest_hash == vector["manifest_hash"]
    assert (verified.passed, {check.verdict.value for check in checks.values()}) == (True, {"pass"})
    given = ["--trust", str(tmp_path / "keys.json"), "--require", "anchor,log"]
    assert clv_verify.main([str(tmp_path / "run.clv"), *given]) == 0
    assert clv_verify.main([str(tmp_path / "decision.json")]) == 0
    alone = clv_verify.verify(tmp_path / "run.clv", vector["trust"])
    assert clv_verify.standing_text(alone["log"], alone["bundle_states_unsigned"]) == checks["log"].detail
    assert alone["bundle_states_unsigned"] == vector.get("claim")


def test_bundle_is_made_as_the_newest_vector_has_it():
    vector = json.loads((VECTORS / "bundle_with_sources.json").read_text("utf-8"))

    assert make_bundle() == b64decode(vector["bundle"])
