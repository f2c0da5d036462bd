"""Every way to alter a stored run, through the folder on disk, both verifiers, and for what can be read the law in SQL."""

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl
import pytest

import clvlab as cl
from clvlab.errors import WindowError
from clvlab.law.closing import Window
from clvlab.law.metrics import rank
from clvlab.law.policy import PolicyEnvelope
from clvlab.proof import clv_verify
from clvlab.proof.canonical import canonical, sha256
from clvlab.proof.events import receipt_lines
from clvlab.proof.merkle import root_of_lines
from clvlab.proof.verify import Verification, verify
from clvlab.sql import second_opinion
from clvlab.store.folder import read_receipts, read_run, write_run
from tests.factories import make_limited_run, make_mixed_run, make_run, make_sealed_run, make_tape, message

SHARED = ("evidence_integrity", "metrics_recomputed", "manifest_bound", "policy_obeyed", "receipt_separation")
TAPE = make_tape([message(0, 0, {"part1": (5000, 2100), "part2": (5000, 1900)})], {1: 600})
PASSED = dict.fromkeys(SHARED, "pass")
FAILED = dict.fromkeys(SHARED, "fail")


@dataclass(frozen=True)
class Judged:
    """What both verifiers agree upon."""

    verified: bool
    checks: dict[str, str]
    recomputed: str
    verification: Verification


@pytest.fixture(scope="session")
def sealed():
    return make_sealed_run()


@pytest.fixture(scope="session")
def receipts():
    return receipt_lines(make_mixed_run().receipts)


@pytest.fixture
def folder(sealed, receipts, tmp_path):
    return write_run(sealed, tmp_path, receipts)


def judged(folder: Path) -> Judged:
    ours, alone = verify(read_run(folder), read_receipts(folder)), clv_verify.verify(folder)
    checks = {name: ours.checks[name].verdict.value for name in SHARED}
    assert checks == {name: "fail" if fault else "pass" for name, fault in alone["checks"].items()}
    assert ours.verified == alone["verified"]
    assert ours.checks["llm_boundary"].verdict == "pass"
    assert ours.passed == (ours.verified and checks == PASSED)
    assert clv_verify.main([str(folder)]) == (0 if checks == PASSED else 1)
    readable = not ours.recomputed_evidence_hash.startswith("recompute_error:")
    assert readable == (not alone["recomputed_evidence_hash"].startswith("recompute_error:"))
    if readable:
        assert ours.recomputed_evidence_hash == alone["recomputed_evidence_hash"]
        assert ours.manifest_hash == alone["manifest_hash"]
        run = read_run(folder)
        assert second_opinion(run.events, run.scores).agrees == (checks["metrics_recomputed"] == "pass")
    return Judged(ours.verified, checks, ours.recomputed_evidence_hash, ours)


def edit(path: Path, change) -> None:
    path.write_bytes(change(path.read_bytes()))


def edit_lines(path: Path, change) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(change(lines)))


def swapped(old: bytes, new: bytes):
    def change(text: bytes) -> bytes:
        assert old in text
        return text.replace(old, new, 1)

    return change


def reseal(folder: Path) -> None:
    """Do what an operator can: hash whatever lies in the folder, and bind it in a manifest again."""
    events, scores = ((folder / name).read_bytes() for name in ("events.jsonl", "scores.jsonl"))
    manifest = json.loads((folder / "manifest.json").read_bytes())
    manifest |= {
        "evidence_hash": sha256(events),
        "evidence_root": root_of_lines(events),
        "event_count": events.count(b"\n"),
        "score_root": root_of_lines(scores),
    }
    (folder / "manifest.json").write_bytes(canonical(manifest))


def test_untouched_run_passes(folder, sealed):
    result = judged(folder)

    assert result.checks == PASSED
    assert result.recomputed == sealed.evidence_hash
    assert result.verification.manifest_hash == sealed.manifest_hash


