"""The page against the stand-alone file, over everything that tests ask that file about."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from clvlab.errors import BundleError
from clvlab.proof import clv_verify
from clvlab.proof.bundle import PARTS, bundle, read_bundle
from clvlab.proof.canonical import canonical, sha256
from clvlab.proof.disclosure import disclosure
from clvlab.proof.limits import MAX_BYTES, MAX_LINE_BYTES, PART_LIMITS
from tests.browser.forgeries import page_disagreements
from tests.browser.judging import PageJudge, disagreement
from tests.browser.recording import by_file, evidence_case, run_case
from tests.factories import make_sealed_run
from tests.length import length
from tests.log.test_seats import bundles, packed
from tests.proof.limits import EVENTS, NAMES, beyond, written

pytestmark = pytest.mark.browser

_ROOT = Path(__file__).parents[2]
_EACH = length(6, 400)
_JUDGED = (
    "bundle", "bundle_vectors", "canonical", "clv_verify", "coherence", "disclosure", "live_evidence", "merkle",
    "tampering", "threats", "transactions", "vectors", *length((), ("honest_runs", "sizes")),
)  # fmt: skip
# Flips and tapes by the thousand are repeated at whole length only: forgeries below have some of each.
_CHOSEN = length(["-m", "not long", "-k", "not flipped_b and not any_tape"], ["-m", "not realdata"])

FORGERIES = length(
    {"runs": 60, "disclosures": 60, "transactions": 120, "bundles": 60, "proof_files": 60, "policies": 120},
    {"runs": 1500, "disclosures": 1500, "transactions": 3000, "bundles": 1500, "proof_files": 1500, "policies": 1500},
)


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """What the tests of the proof ask the file, and what it says."""
    folder = tmp_path_factory.mktemp("cases")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "tests.browser.recording", "-p", "no:cacheprovider"]
    chosen = [*_CHOSEN, *(f"tests/proof/test_{name}.py" for name in _JUDGED)]
    told = os.environ | {"CLVLAB_CASES": str(folder), "CLVLAB_CASES_EACH": str(_EACH)}
    done = subprocess.run([*command, *chosen], cwd=_ROOT, env=told, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    return [json.loads(line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def judge(browser, tmp_path_factory):
    return PageJudge(browser, tmp_path_factory.mktemp("page"))


def test_page_says_what_the_file_says_of_all_that_tests_ask_it(cases, judge):
    compared = ((case, disagreement(case["said"], page)) for case, page in judge.answers(cases))
    differ = [f"{case['test']} ({case['kind']}): {fault}" for case, fault in compared if fault]

    assert not differ, "\n".join([str(len(differ)), *differ[:5]])
    kinds = Counter(case["kind"] for case in cases)
    assert {"run", "evidence", "parsed", "root"} <= set(kinds)
    assert sum(kinds.values()) > 400


@pytest.mark.parametrize("kind", FORGERIES)
def test_page_says_what_the_file_says_of_seeded_forgeries(kind, judge, tmp_path):
    faults = list(page_disagreements(kind, 1, FORGERIES[kind], tmp_path, judge))

    assert len(faults) > FORGERIES[kind] // 3
    assert set(faults) == {None}


_MINUTES = {"a line without an end", "configurations"}  # of the page


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] * (name in _MINUTES)) for name in NAMES])
def test_page_refuses_evidence_beyond_a_limit(name, judge):
    events = beyond(name)

    [(_, said)] = judge.answers([evidence_case(events)])

    assert said == "broken" == by_file(lambda: clv_verify.read_evidence(events))


def test_page_reads_evidence_within_the_limits(judge):
    said = EVENTS[1]["payload"]["untrusted"] | {"reason": '"' * (MAX_LINE_BYTES // 2 - 1000)}
    events = written([EVENTS[0], EVENTS[1] | {"payload": EVENTS[1]["payload"] | {"untrusted": said}}, *EVENTS[2:]])

    assert [answer for _, answer in judge.answers([evidence_case(events)])] == ["holds"]


@pytest.mark.parametrize("name", PART_LIMITS)
def test_page_refuses_a_part_beyond_its_limit_before_it_reads_it(name, judge):
    contents = read_bundle(bundle(make_sealed_run())) | {name: b""}
    parts = [part for part in PARTS if part in contents]
    sizes = {part: len(contents[part]) for part in parts} | {name: PART_LIMITS[name] + 1}
    listed = [{"name": part, "sha256": sha256(contents[part]), "size": sizes[part]} for part in parts]
    text = canonical({"parts": listed, "schema": "clvlab-bundle/1"}) + b"\n" + b"".join(contents[part] for part in parts)

    [(_, said)] = judge.answers([run_case({"run.clv": text})])

    assert list(said["checks"]) == ["bundle"]
    assert f"the limit is {PART_LIMITS[name]:,}" in said["checks"]["bundle"]


def test_page_takes_the_bundle_of_a_seat_and_says_that_it_does_not_check_the_seat(judge):
    [(_, said)] = judge.answers([run_case({"run.clv": packed(bundles()[0]["aliased"])})])

    assert set(said["checks"].values()) == {None}
    assert said["without"]["seat"] == "the seat is here, and a browser does not check it: clv_verify.py does"


@pytest.mark.parametrize("name", ["events.jsonl", "scores.jsonl", "receipts.jsonl"])
def test_page_refuses_four_gibibytes_as_the_file_does(name, judge):
    parts = [part for part in PARTS[:4] if part != name] + [name]
    sizes = dict.fromkeys(parts, 0) | {name: MAX_BYTES + 1}
    listed = [{"name": part, "sha256": sha256(b""), "size": sizes[part]} for part in PARTS if part in parts]
    text = canonical({"parts": listed, "schema": "clvlab-bundle/1"}) + b"\n"

    [(_, said)] = judge.answers([run_case({"run.clv": text})])

    with pytest.raises(clv_verify.BrokenError) as refused:
        clv_verify.taken_apart(text)
    with pytest.raises(BundleError) as also_refused:
        read_bundle(text)
    assert said["checks"] == {"bundle": str(refused.value)} == {"bundle": str(also_refused.value)}
    assert str(refused.value) == f"{name} has 4,294,967,297 bytes, the limit is 4,294,967,296"


def test_page_refuses_a_manifest_and_a_disclosed_line_beyond_their_limits(judge):
    given = disclosure(make_sealed_run(), 1)
    given["decision"] |= {"line": "x" * (MAX_LINE_BYTES + 1)}
    run = make_sealed_run()
    files = {"manifest.json": run.manifest + b" " * PART_LIMITS["manifest.json"], "events.jsonl": run.events}

    answers = [said for _, said in judge.answers([run_case({"one.json": canonical(given)}), run_case(files)])]

    assert "the line of the decision has more than 4,194,304 bytes" in answers[0]["checks"]["disclosed"]
    assert answers[1] == "refused"
