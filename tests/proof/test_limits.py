import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from clvlab.base.files import MAX_BYTES
from clvlab.engine.run import run_started
from clvlab.errors import BundleError, EvidenceError, FileError
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.proof import clv_verify, limits
from clvlab.proof.bundle import PARTS, bundle, read_bundle
from clvlab.proof.canonical import canonical, sha256
from clvlab.proof.disclosure import check_disclosure, disclosure
from clvlab.proof.evidence import read_evidence
from clvlab.proof.limits import MAX_LINE_BYTES, MAX_STARTED_BYTES, MIN_MEAN_LINE_BYTES, PART_LIMITS
from clvlab.proof.merkle import Digest
from clvlab.proof.seal import seal
from clvlab.proof.verify import verify
from clvlab.sql import sql_scores
from clvlab.store.folder import read_run, write_run
from tests.factories import make_agent, make_decisions, make_run, make_sealed_run, make_tape, message
from tests.proof.limits import EVENTS, beyond, written

RUN = make_sealed_run()
SAID = {
    "line feeds": r"events\.jsonl has [0-9,]+ lines in [0-9,]+ bytes",
    "a line": r"events\.jsonl has more than 4,194,304 bytes",
    "a line without an end": r"events\.jsonl has more than 33,554,432 bytes",
    "configurations": r"events\.jsonl has more than 33,554,432 bytes",
    "RUN_STARTED without configurations": r"RUN_STARTED has .* bytes without its agents' configurations",
    "failures": r"lines stand where at most 2 agents could have failed|more agents failed than RUN_STARTED names",
}
SHORTEST = {
    "RUN_STARTED": EVENTS[0],
    "DECISION": {
        "action": dict.fromkeys(("limit_odds_milli", "market_key", "side", "stake")) | {"type": "WAIT"},
        "market_state": None,
        "policy": None,
        "untrusted": dict.fromkeys(("claimed_edge_bps", "confidence_ppm", "confidence_raw", "reason")),
        "agent_id": "", "fixture_id": 0, "tick_seq": 0, "ts_ms": 0,
    },
    "AGENT_ERROR": {"agent_id": "", "error": "", "fixture_id": 0, "tick_seq": 0},
    "MARKET_CLOSE": {
        "close_kind": "stop", "close_ts_ms": 0, "closing": None, "end_seq": 0, "fixture_id": 0, "market_key": "",
    },
    "RUN_SEALED": {"agent_errors": 0, "decisions": 1, "market_closes": 0},
}  # fmt: skip
READ = "read_evidence(given)"
PEAK = """
import resource, sys
{imports}
given = {given}
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    {ask}
except Exception as error:
    said = str(error)[:200]
else:
    said = "read"
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10, said)
"""


def peak_mb(imports: str, given: str, ask: str) -> tuple[int, str]:
    """Run in a process of its own: how much more memory than for what it was given, and what was said of that."""
    script = PEAK.format(imports=imports, given=given, ask=ask)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    megabytes, _, said = done.stdout.strip().partition(" ")
    return int(megabytes), said


@pytest.mark.parametrize("name", SAID)
@pytest.mark.parametrize("read", [read_evidence, clv_verify.read_evidence], ids=["package", "file"])
def test_evidence_beyond_a_limit_is_refused_by_the_limit(read, name):
    with pytest.raises((EvidenceError, clv_verify.BrokenError), match=SAID[name]):
        read(beyond(name))


@pytest.mark.parametrize("name", ["line feeds", "a line", "a line without an end", "configurations"])
def test_sql_asks_for_the_limits_of_lines_too(name):
    with pytest.raises(EvidenceError, match=SAID[name]):
        sql_scores(beyond(name))


@pytest.mark.parametrize("name", SAID)
def test_verification_fails_by_the_limit_in_every_check(name, tmp_path):
    forged = replace(RUN, events=beyond(name))
    folder = write_run(forged, tmp_path)

    ours, theirs = verify(forged), clv_verify.verify(folder)

    assert re.search(SAID[name], ours.recomputed_evidence_hash)
    assert re.search(SAID[name], theirs["recomputed_evidence_hash"])
    assert not ours.passed
    assert all(theirs["checks"].values())