EVENT_EDITS = {
    "prob edited": lambda text: text.replace(b'"prob_bps":4000', b'"prob_bps":3000'),
    "odds edited": lambda text: text.replace(b'"odds_milli":2500', b'"odds_milli":9500'),
    "close edited": lambda text: (
        text[: text.index(b"MARKET_CLOSE")]
        + text[text.index(b"MARKET_CLOSE") :].replace(b'"prob_bps":4500', b'"prob_bps":9500', 1)
    ),
    "side edited": swapped(b'"side":"part2","stake"', b'"side":"part3","stake"'),
    "reason edited": swapped(b"rises", b"falls"),
    "time edited": swapped(b'"ts_ms":60000', b'"ts_ms":60001'),
    "horizon edited": swapped(b'"min_clv_horizon_s":60', b'"min_clv_horizon_s":0'),
    "agent renamed": swapped(b'"agent_id":"a"', b'"agent_id":"b"'),
    "config edited": swapped(b'"threshold":"0.4"', b'"threshold":"0.5"'),
    "whitespace added": swapped(b'"seq":1}', b'"seq": 1}'),
    "whitespace at a line end": swapped(b'"seq":1}\n', b'"seq":1} \n'),
    "empty line added": swapped(b'"seq":1}\n', b'"seq":1}\n\n'),
    "carriage returns": lambda text: text.replace(b"\n", b"\r\n"),
    "byte order mark": lambda text: b"\xef\xbb\xbf" + text,
    "duplicate key": swapped(b'"seq":1}', b'"seq":1,"seq":1}'),
    "duplicate key inside": swapped(b'"stake":100', b'"stake":1,"stake":100'),
    "keys in another order": swapped(b'{"kind":"RUN_SEALED","payload":', b'{"payload":'),
    "integer as a float": swapped(b'"stake":100', b'"stake":100.0'),
    "integer with an exponent": swapped(b'"stake":100', b'"stake":1e2'),
    "integer as a string": swapped(b'"stake":100', b'"stake":"100"'),
    "integer as true": swapped(b'"tick_seq":1', b'"tick_seq":true'),
    "boolean as an integer": swapped(b'"suspended":false', b'"suspended":0'),
    "negative zero": swapped(b'"tick_seq":0', b'"tick_seq":-0'),
    "integer beyond 2**53": swapped(b'"stake":100', b'"stake":9007199254740992'),
    "integer beyond 2**64": swapped(b'"stake":100', b'"stake":99999999999999999999'),
    "character escaped": swapped(b"rises", b"\\u0072ises"),
    "lone surrogate": swapped(b"rises", b"\\ud800"),
    "bytes that are no text": swapped(b"rises", b"\xff\xfe"),
    "surrogate in utf-8": swapped(b"rises", b"\xed\xa0\x80"),
    "overlong utf-8": swapped(b"rises", b"\xc0\xaf"),
    "raw control character": swapped(b"rises", b"\x01"),
    "unknown key": swapped(b'}},"tick_seq"', b'}},"receipt":null,"tick_seq"'),
    "missing key": swapped(b'"limit_odds_milli":null,', b""),
    "allowed against a reason": swapped(b'{"allowed":true,"reasons":[]}', b'{"allowed":true,"reasons":["warmup"]}'),
    "refused without a reason": swapped(b'{"allowed":true,"reasons":[]}', b'{"allowed":false,"reasons":[]}'),
    "reason that is null": swapped(b'{"allowed":true,"reasons":[]}', b'{"allowed":false,"reasons":[null]}'),
    "reason unknown": swapped(b'"reasons":["order_cap"]', b'"reasons":["no such reason"]'),
    "reason of the other phase": swapped(b'"reasons":["order_cap"]', b'"reasons":["quote_stale"]'),
    "reason with an escape": swapped(b'"reasons":["order_cap"]', b'"reasons":["order\\"cap"]'),
    "seq that is false": swapped(b'"seq":0}', b'"seq":false}'),
    "count that is true": swapped(b'"agent_errors":1', b'"agent_errors":true'),
    "causality of one's own": swapped(b'"causality":"template"', b'"causality":"certified"'),
    "phase missing": swapped(b'"post":{"allowed":true,"reasons":[]},', b""),
    "verdict missing": lambda text: re.sub(rb'"policy":{"post".*?}},"tick', b'"policy":null,"tick', text, count=1),
    "verdict on a WAIT": lambda text: text.replace(
        b'"policy":null', b'"policy":{"post":{"allowed":true,"reasons":[]},"pre":{"allowed":true,"reasons":[]}}', 1
    ),
    "no json": swapped(b'"seq":1}', b'"seq":1'),
    "not even text": lambda _: b"\x00\x01\x02\n",
    "empty": lambda _: b"",
    "no line feed at the end": lambda text: text[:-1],
    "bytes after the seal": lambda text: text + b"x",
    "line after the seal": lambda text: text + b'{"kind":"SCORE_UPDATE","payload":{},"seq":13}\n',
    "second seal": lambda text: text + text[text.rindex(b"\n", 0, -1) + 1 :],
    "blank line after the seal": lambda text: text + b"\n",
    "seal cut off": lambda text: text[: text.rindex(b"\n", 0, -1) + 1],
}

