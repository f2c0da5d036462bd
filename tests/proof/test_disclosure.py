"""One decision disclosed: what it must show, and what no forger of the lines and roots around it gets past either verifier."""

import json
import random

import pytest

from clvlab.arena.runs.bundles import disclose, judge_disclosure
from clvlab.cli import app
from clvlab.errors import BundleError, EvidenceError
from clvlab.proof import clv_verify
from clvlab.proof.canonical import canonical, sha256
from clvlab.proof.disclosure import check_disclosure, disclosure
from clvlab.proof.merkle import inclusion_proof, leaf_hashes, root
from clvlab.store.folder import write_run
from tests.factories import make_mixed_run
from tests.proof.bundles import logged

RUN = logged()[0]
EVENTS, SCORES = RUN.events.split(b"\n")[:-1], RUN.scores.split(b"\n")[:-1]
OTHER = next(seq for seq, line in enumerate(EVENTS) if b'"market_key":"OU|' in line)
WAIT = next(seq for seq, line in enumerate(EVENTS) if b'"type":"WAIT"' in line)


def shown(seq=2):
    return disclosure(RUN, seq)


def judged(text):
    """Judge a disclosure by package and file, which must agree: its manifest's hash, or null."""
    result = {}
    alone = clv_verify.fault(clv_verify.check_disclosure, text, result)
    try:
        ours = check_disclosure(text)
    except EvidenceError:
        ours = None
    assert (ours is None) == (alone is not None)
    assert ours == result.get("manifest_hash")
    return ours


def rooted(seq=2, events=None, scores=None, **changed):
    """Disclose from any lines at all: proofs, roots and counts of lines are made to fit them."""
    given, events, scores = shown(seq), events or EVENTS, scores or SCORES
    texts = {"evidence_root": b"\n".join(events) + b"\n", "score_root": b"\n".join(scores) + b"\n"}
    bound = json.loads(given["manifest"]) | {name: "sha256:" + root(leaf_hashes(text)).hex() for name, text in texts.items()}
    bound |= {"event_count": len(events), "evidence_hash": sha256(texts["evidence_root"])}
    for name in ("started", "decision", "close", "sealed", "score"):
        if given[name] is not None:
            lines, leaves = (scores, leaf_hashes(texts["score_root"])) if name == "score" else (
                events, leaf_hashes(texts["evidence_root"]))  # fmt: skip
            index = changed.get(name, given[name]["index"])
            proof = [value.hex() for value in inclusion_proof(leaves, index)]
            given[name] = {"index": index, "line": lines[index].decode(), "proof": proof, "size": len(leaves)}
    return given | {"manifest": canonical(bound).decode()}


def altered(lines, index, **payload):
    """Change what stands in the payload of a line, or in a score row."""
    event = json.loads(lines[index])
    target = event.get("payload", event)
    target.update(payload)
    return [*lines[:index], canonical(event), *lines[index + 1 :]]


def test_every_decision_is_disclosed_with_its_window_and_its_close(tmp_path):
    for seq in range(1, 8):
        given = shown(seq)
        assert judged(canonical(given)) == RUN.manifest_hash
        assert judged(canonical(rooted(seq))) == RUN.manifest_hash
        assert (given["close"] is None) == (seq == WAIT)

        path = tmp_path / "decision.json"
        path.write_bytes(canonical(given))
        assert clv_verify.main([str(path)]) == 0
    assert clv_verify.main([str(path), "--require", "anchor"]) == 1


def test_score_of_another_agent_market_and_side_fails():
    row = {
        "agent_id": "winner",
        "market_key": "OU|line=2.5",
        "side": "over",
        "clv_bps": 9000,
        "valid": True,
        "reason": "scored",
    }

    assert judged(canonical(rooted(scores=altered(SCORES, 1, **row)))) is None


@pytest.mark.parametrize(
    "row",
    [
        {"clv_bps": 9000}, {"edge_bps": 1}, {"valid": False}, {"reason": "pending_horizon"}, {"close_prob_bps": 9999},
        {"entry_prob_bps": 1}, {"odds_milli": 7777}, {"close_kind": "stop"}, {"closing_age_ms": 0}, {"confidence_ppm": 1},
        {"seq": 3}, {"tick_seq": 1}, {"fixture_id": 2}, {"side": "draw"},
    ],
    ids=lambda row: next(iter(row)),
)  # fmt: skip
@pytest.mark.parametrize("seq", [2, WAIT])
def test_score_that_the_law_does_not_give_fails(seq, row):
    changed = altered(SCORES, seq - 1, **row)
    assert changed != SCORES

    assert judged(canonical(rooted(seq, scores=changed))) is None


@pytest.mark.parametrize(
    "stated", [{"event_count": -1}, {"event_count": True}, {"commit_index": "1"}, {"evidence_hash": 1}, {"score_root": None}]
)
def test_manifest_that_states_no_count_or_hash_fails(stated):
    given = shown()

    assert judged(canonical(given | {"manifest": canonical(json.loads(given["manifest"]) | stated).decode()})) is None


@pytest.mark.parametrize("counts", [{"votes": 1}, {"decisions": -1}, {"decisions": "7"}, {"market_closes": None}])
def test_end_of_a_run_that_counts_something_else_fails(counts):
    assert judged(canonical(rooted(events=altered(EVENTS, len(EVENTS) - 1, **counts)))) is None


