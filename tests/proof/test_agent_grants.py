"""What an agent was allowed to read and reach, as it stands in evidence; both verifiers must say the same."""

import pytest

from clvlab.engine.run import run
from clvlab.law.closing import Window
from clvlab.store.folder import write_run
from tests.factories import make_agent, make_decisions, make_tape, message
from tests.proof.test_tampering import FAILED, PASSED, edit, judged, reseal, swapped

A, B = (f"sha256:{digit * 64}" for digit in "ab")
TAPE = make_tape([message(0, 0, {"part1": 5000, "part2": 5000}), message(1, 100, {"part1": 5500, "part2": 4500})])
READS = b'"reads":[{"name":"a.json","sha256":"%s"},{"name":"a.json","sha256":"%s"}]' % (A.encode(), B.encode())


@pytest.fixture
def granted(tmp_path):
    agent = make_agent(make_decisions({}), reads=(("a.json", A), ("a.json", B)), network=True)
    folder = write_run(run(TAPE, [agent], Window()).sealed, tmp_path)
    assert READS in (folder / "events.jsonl").read_bytes()
    return folder


def test_run_of_an_agent_that_was_allowed_more_passes(granted):
    assert judged(granted).checks == PASSED


@pytest.mark.parametrize(
    "change",
    [
        swapped(b'"network":true,', b""),
        swapped(READS + b",", b""),
        swapped(B.encode(), ("sha256:" + "c" * 64).encode()),
        swapped(b'"name":"a.json"', b'"name":"a.jso"'),
    ],
    ids=["network withheld", "files withheld", "another file", "another name"],
)
def test_grant_that_is_changed_and_sealed_again_is_of_another_run(granted, change):
    edit(granted / "events.jsonl", change)
    reseal(granted)

    assert judged(granted).checks == PASSED | {"manifest_bound": "fail"}


@pytest.mark.parametrize(
    "change",
    [
        swapped(b'"network":true', b'"network":false'),
        swapped(b'"network":true', b'"network":1'),
        swapped(b'"network":true', b'"network":null'),
        swapped(b'"network":true,', b'"network":true,"network":true,'),
        swapped(READS, b'"reads":[]'),
        swapped(READS, b'"reads":null'),
        swapped(READS, b'"reads":["a.json"]'),
        swapped(READS, b'"reads":[{"name":"a.json"}]'),
        swapped(READS, b'"reads":[{"name":"a.json","sha256":1}]'),
        swapped(READS, b'"reads":[{"name":"b","sha256":"x"},{"name":"a","sha256":"x"}]'),
        swapped(b'"proof_mode":', b'"pid":1,"proof_mode":'),
        swapped(b'"causality":"template"', b'"causality":"live"'),
        swapped(b'"causality":"template"', b'"causality":"Template"'),
    ],
    ids=[
        "network false", "network a number", "network null", "network twice", "no files", "null", "no hash", "hash missing",
        "hash a number", "out of order", "another key", "a label of no engine", "a label in capitals",
    ],
)  # fmt: skip
def test_grant_in_another_form_fails_even_if_sealed_again(granted, change):
    edit(granted / "events.jsonl", change)
    reseal(granted)

    assert judged(granted).checks == FAILED


@pytest.mark.parametrize("label", ["audited-sandbox", "audited-process", "unchecked", "tick-by-tick", "prefix-audit"])
def test_every_label_is_read_and_is_part_of_what_names_a_run(granted, label):
    edit(granted / "events.jsonl", swapped(b'"causality":"template"', b'"causality":"%s"' % label.encode()))
    reseal(granted)

    assert judged(granted).checks == PASSED | {"manifest_bound": "fail"}
