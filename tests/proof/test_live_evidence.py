"""Live runs say so everywhere and replays nowhere; both verifiers must say the same."""

import json

import pytest

from clvlab.agents.registry import template
from clvlab.engine.live import following, live_started, seal_live
from clvlab.engine.run import Failures
from clvlab.law.closing import Window
from clvlab.law.message import Message
from clvlab.law.policy import PolicyEnvelope
from clvlab.proof import clv_verify
from clvlab.proof.bundle import bundle
from clvlab.proof.canonical import canonical
from clvlab.proof.disclosure import check_disclosure, disclosure
from clvlab.store.folder import write_run
from tests.factories import make_run, make_tape, message
from tests.proof.test_tampering import FAILED, PASSED, edit, judged, reseal, swapped

PACK = "sha256:" + "d" * 64
PRICES = ({"part1": 6000, "part2": 4000}, {"part1": 6400, "part2": 3600}, {"part1": 6700, "part2": 3300})
TAPE = make_tape([message(number, 100_000 * number, prices) for number, prices in enumerate(PRICES)])


def make_live_run():
    """A run of the baseline, which follows three messages."""
    agents, window, policy = [template("baseline")], Window(), PolicyEnvelope()
    started = live_started(TAPE.binding.fixture_ids, agents, window, policy, kind="deploy", origin_id="inst_1")
    decided = []
    with following(agents[0], TAPE.fixtures) as follower:
        ticks = TAPE.ticks().collect().group_by("tick_seq", maintain_order=True)
        for _, rows in ticks:
            head = rows.row(0, named=True)
            prices = (tuple(rows[name]) for name in ("side", "prob_bps", "odds_milli"))
            at = (head[name] for name in ("fixture_id", "tick_seq", "ts_ms", "in_running", "market_key"))
            decided += follower.take(Message(*at, *prices, head["suspended"]))
    return seal_live(started, TAPE, {"baseline": decided}, Failures(), window, policy, captured=PACK).sealed


@pytest.fixture
def live(tmp_path):
    return write_run(make_live_run(), tmp_path)


@pytest.fixture
def replay(tmp_path):
    return write_run(make_run(TAPE, {"tick_seq": 0, "side": "part1"}).sealed, tmp_path)


def test_a_live_run_passes(live):
    assert judged(live).checks == PASSED
    started = json.loads((live / "events.jsonl").read_bytes().splitlines()[0])["payload"]
    assert (started["source_mode"], started["mode_label"], started["binding"]["content_hash"]) == ("live", "Live paper", None)


def test_a_bundle_and_a_disclosure_of_a_live_run_hold(tmp_path):
    run = make_live_run()
    (tmp_path / "run.clv").write_bytes(bundle(run))
    disclosed = canonical(disclosure(run, 1))
    (tmp_path / "one.json").write_bytes(disclosed)

    assert clv_verify.main([str(tmp_path / "run.clv")]) == 0
    assert check_disclosure(disclosed) == run.manifest_hash
    assert clv_verify.main([str(tmp_path / "one.json")]) == 0


@pytest.mark.parametrize(
    "change",
    [
        swapped(b'"mode_label":"Live paper"', b'"mode_label":"Backtest"'),
        swapped(b'"source_mode":"live"', b'"source_mode":"replay"'),
        swapped(b'"source_mode":"live"', b'"source_mode":"Live"'),
        swapped(b'"causality":"live"', b'"causality":"template"'),
        swapped(b'"content_hash":"%s",' % PACK.encode(), b""),
        swapped(b'"content_hash":"%s"' % PACK.encode(), b'"content_hash":null'),
        swapped(b'"content_hash":"%s"' % PACK.encode(), b'"content_hash":1'),
        swapped(b'"content_hash":"%s"' % PACK.encode(), b'"content_hash":""'),
        swapped(PACK.encode(), PACK.upper().encode()),
        swapped(b'"content_hash":null', b'"content_hash":"%s"' % PACK.encode()),
        swapped(b'"pack_id":null', b'"pack_id":"starter"'),
    ],
    ids=[
        "called a backtest", "fed by a replay", "a mode of no engine", "decided otherwise", "pack withheld", "pack null",
        "pack a number", "pack empty", "pack no hash", "bound to a pack", "named a pack",
    ],
)  # fmt: skip
def test_a_live_run_that_is_half_a_replay_fails_even_if_sealed_again(live, change):
    edit(live / "events.jsonl", change)
    reseal(live)

    assert judged(live).checks == FAILED


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(b'"mode_label":"Backtest"', b'"mode_label":"Live paper"'),
        lambda data: data.replace(b'"source_mode":"replay"', b'"source_mode":"live"'),
        lambda data: data.replace(b'"causality":"template"', b'"causality":"live"'),
        lambda data: data.replace(b'"agent_errors":0,', b'"agent_errors":0,"content_hash":"%s",' % PACK.encode()),
        lambda data: data.replace(b'"agent_errors":0,', b'"agent_errors":0,"content_hash":null,'),
        lambda data: data.replace(b'"agent_errors":0,', b'"agent_errors":0,"content_hash":2,'),
    ],
    ids=["called live", "fed live", "decided live", "sealed a pack", "sealed no pack", "sealed a number"],
)
def test_a_replay_that_is_half_live_fails_even_if_sealed_again(replay, change):
    edit(replay / "events.jsonl", change)
    reseal(replay)

    assert judged(replay).checks == FAILED


def test_another_pack_at_the_seal_is_another_run_of_the_same_evidence_only_in_its_hashes(live):
    """The hash of what was captured is part of the evidence, so that another capture can't be put in its place."""
    before = judged(live)
    edit(live / "events.jsonl", swapped(PACK.encode(), ("sha256:" + "e" * 64).encode()))

    assert before.checks == PASSED
    assert judged(live).checks["evidence_integrity"] == "fail"