def test_only_a_decision_is_disclosed():
    for seq in (0, len(EVENTS) - 1, 10**6):
        with pytest.raises(EvidenceError, match=f"no decision at seq {seq}"):
            disclosure(RUN, seq)


def test_close_that_is_withheld_or_of_another_market_fails():
    given, other = shown(), shown(OTHER)
    assert (
        json.loads(given["close"]["line"])["payload"]["market_key"]
        != json.loads(other["close"]["line"])["payload"]["market_key"]
    )

    assert judged(canonical(given | {"close": None})) is None
    assert judged(canonical(given | {"close": other["close"]})) is None
    assert judged(canonical(shown(WAIT) | {"close": other["close"]})) is None
    fixture = altered(EVENTS, given["close"]["index"], fixture_id=2)
    assert judged(canonical(rooted(events=fixture))) is None


@pytest.mark.parametrize(
    ("index", "payload"),
    [
        (2, {"agent_id": "nobody"}),
        (2, {"fixture_id": 99}),
        (2, {"policy": None}),
        (2, {"market_state": None}),
        (2, {"ts_ms": 1}),
        (0, {"run_id": "run_other"}),
        (0, {"policy_hash": "sha256:0"}),
        (0, {"agents": []}),
        (0, {"mode_label": "Live"}),
        (len(EVENTS) - 1, {"decisions": 8}),
        (len(EVENTS) - 1, {"agent_errors": 0}),
        (len(EVENTS) - 1, {"market_closes": 99}),
    ],
)
def test_line_that_the_others_contradict_fails_whatever_roots_are_made_for_it(index, payload):
    assert judged(canonical(rooted(events=altered(EVENTS, index, **payload)))) is None


def test_lines_in_places_of_others_fail():
    swapped = [EVENTS[0], EVENTS[2], EVENTS[1], *EVENTS[3:]]

    assert judged(canonical(rooted(events=swapped, decision=1))) is None
    assert judged(canonical(rooted(events=[*EVENTS, EVENTS[-1]]))) is None
    assert judged(canonical(rooted(scores=SCORES[:-1]))) is None
    assert judged(canonical(rooted(scores=[*SCORES, SCORES[-1]]))) is None


def test_no_altered_byte_holds_under_the_same_manifest_hash():
    chance, whole = random.Random(3), canonical(shown())

    for _ in range(800):
        place = chance.randrange(len(whole))
        assert (
            judged(whole[:place] + bytes([whole[place] ^ 1 << chance.randrange(8)]) + whole[place + 1 :]) != RUN.manifest_hash
        )


@pytest.mark.parametrize(
    "change",
    [
        lambda given: given | {"score": shown(3)["score"]},
        lambda given: given | {"decision": shown(3)["decision"]},
        lambda given: given | {"started": given["decision"]},
        lambda given: given | {"sealed": None},
        lambda given: given | {"manifest": "[]"},
        lambda given: given | {"manifest": "{}"},
        lambda given: given | {"more": 1},
        lambda given: given | {"score": given["score"] | {"line": "[]"}},
        lambda given: given | {"score": given["score"] | {"size": 2**53 - 1}},
        lambda given: given | {"decision": given["decision"] | {"index": True}},
        lambda given: [given],
    ],
    ids=range(11),
)
def test_disclosure_that_is_put_together_from_others_fails(tmp_path, change):
    text = canonical(change(shown()))
    (tmp_path / "decision.json").write_bytes(text)

    assert judged(text) is None
    assert clv_verify.main([str(tmp_path / "decision.json")]) == (1 if text.startswith(b"{") else 2)  # a list is no run


def test_first_version_can_not_be_judged_and_says_why(tmp_path, capsys):
    given = shown()
    old = {name: given[name] for name in ("decision", "manifest", "score")} | {"schema": "clvlab-disclosure/1"}
    (tmp_path / "decision.json").write_bytes(canonical(old))

    assert clv_verify.main([str(tmp_path / "decision.json")]) == 1
    assert "ask for clvlab-disclosure/2" in capsys.readouterr().out
    assert "ask for clvlab-disclosure/2" in judge_disclosure(tmp_path / "decision.json")["disclosed"].detail


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [("scores", b'"clv_bps":500', b'"clv_bps":9000'), ("events", b'"prob_bps":4500', b'"prob_bps":9500')],
)
def test_run_that_does_not_verify_is_not_disclosed(tmp_path, name, old, new):
    result = make_mixed_run()
    folder = write_run(result.sealed, tmp_path)
    assert judged(disclose(folder, 1)) == result.sealed.manifest_hash
    path = folder / f"{name}.jsonl"
    path.write_bytes(path.read_bytes().replace(old, new, 1))

    with pytest.raises(BundleError, match="does not verify, so nothing is disclosed"):
        disclose(folder, 1)


def test_command_line_judges_a_disclosure_too(tmp_path, capsys):
    path = tmp_path / "decision.json"
    path.write_bytes(canonical(shown()))

    def status(*arguments):
        with pytest.raises(SystemExit) as done:
            app(["verify", str(path), *arguments], standalone_mode=True)
        return done.value.code, capsys.readouterr().out

    assert status() == (
        0,
        f"disclosed: pass: the score follows from the decision and its close, under manifest {RUN.manifest_hash}\n",
    )
    assert status("--require", "anchor")[0] == 1
    path.write_bytes(canonical(shown() | {"close": None}))
    code, out = status("--json")
    assert (code, json.loads(out)["checks"]["disclosed"]["verdict"]) == (1, "fail")