@pytest.mark.parametrize("module", [limits, clv_verify], ids=["package", "file"])
@pytest.mark.parametrize(
    ("lines", "fits"),
    [
        ([MAX_STARTED_BYTES, MAX_LINE_BYTES], True),
        ([MAX_STARTED_BYTES + 1, 100], False),
        ([100, MAX_LINE_BYTES + 1], False),
        ([100, MAX_LINE_BYTES, 100, MAX_LINE_BYTES], True),
        ([MIN_MEAN_LINE_BYTES - 1] * 9, True),
        ([MIN_MEAN_LINE_BYTES - 1] * 9 + [0], False),
        ([100, 0, 0], False),
    ],
)
def test_limits_are_reached_and_not_passed(module, lines, fits):
    text = b"".join(b"x" * size + b"\n" for size in lines)

    if fits:
        module.check_lines(text, "lines", MAX_STARTED_BYTES)
    else:
        with pytest.raises((EvidenceError, clv_verify.BrokenError), match="lines"):
            module.check_lines(text, "lines", MAX_STARTED_BYTES)


@pytest.mark.parametrize("kind", SHORTEST)
def test_no_line_of_any_kind_is_shorter_than_lines_may_be_on_average(kind):
    assert len(canonical({"kind": kind, "payload": SHORTEST[kind], "seq": 1})) >= MIN_MEAN_LINE_BYTES


def test_file_has_the_limits_of_the_package():
    names = ("MAX_BYTES", "MAX_LINE_BYTES", "MAX_STARTED_BYTES", "MIN_MEAN_LINE_BYTES", "MAX_DISCLOSURE_BYTES", "PART_LIMITS")

    assert {name: getattr(limits, name) for name in names} == {name: getattr(clv_verify, name) for name in names}
    assert limits.MAX_BYTES == MAX_BYTES


@pytest.mark.parametrize(
    "given",
    [
        "b'{\"' + b'\\\\' * (40 << 20) + b'\\n'",
        "b'{\"' + b'\\\\' * (4 << 20) + b'\"}\\n'",
        "b'\\n' * (60 << 20)",
        f"{written(EVENTS)!r} + (b'x' * 63 + b'\\n') * (2 << 20)",
    ],
    ids=["escapes beyond the limit", "escapes within it", "line feeds", "lines as short as they may be"],
)
@pytest.mark.parametrize("reader", ["proof.evidence", "proof.clv_verify"])
def test_refusing_takes_little_memory(reader, given):
    megabytes, said = peak_mb(f"from clvlab.{reader} import read_evidence", given, READ)

    assert said != "read"
    assert megabytes < 100


def test_text_of_escapes_within_the_limit_is_read_in_little_memory(tmp_path):
    said = EVENTS[1]["payload"]["untrusted"] | {"reason": '"' * 2_000_000}
    given = tmp_path / "events.jsonl"
    given.write_bytes(written([EVENTS[0], EVENTS[1] | {"payload": EVENTS[1]["payload"] | {"untrusted": said}}, *EVENTS[2:]]))

    megabytes, said = peak_mb("from clvlab.proof.clv_verify import read_evidence", f"open({str(given)!r}, 'rb').read()", READ)

    assert said == "read"
    assert megabytes < 100


def test_what_reading_refuses_is_not_hashed_to_its_end(monkeypatch):
    hashed: list[int] = []
    add = Digest.add
    monkeypatch.setattr(Digest, "add", lambda digest, lines: (hashed.append(len(lines)), add(digest, lines)))
    short = canonical({"kind": "AGENT_ERROR", "payload": {}, "seq": 10**15}) + b"\n"
    first, last = RUN.events.splitlines(keepends=True)[:: EVENTS[-1]["seq"]]
    forged = replace(RUN, events=first + short.rjust(MIN_MEAN_LINE_BYTES) * (1 << 19) + last)

    verdict = verify(forged)

    assert "524,288 lines stand where at most 2 agents" in verdict.recomputed_evidence_hash
    assert sum(hashed) < len(forged.events) // 2


@pytest.mark.parametrize(
    "stored",
    [b"\n" * 100_000, b"x" * (MAX_LINE_BYTES + 1), (b"x" * 63 + b"\n") * 1000],
    ids=["line feeds", "one line", "more lines than events"],
)
def test_stored_scores_beyond_a_limit_are_compared_and_never_bound(stored, tmp_path):
    forged = replace(RUN, scores=stored)

    verdict = verify(forged)

    assert [name for name, check in verdict.checks.items() if check.verdict == "fail"] == ["metrics_recomputed"]
    assert verdict.manifest_hash == RUN.manifest_hash
    assert clv_verify.verify(write_run(forged, tmp_path))["checks"]["metrics_recomputed"]


@pytest.mark.parametrize("receipts", [b"\n" * 1000, b'{"' + b"x" * MAX_LINE_BYTES + b"\n"], ids=["line feeds", "one line"])
def test_receipts_beyond_a_limit_fail_by_it(receipts, tmp_path):
    ours = verify(RUN, receipts).checks["policy_obeyed"]
    theirs = clv_verify.verify(write_run(RUN, tmp_path, receipts))["checks"]["policy_obeyed"]

    assert ours.verdict == "fail"
    assert re.search(r"receipts\.jsonl has", ours.detail)
    assert re.search(r"receipts\.jsonl has", theirs)