LINE_EDITS = {
    "decision dropped": lambda lines: lines[:2] + lines[3:],
    "first line dropped": lambda lines: lines[1:],
    "last line dropped": lambda lines: lines[:-1],
    "close dropped": lambda lines: lines[:-2] + lines[-1:],
    "two decisions swapped": lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
    "two closes swapped": lambda lines: [*lines[:-3], lines[-2], lines[-3], lines[-1]],
    "decision duplicated": lambda lines: lines[:2] + lines[1:],
    "receipt forged in": lambda lines: [
        *lines[:3],
        b'{"kind":"RECEIPT","payload":{"amount":1,"receipt_id":"r1"},"seq":3}\n',
        *lines[3:],
    ],
    "receipt forged in and renumbered": lambda lines: renumbered(
        [*lines[:3], b'{"kind":"RECEIPT","payload":{"amount":1,"receipt_id":"r1"},"seq":3}\n', *lines[3:]]
    ),
    "error with a receipt in it": lambda lines: [
        line.replace(b'"error":', b'"amount":1,"error":') if b"AGENT_ERROR" in line else line for line in lines
    ],
    "decisions dropped and renumbered": lambda lines: renumbered(lines[:2] + lines[3:]),
    "error moved in front": lambda lines: renumbered([lines[0], lines[8], *lines[1:8], *lines[9:]]),
}  # fmt: skip


def renumbered(lines: list[bytes]) -> list[bytes]:
    kinds = [json.loads(line)["kind"] for line in lines]
    counts = {b"decisions": kinds.count("DECISION"), b"market_closes": kinds.count("MARKET_CLOSE")}
    for name, count in counts.items():
        lines = [*lines[:-1], re.sub(b'"%s":\\d+' % name, b'"%s":%d' % (name, count), lines[-1])]
    return [re.sub(rb'"seq":\d+}\n$', b'"seq":%d}\n' % seq, line) for seq, line in enumerate(lines)]


@pytest.mark.parametrize("change", [*EVENT_EDITS.values()], ids=EVENT_EDITS.keys())
def test_edited_evidence_is_not_verified(folder, change):
    edit(folder / "events.jsonl", change)

    result = judged(folder)

    assert not result.verified
    assert result.checks["evidence_integrity"] == "fail"


@pytest.mark.parametrize("change", [*LINE_EDITS.values()], ids=LINE_EDITS.keys())
def test_reordered_evidence_is_not_verified(folder, change):
    edit_lines(folder / "events.jsonl", change)

    result = judged(folder)

    assert not result.verified
    assert result.checks["evidence_integrity"] == "fail"


# What breaks the form: no hash, however right, makes it evidence.
MALFORMED = [
    name
    for name in EVENT_EDITS
    if name
    not in {"prob edited", "odds edited", "close edited", "reason edited", "horizon edited", "config edited", "side edited"}
]


@pytest.mark.parametrize("name", [*MALFORMED, *(name for name in LINE_EDITS)])
def test_malformed_evidence_fails_even_if_the_operator_seals_it_again(folder, name):
    if name in EVENT_EDITS:
        edit(folder / "events.jsonl", EVENT_EDITS[name])
    else:
        edit_lines(folder / "events.jsonl", LINE_EDITS[name])
    reseal(folder)

    result = judged(folder)

    if name == "decisions dropped and renumbered":  # well-formed evidence of another run
        failing = {"metrics_recomputed": "fail", "manifest_bound": "fail", "policy_obeyed": "fail"}
        assert result.checks == PASSED | failing
    else:
        assert (result.verified, result.checks) == (False, FAILED)
        assert result.recomputed.startswith("recompute_error:")


