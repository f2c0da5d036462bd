"""Proofs of a log as files in a bundle, in the form that other programs read."""

import json

import pytest

from clvlab.arena.log.operations import bundle_proofs
from clvlab.errors import BundleError
from clvlab.log.note import Keys
from clvlab.log.proof_file import ProofFile
from clvlab.proof import clv_verify
from clvlab.proof.bundle import PROOF_FILES, bundle, proof_files, read_bundle, run_of
from clvlab.proof.canonical import canonical
from tests.proof.bundles import make_bundle, trust
from tests.proof.test_bundle import packed

WITHOUT = make_bundle()
LOG = json.loads(read_bundle(WITHOUT)["log.json"])
WHOLE = make_bundle(files=proof_files(LOG))
CONTENTS = read_bundle(WHOLE)


def refused_by_both(contents, tmp_path):
    content = packed(contents)
    (tmp_path / "run.clv").write_bytes(content)
    with pytest.raises(BundleError) as caught:
        read_bundle(content)
    return str(caught.value), clv_verify.verify(tmp_path / "run.clv", trust())["checks"]["bundle"]


def test_files_of_a_bundle_are_those_that_a_command_makes_and_prove_their_entries():
    keys = Keys.read(trust()["logs"], trust()["witnesses"])

    made = bundle_proofs(WITHOUT)

    assert {name: CONTENTS[name] for name in PROOF_FILES} == {name: made[name] for name in PROOF_FILES}
    for name in ("commit", "outcome"):
        proof = ProofFile.read(CONTENTS[f"{name}.tlog-proof"].decode())
        state, witnesses = proof.check(LOG[name]["entry"].encode(), keys)
        assert (state.origin, witnesses, proof.index) == ("log.example", ("witness.example",), LOG[name]["index"])
        assert proof.text().encode() == CONTENTS[f"{name}.tlog-proof"]


def test_bundle_with_and_without_files_passes_with_the_same_checks(tmp_path):
    results = []
    for content in (WITHOUT, WHOLE):
        (tmp_path / "run.clv").write_bytes(content)
        results.append(clv_verify.verify(tmp_path / "run.clv", trust(), ("anchor", "log")))

    assert results[0] == results[1]
    assert not any(results[0]["checks"].values())


def test_parts_of_a_bundle_without_files_are_the_bytes_of_before():
    contents = read_bundle(WITHOUT)

    assert list(contents) == [name for name in CONTENTS if name not in PROOF_FILES]
    assert all(contents[name] == CONTENTS[name] for name in contents)
    run = run_of(contents)
    again = bundle(run, contents["receipts.jsonl"], anchor=json.loads(contents["anchor.json"]), log=LOG, files={})
    assert again == WITHOUT


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda parts: parts | {"commit.tlog-proof": parts["outcome.tlog-proof"]}, "commit.tlog-proof is not the proof"),
        (lambda parts: parts | {"outcome.tlog-proof": parts["outcome.tlog-proof"] + b"\n"}, "outcome.tlog-proof is not the"),
        (lambda parts: parts | {"commit.tlog-proof": b""}, "commit.tlog-proof is not the proof"),
        (lambda parts: {name: part for name, part in parts.items() if name != "log.json"}, "log.json"),
        (lambda parts: parts | {"log.json": b"{}"}, "log.json has no"),
        (lambda parts: parts | {"log.json": b"nothing"}, ""),
        (lambda parts: parts | {"log.json": canonical(LOG | {"checkpoint": None})}, "log.json has no"),
        (lambda parts: parts | {"log.json": canonical(LOG | {"commit": {**LOG["commit"], "proof": ["AB" * 32]}})}, "no"),
        (lambda parts: parts | {"log.json": canonical(LOG | {"commit": {**LOG["commit"], "index": -1}})}, "no"),
        (lambda parts: parts | {"log.json": canonical(LOG | {"commit": {**LOG["commit"], "proof": ""}})}, "no"),
    ],
)
def test_file_that_says_something_else_than_log_json_is_refused_without_any_key(change, why, tmp_path):
    package, file = refused_by_both(change(CONTENTS), tmp_path)

    assert why in package
    assert why in file


def test_one_file_alone_may_be_there(tmp_path):
    contents = {name: part for name, part in CONTENTS.items() if name != "commit.tlog-proof"}
    (tmp_path / "run.clv").write_bytes(packed(contents))

    assert read_bundle(packed(contents)).keys() == contents.keys()
    assert not any(clv_verify.verify(tmp_path / "run.clv", trust())["checks"].values())
