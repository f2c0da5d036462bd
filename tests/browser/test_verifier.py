"""The page against the stand-alone file, over everything that tests ask that file about."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.browser.forgeries import page_disagreements
from tests.browser.judging import PageJudge, disagreement
from tests.length import length

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
    {"runs": 60, "disclosures": 60, "transactions": 120, "bundles": 60},
    {"runs": 1500, "disclosures": 1500, "transactions": 3000, "bundles": 1500},
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