@pytest.mark.parametrize("name", ["prob edited", "odds edited", "close edited"])
def test_prices_altered_and_sealed_again_no_longer_give_the_stored_scores(folder, name):
    edit(folder / "events.jsonl", EVENT_EDITS[name])
    reseal(folder)

    result = judged(folder)

    assert result.verified
    assert result.checks["metrics_recomputed"] == "fail"


@pytest.mark.parametrize("name", ["horizon edited", "config edited"])
def test_inputs_altered_and_sealed_again_no_longer_give_the_run_id(folder, name):
    edit(folder / "events.jsonl", EVENT_EDITS[name])
    reseal(folder)

    result = judged(folder)

    assert result.verified
    assert result.checks["manifest_bound"] == "fail"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"fixture_id":1,"market_state"', b'"fixture_id":null,"market_state"'),
        (b'"type":"BACK"', b'"type":null'),
        (b'"type":"BACK"', b'"type":"LAY"'),
        (b'"agent_id":"a","fixture_id"', b'"agent_id":null,"fixture_id"'),
        (b'"agent_id":"a","fixture_id"', b'"agent_id":"nobody","fixture_id"'),
        (b'"end_seq":', b'"end_seq":null,"end_seq_was":'),
        (b'"close_kind":"kickoff"', b'"close_kind":null'),
        (b'"close_kind":"kickoff"', b'"close_kind":"whistle"'),
        (b'"law_version":"clv-law/1"', b'"law_version":"clv-law/9"'),
        (b'"end_rule":"pre_match"', b'"end_rule":"at_noon"'),
        (b'"end_rule":"pre_match"', b'"end_rule":"fixed_duration"'),
        (b'"closing_policy":"last_state"', b'"closing_policy":"best"'),
        (b'"content_hash":null,"fixture_ids"', b'"fixture_ids"'),
        (b'"policy":{"cooldown_s":0,', b'"policy":{"receipt":1,"cooldown_s":0,'),
        (b'"policy":{"cooldown_s":0,', b'"policy":{'),
        (b'"cooldown_s":0', b'"cooldown_s":-1'),
        (b'"cooldown_s":0', b'"cooldown_s":null'),
        (b'"cooldown_s":0', b'"cooldown_s":9007199254741'),
        (b'"kill_switch":false', b'"kill_switch":0'),
        (b'"max_prob_bps":9999', b'"max_prob_bps":10001'),
        (b'"min_prob_bps":1', b'"min_prob_bps":10000'),
        (b'"max_slippage_bps":100', b'"max_slippage_bps":10001'),
        (b'"min_edge_bps":null', b'"min_edge_bps":-10001'),
        (b'"execution_mode":"paper"', b'"execution_mode":"real"'),
        (b'"schema":"clvlab-policy/1"', b'"schema":"clvlab-policy/2"'),
        (b'"venue_allowlist":["paper"]', b'"venue_allowlist":null'),
        (b'"venue_allowlist":["paper"]', b'"venue_allowlist":[1]'),
        (b'"limit_odds_milli":3000', b'"limit_odds_milli":2147483648'),
        (b'"limit_odds_milli":3000', b'"limit_odds_milli":-1'),
        (b'"agents":[', b'"agents":[1,'),
        (b'"agent_id":"a","causality"', b'"agent_id":5,"causality"'),
        (b'"threshold":"0.4"', b'"threshold":' + b"[" * 2000 + b"]" * 2000),
        (b'"prob_bps":4000', b'"prob_bps":9007199254740993'),
        (b'{"odds_milli":3300,"prob_bps":3000,"side":"draw"},', b'{"odds_milli":3300,"prob_bps":3000,"side":"part1"},'),
        (b'"age_ms":0', b'"age_ms":1'),
        (b'"prob_bps":4000,"side":"part1"', b'"prob_bps":4000,"side":null'),
        (b'"fixture_ids":[1,2]', b'"fixture_ids":[1,"2"]'),
        (b'"end_seq":3,"fixture_id":1', b'"end_seq":2,"fixture_id":1'),
        (b'"close_ts_ms":600000', b'"close_ts_ms":600001'),
        (b'"pack_id":null', b'"pack_id":null,"receipt":1'),
        (b'"prob_bps":4000', b'"prob_bps":10001'),
        (b'"odds_milli":3300', b'"odds_milli":1000'),
        (b'"suspended":false', b'"suspended":true'),
        (b'"close_kind":"kickoff"', b'"close_kind":"stop"'),
        (b'"mode_label":"Backtest"', b'"mode_label":"Live paper"'),
        (b'"source_mode":"replay"', b'"source_mode":"live"'),
        (b'"schema":"clvlab-run/1"', b'"schema":"clvlab-run/999"'),
        (b'"fixture_ids":[1,2]', b'"fixture_ids":[2]'),
        (b'"stake":100', b'"stake":-9223372036854775808'),
        (b'"stake":100', b'"stake":-1'),
        (b'"confidence_ppm":null', b'"confidence_ppm":-1'),
        (b'"window_id":"full"', b'"window_id":""'),
        (b'"min_clv_horizon_s":60', b'"min_clv_horizon_s":9007199255'),
    ],
)
def test_value_outside_its_kind_fails_even_if_the_operator_seals_it_again(folder, old, new):
    edit(folder / "events.jsonl", swapped(old, new))
    reseal(folder)

    result = judged(folder)

    assert (result.verified, result.checks) == (False, FAILED)