@pytest.mark.parametrize("name", PART_LIMITS)
def test_part_of_a_bundle_beyond_its_limit_is_refused(name, tmp_path):
    contents = read_bundle(bundle(RUN)) | {name: b" " * (PART_LIMITS[name] + 1)}
    parts = [part for part in PARTS if part in contents]
    listed = [{"name": part, "sha256": sha256(contents[part]), "size": len(contents[part])} for part in parts]
    header = canonical({"parts": listed, "schema": "clvlab-bundle/1"})
    path = tmp_path / "run.clv"
    path.write_bytes(header + b"\n" + b"".join(contents[part] for part in parts))
    said = f"{name} has {PART_LIMITS[name] + 1:,} bytes, the limit is {PART_LIMITS[name]:,}"

    with pytest.raises(BundleError, match=said):
        read_bundle(path.read_bytes())
    assert clv_verify.verify(path)["checks"] == {"bundle": said}


def test_manifest_of_a_folder_beyond_its_limit_is_not_read(tmp_path):
    folder = write_run(replace(RUN, manifest=b" " * (PART_LIMITS["manifest.json"] + 1)), tmp_path)

    with pytest.raises(FileError, match="the limit is 1,048,576"):
        read_run(folder)
    with pytest.raises(clv_verify.InputError, match="more than 1,048,576 bytes"):
        clv_verify.verify(folder)


def test_manifest_beyond_its_limit_states_nothing():
    padded = replace(RUN, manifest=RUN.manifest + b" " * PART_LIMITS["manifest.json"])

    verdict = verify(padded)

    assert padded.commit_index is None
    assert "the limit is 1,048,576" in verdict.evidence_hash
    assert "the limit is 1,048,576" in verdict.checks["manifest_bound"].detail


def test_disclosure_beyond_its_limit_is_refused(tmp_path, monkeypatch):
    text = canonical(disclosure(RUN, 1))
    path = tmp_path / "disclosure.json"
    path.write_bytes(text)
    monkeypatch.setattr(clv_verify, "MAX_DISCLOSURE_BYTES", len(text) - 1)
    monkeypatch.setattr("clvlab.proof.disclosure.MAX_DISCLOSURE_BYTES", len(text) - 1)

    with pytest.raises(EvidenceError, match="the limit is"):
        check_disclosure(text)
    with pytest.raises(EvidenceError, match="the limit is"):
        disclosure(RUN, 1)
    with pytest.raises(clv_verify.InputError, match="has more than"):
        clv_verify.verify_disclosure(path)


def test_score_beyond_its_limit_is_not_disclosed():
    first, *others = RUN.scores.splitlines(keepends=True)
    longer = first[:-2] + b'"' + b"x" * MAX_LINE_BYTES + b'"}\n'

    with pytest.raises(EvidenceError, match=r"line 1 of scores\.jsonl has more than 4,194,304 bytes"):
        disclosure(replace(RUN, scores=longer + b"".join(others)), 1)


def test_disclosed_line_beyond_its_limit_is_refused():
    given = disclosure(RUN, 1)
    given["decision"] |= {"line": "x" * (MAX_LINE_BYTES + 1)}

    with pytest.raises(EvidenceError, match="the line of the decision has 4,194,305 bytes"):
        check_disclosure(canonical(given))
    with pytest.raises(clv_verify.BrokenError, match="the line of the decision has more than"):
        clv_verify.check_disclosure(canonical(given), {})


def test_run_that_nobody_could_verify_is_not_sealed():
    tape = make_tape([message(0, 0, {"a": 5000, "b": 5000}, market_key="M")], {1: 600})
    result = make_run(tape, {"market_key": "M", "side": "a"})
    started = json.loads(result.sealed.events.splitlines()[0])["payload"]
    events = result.evidence.events
    said = replace(events, claims=replace(events.claims, reason=["x" * MAX_LINE_BYTES]))

    with pytest.raises(EvidenceError, match=r"line 2 of events\.jsonl has more than 4,194,304 bytes"):
        seal(started, said, [], result.scores)


def test_run_of_too_much_configuration_is_refused_before_it_is_committed_to():
    tape = make_tape([message(0, 0, {"a": 5000, "b": 5000}, market_key="M")], {1: 600})
    identity = replace(make_agent(make_decisions()).identity, config={"transcript": "x" * MAX_STARTED_BYTES})

    with pytest.raises(EvidenceError, match=r"RUN_STARTED has [0-9,]+ bytes, the limit is 33,554,432"):
        run_started(tape.binding, tape.closing_policy, [identity], Window(), PolicyEnvelope(), max_close_age_s=None)
