import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clvlab.errors import EvidenceError
from clvlab.proof.evidence import read_evidence
from clvlab.proof.seal import SealedRun
from clvlab.proof.verify import verify
from tests.factories import make_run, make_sealed_run, make_tape, message
from tests.length import length

ROOT = Path(__file__).parents[2]
SEAL = """
import sys
from clvlab.proof.verify import verify
from tests.factories import make_run, make_sealed_run, make_tape, message
run = make_sealed_run()
tape = make_tape(
    [message(seq, 7 * seq, {s: 3000 + (seq * 37 + n) % 400 for n, s in enumerate("abc")},
             market_key=f"m{seq % 5}", fixture_id=f) for f in (1, 2) for seq in range(400)])
many = make_run(tape, *({"tick_seq": seq, "market_key": f"m{(seq * 3) % 6}", "side": "abcd"[seq % 4], "fixture_id": f,
                         "confidence": seq / 400} for f in (2, 1) for seq in range(400))).sealed
assert verify(run).passed and verify(many).passed
for part in (run.events, run.scores, run.manifest, many.events, many.scores, many.manifest):
    sys.stdout.buffer.write(part)
"""


@pytest.mark.long
def test_hash_seed_and_number_of_threads_do_not_reach_the_bytes(tmp_path):
    digests = set()
    for seed, threads in length((("1", "1"), ("2", "2")), (("1", "1"), ("2", "2"), ("3", "1"))):
        environment = os.environ | {"PYTHONHASHSEED": seed, "POLARS_MAX_THREADS": threads, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, "-c", SEAL], capture_output=True, check=True, cwd=tmp_path, env=environment)
        digests.add(hashlib.sha256(done.stdout).hexdigest())

    assert len(digests) == 1
    assert len(done.stdout) > 100_000


def test_failed_agent_is_sealed_and_the_others_go_on():
    sealed = make_sealed_run()

    evidence = read_evidence(sealed.events)

    assert evidence.errors == [{"agent_id": "broken", "error": "RuntimeError", "fixture_id": None, "tick_seq": None}]
    assert verify(sealed).passed
    assert verify(sealed).outcomes["agent_id"].to_list() == ["a", "broken"]


@pytest.mark.parametrize("messages", [[], [message(0, 0, {"part1": 5000, "part2": 5000})]], ids=["empty tape", "one message"])
def test_run_without_decisions_verifies(messages):
    result = make_run(make_tape(messages))

    verification = verify(result.sealed)

    assert verification.passed
    assert result.sealed.scores == b""
    assert verification.scores.height == 0


def test_all_decisions_of_a_tick_see_the_same_state():
    tape = make_tape([message(0, 0, {"part1": 5000, "part2": 5000}), message(1, 60, {"part1": 5500, "part2": 4500})])

    result = make_run(tape, *({"tick_seq": 1, "side": side} for side in ("part1", "part2", "nobody")))

    states = result.evidence.decisions.select("state_tick_seq", "sides").unique()
    assert states.height == 1
    assert states["state_tick_seq"][0] == 1


def test_market_quoted_earlier_is_carried_forward_with_its_age():
    tape = make_tape(
        [message(0, 0, {"part1": 5000, "part2": 5000}), message(1, 45, {"over": 5000, "under": 5000}, market_key="OU|")]
    )

    result = make_run(tape, {"tick_seq": 1})

    assert b'"market_state":{"age_ms":45000,' in result.sealed.events


@pytest.mark.parametrize(
    ("confidence", "ppm", "raw"),
    [
        (0.0, 0, None),
        (1.0, 1_000_000, None),
        (0.0000005, 1, None),
        (0.00000049, 0, None),
        (1.5, None, "1.5"),
        (-0.1, None, "-0.1"),
        (float("nan"), None, "nan"),
        (float("inf"), None, "inf"),
        (-float("inf"), None, "-inf"),
        (1e300, None, "1" + 300 * "0"),
        (None, None, None),
    ],
)
def test_confidence_is_sealed_in_millionths_or_as_it_was_claimed(confidence, ppm, raw):
    result = make_run(make_tape([message(0, 0, {"part1": 5000, "part2": 5000})]), {"confidence": confidence})

    assert result.evidence.decisions.select("confidence_ppm", "confidence_raw").row(0) == (ppm, raw)
    assert verify(result.sealed).passed


@pytest.mark.parametrize("manifest", [b"", b"[]", b"{}", b"no json"])
def test_manifest_without_a_hash_says_so(manifest):
    with pytest.raises(EvidenceError, match="evidence_hash"):
        _ = SealedRun("run_x", b"", b"", manifest).evidence_hash