def test_bytes_that_are_no_json_name_a_reason(folder):
    (folder / "events.jsonl").write_bytes(b"not json\n")

    result = judged(folder)

    assert result.recomputed.startswith("recompute_error:")
    assert result.checks == FAILED


@pytest.mark.parametrize(
    "change",
    [
        swapped(b'{"allowed":false,"reasons":["order_cap"]}', b'{"allowed":true,"reasons":[]}'),
        swapped(b'{"allowed":true,"reasons":[]}', b'{"allowed":false,"reasons":["quote_stale"]}'),
        swapped(b'"reasons":["order_cap"]', b'"reasons":["order_cap","exposure_cap"]'),
        swapped(b'"reasons":["order_cap"]', b'"reasons":["order_cap","order_cap"]'),
    ],
    ids=["refusal lifted", "refusal invented", "reason added", "reason twice"],
)
def test_verdict_altered_and_sealed_again_disobeys_the_policy(folder, change):
    edit(folder / "events.jsonl", change)
    reseal(folder)

    result = judged(folder)

    assert result.verified
    assert result.checks == PASSED | {"policy_obeyed": "fail"}


@pytest.mark.parametrize("change", [(b'"max_orders":2', b'"max_orders":9'), (b'"kill_switch":false', b'"kill_switch":true')])
def test_policy_altered_and_sealed_again_is_neither_bound_nor_obeyed(folder, change):
    edit(folder / "events.jsonl", swapped(*change))
    reseal(folder)

    result = judged(folder)

    assert result.verified
    assert result.checks == PASSED | {"manifest_bound": "fail", "policy_obeyed": "fail"}


HARMLESS = {
    "removed": lambda _: b"",
    "one removed": lambda text: text[text.index(b"\n") + 1 :],
    "fill price altered": lambda text: text.replace(b'"odds_milli":3300', b'"odds_milli":9900'),
    "stake lowered": lambda text: text.replace(b'"stake":100', b'"stake":1'),
    "status altered": lambda text: text.replace(b'"filled"', b'"rejected"'),
}
FORGED = {
    "for a refused action": lambda text: text.replace(b'"decision_seq":2', b'"decision_seq":3'),
    "for a WAIT": lambda text: text.replace(b'"decision_seq":2', b'"decision_seq":7'),
    "for no decision": lambda text: text.replace(b'"decision_seq":2', b'"decision_seq":99'),
    "for a close": lambda text: text.replace(b'"decision_seq":2', b'"decision_seq":10'),
    "twice": lambda text: text + text,
    "of another agent": lambda text: text.replace(b'"agent_id":"a"', b'"agent_id":"b"'),
    "of another run": lambda text: text.replace(b'"run_id":"run_', b'"run_id":"run_0'),
    "of a higher stake": lambda text: text.replace(b'"stake":100', b'"stake":101'),
    "of a negative stake": lambda text: text.replace(b'"stake":100', b'"stake":-1'),
    "of another venue": lambda text: text.replace(b'"venue":"paper"', b'"venue":"betfair"'),
    "at a time beyond 2**53": lambda text: text.replace(b'"ts_ms":0', b'"ts_ms":9007199254740992'),
    "scoring": lambda text: text.replace(b'"non_scoring":true', b'"non_scoring":false'),
    "with another key": lambda text: text.replace(b'"non_scoring":true', b'"edge_bps":5,"non_scoring":true'),
    "in other bytes": lambda text: text.replace(b'"non_scoring":true', b'"non_scoring": true'),
    "no text": lambda _: b"\xff\n",
    "without its line feed": lambda text: text[:-1],
}


@pytest.mark.parametrize("change", [*HARMLESS.values(), *FORGED.values()], ids=[*HARMLESS, *FORGED])
def test_receipts_change_neither_hash_nor_manifest_nor_rank(folder, change):
    before = judged(folder)
    original = read_receipts(folder)
    edit(folder / "receipts.jsonl", change)
    assert read_receipts(folder) != original

    after = judged(folder)

    forged = change in FORGED.values()
    assert after.checks == PASSED | {"policy_obeyed": "fail" if forged else "pass"}
    assert (after.verified, after.recomputed) == (True, before.recomputed)
    assert after.verification.manifest_hash == before.verification.manifest_hash
    assert rank(after.verification.outcomes).equals(rank(before.verification.outcomes))


@pytest.mark.parametrize(
    ("policy", "kept", "said"),
    [
        ({}, 24, "all 24 bets pass the policy; every receipt matches one"),
        ({}, 3, "every receipt matches one, and 21 bets have no receipt, so their execution was not checked"),
        ({}, 0, "all 24 bets pass the policy; there is no receipt, so no execution was checked"),
        ({"kill_switch": True}, 0, "0 of 24 bets pass the policy; no bet was to be executed, and there is no receipt"),
        ({"execution_mode": "dry_run"}, 0, "all 24 bets pass the policy; no bet was to be executed, and there is no receipt"),
    ],
    ids=["all receipts", "some receipts", "no receipt", "nothing allowed", "a dry run"],
)
def test_the_policy_check_says_what_of_the_executions_it_could_not_check(policy, kept, said):
    run = cl.backtest("starter", "cumulative-drift", fixtures=[90000000, 90000001], policy=cl.PolicyEnvelope(**policy)).run

    check = verify(run.source, b"".join(run.receipts.splitlines(keepends=True)[:kept])).checks["policy_obeyed"]

    assert check.verdict == "pass"
    assert check.detail.endswith(said)


LIMIT = b'"max_close_age_s":360,'


@pytest.fixture
def limited(tmp_path):
    """A run over a pack with a limit on the age of a close."""
    folder = write_run(make_limited_run().sealed, tmp_path / "limited")
    assert LIMIT in (folder / "events.jsonl").read_bytes()
    return folder


def test_run_with_a_limit_on_the_age_of_a_close_passes(limited):
    assert judged(limited).checks == PASSED


@pytest.mark.parametrize("change", [swapped(LIMIT, b""), swapped(LIMIT, b'"max_close_age_s":361,')], ids=["removed", "raised"])
def test_limit_that_is_changed_after_the_seal_is_seen(limited, change):
    edit(limited / "events.jsonl", change)

    result = judged(limited)

    assert not result.verified
    assert result.checks == FAILED | {"policy_obeyed": "pass", "receipt_separation": "pass"}


@pytest.mark.parametrize("limit", [b"", *(b'"max_close_age_s":%d,' % limit for limit in (1, 359, 361, 9007199254))])
def test_limit_changed_and_sealed_again_gives_other_scores_and_another_run_id(limited, limit):
    edit(limited / "events.jsonl", swapped(LIMIT, limit))
    reseal(limited)

    result = judged(limited)

    assert result.verified
    assert result.checks == PASSED | {"metrics_recomputed": "fail", "manifest_bound": "fail"}


@pytest.mark.parametrize("limit", [1, 3600, 9007199254])
def test_limit_given_to_a_run_without_one_and_sealed_again_is_not_bound(folder, limit):
    edit(folder / "events.jsonl", swapped(b'"min_clv_horizon_s":60', b'"max_close_age_s":%d,"min_clv_horizon_s":60' % limit))
    reseal(folder)

    result = judged(folder)

    assert result.verified
    assert result.checks == PASSED | {"metrics_recomputed": "fail" if limit == 1 else "pass", "manifest_bound": "fail"}


@pytest.mark.parametrize(
    "value",
    [b"null", b"0", b"-1", b"true", b"false", b"360.0", b"3.6e2", b'"360"', b"[360]", b"9007199255", b"9007199254740991"],
)
def test_limit_that_is_no_positive_number_of_seconds_fails_even_if_sealed_again(limited, value):
    edit(limited / "events.jsonl", swapped(LIMIT, b'"max_close_age_s":%s,' % value))
    reseal(limited)

    result = judged(limited)

    assert (result.verified, result.checks) == (False, FAILED)
    assert result.recomputed.startswith("recompute_error:")


@pytest.mark.parametrize(
    "change",
    [
        swapped(b'{"closing_policy"', b'{"closing_age_s":1,"closing_policy"'),
        swapped(LIMIT, b'"max_close_age_s":360,"max_close_age_s":360,'),
        swapped(b'"end_rule":"pre_match",', LIMIT + b'"end_rule":"pre_match",'),
        lambda text: text.replace(LIMIT, b"").replace(b'"law_version"', LIMIT + b'"law_version"'),
    ],
    ids=["another key", "twice", "twice and out of order", "outside the window"],
)
def test_limit_that_stands_elsewhere_fails_even_if_sealed_again(limited, change):
    edit(limited / "events.jsonl", change)
    reseal(limited)

    assert judged(limited).checks == FAILED


def test_market_of_no_name_passes_both_verifiers(tmp_path):
    assert judged(write_run(make_run(TAPE, {"market_key": ""}).sealed, tmp_path)).checks == PASSED


def test_window_of_too_many_prefixes_is_refused():
    with pytest.raises(WindowError, match="limit of 1000 prefixes, not 1001"):
        Window(market_allowlist=("1X2",) * 1001)


def test_receipt_of_a_dry_run_is_forged(tmp_path):
    result = make_run(TAPE, {"stake": 5}, policy=PolicyEnvelope(execution_mode="dry_run"))
    paper = make_run(TAPE, {"stake": 5})
    assert (result.receipts.height, paper.receipts.height) == (0, 1)
    forged = paper.receipts.with_columns(run_id=pl.lit(result.sealed.run_id))

    assert judged(write_run(result.sealed, tmp_path / "none")).checks == PASSED
    assert judged(write_run(result.sealed, tmp_path, receipt_lines(forged))).checks == PASSED | {"policy_obeyed": "fail"}


def test_file_of_another_name_changes_nothing(folder):
    before = judged(folder)

    (folder / "tail.jsonl").write_bytes(b'{"kind":"PROOF_ANCHOR"}\n')
    after = judged(folder)

    assert after.verified
    assert (after.checks, after.recomputed) == (before.checks, before.recomputed)
    assert after.verification.manifest_hash == before.verification.manifest_hash


SCORE_EDITS = {
    "row inflated": lambda lines: [re.sub(rb'"clv_bps":\d+', b'"clv_bps":9999', line) for line in lines],
    "row dropped": lambda lines: lines[1:],
    "last row dropped": lambda lines: lines[:-1],
    "losing rows dropped": lambda lines: [line for line in lines if b'"clv_bps":-' not in line],
    "valid flipped": lambda lines: [line.replace(b'"valid":false', b'"valid":true') for line in lines],
    "row added": lambda lines: [*lines, lines[0]],
    "rows swapped": lambda lines: [lines[1], lines[0], *lines[2:]],
    "whitespace": lambda lines: [lines[0].replace(b":", b": ", 1), *lines[1:]],
    "emptied": lambda _: [],
}


@pytest.mark.parametrize("change", [*SCORE_EDITS.values()], ids=SCORE_EDITS.keys())
def test_altered_scores_leave_the_seal_intact_and_fail_the_recount(folder, change):
    before = (folder / "scores.jsonl").read_bytes()
    edit_lines(folder / "scores.jsonl", change)
    assert (folder / "scores.jsonl").read_bytes() != before

    result = judged(folder)

    assert result.verified
    assert result.checks == PASSED | {"metrics_recomputed": "fail"}


@pytest.mark.parametrize("change", [*SCORE_EDITS.values()], ids=SCORE_EDITS.keys())
def test_altered_scores_sealed_again_fail_the_manifest_too(folder, change):
    edit_lines(folder / "scores.jsonl", change)
    reseal(folder)

    result = judged(folder)

    assert result.verified
    assert result.checks == PASSED | {"metrics_recomputed": "fail", "manifest_bound": "fail"}


def test_missing_scores_fail_the_recount(folder):
    (folder / "scores.jsonl").unlink()

    assert judged(folder).checks == PASSED | {"metrics_recomputed": "fail"}


@pytest.mark.parametrize(
    "field", ["run_id", "evidence_root", "score_root", "event_count", "content_hash", "config_hash", "policy_hash",
              "law_version", "verifier_version", "commit_index", "schema"],
)  # fmt: skip
def test_manifest_that_states_something_else_is_not_bound(folder, field):
    edit(folder / "manifest.json", lambda text: canonical(json.loads(text) | {field: "sha256:" + 64 * "0"}))

    result = judged(folder)

    assert result.verified
    assert result.checks == PASSED | {"manifest_bound": "fail"}


def test_another_sealed_hash_is_not_verified(folder, sealed):
    edit(folder / "manifest.json", swapped(sealed.evidence_hash.encode(), b"sha256:" + 64 * b"0"))

    result = judged(folder)

    assert not result.verified
    assert result.checks == PASSED | {"evidence_integrity": "fail", "manifest_bound": "fail"}


@pytest.mark.parametrize("content", [b"", b"no json", b"[]", b"{}", b"\xff", b"null"])
def test_unreadable_manifest_fails(folder, content):
    (folder / "manifest.json").write_bytes(content)

    result = judged(folder)

    assert not result.verified
    assert result.checks == PASSED | {"evidence_integrity": "fail", "manifest_bound": "fail"}


@pytest.mark.parametrize("change", [lambda text: text + b"\n", lambda text: text.replace(b":", b": ", 1)])
def test_manifest_of_other_bytes_is_not_bound(folder, change):
    edit(folder / "manifest.json", change)

    result = judged(folder)

    assert result.verified
    assert result.checks == PASSED | {"manifest_bound": "fail"}


def test_run_stored_under_another_id_is_not_bound(sealed):
    result = verify(replace(sealed, run_id="run_" + 32 * "0"))

    assert result.verified
    assert result.checks["manifest_bound"].verdict == "fail"


@pytest.mark.parametrize("source", [None, "import openai\n", "def f():\n    import anthropic\n"])
def test_trust_folder_that_is_missing_or_knows_a_model_fails_the_boundary(sealed, tmp_path, source):
    if source is not None:
        for name in ("law", "proof"):
            (tmp_path / name).mkdir()
        (tmp_path / "errors.py").write_text("")
        (tmp_path / "law" / "clv.py").write_text(source)

    result = verify(sealed, trust_folder=tmp_path)

    assert result.verified
    assert result.checks["llm_boundary"].verdict == "fail"
    assert not result.passed


@pytest.mark.parametrize("position", [0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999])
@pytest.mark.parametrize("bit", [0, 5])
def test_one_flipped_bit_breaks_the_seal(folder, sealed, position, bit):
    at = int(len(sealed.events) * position)
    edit(folder / "events.jsonl", lambda text: text[:at] + bytes([text[at] ^ 1 << bit]) + text[at + 1 :])

    result = judged(folder)

    assert not result.verified
    assert result.checks["evidence_integrity"] == "fail"
