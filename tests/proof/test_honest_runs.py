"""Honest runs over whole packs: agents that decide anywhere, a failed one, every end rule; both verifiers pass them."""

import random

import polars as pl
import pytest

from clvlab.agents.registry import template
from clvlab.arena.packs import open_pack
from clvlab.engine.run import run
from clvlab.law.closing import Window
from clvlab.law.schema import DECISIONS
from clvlab.packs.verification import verify_pack
from clvlab.proof import clv_verify
from clvlab.proof.events import receipt_lines
from clvlab.proof.verify import verify
from clvlab.sources.importer import import_source
from clvlab.store.folder import write_run
from tests.factories import FailingAgent, make_agent
from tests.length import length

pytestmark = pytest.mark.long

WINDOWS = [Window(), Window(end_rule="fixed_duration", duration_s=7200), Window(end_rule="manual_stop")]
AGENTS = ("baseline", "cumulative-drift", "sharp-momentum-v2")


def anywhere(tape, seed, count=600):
    """Decisions at any tick on any market of its fixture: before its first message and after its last, and WAITs."""
    rng = random.Random(seed)
    ticks = tape.messages.select("fixture_id", "tick_seq").rows()
    sides = {}
    for fixture_id, market, side in tape.series.select("fixture_id", "market_key", "side").rows():
        sides.setdefault(fixture_id, []).append((market, side))
    rows = {}
    for fixture_id, tick_seq in rng.choices(ticks, k=count):
        market, side = rng.choice(sides[fixture_id])
        action, market, side = rng.choice([("BACK", market, side)] * 8 + [("BACK", "absent|", side), ("WAIT", None, None)])
        rows[fixture_id, tick_seq, market, side] = {
            "agent_id": "x", "fixture_id": fixture_id, "tick_seq": tick_seq, "action": action, "market_key": market,
            "side": side, "stake": 100,
        }  # fmt: skip
    return pl.DataFrame([dict.fromkeys(DECISIONS) | row for row in rows.values()], schema=DECISIONS)


def check(tape, tmp_path):
    for number, window in enumerate(WINDOWS):
        agents = [make_agent(anywhere(tape, f"{number}-{name}"), name) for name in ("x", "y")]
        result = run(tape, [*agents, *map(template, AGENTS), FailingAgent()], window)
        stored = write_run(result.sealed, tmp_path, receipt_lines(result.receipts))

        verification, alone = verify(result.sealed, receipt_lines(result.receipts)), clv_verify.verify(stored)

        assert verification.passed, verification.checks
        assert set(alone["checks"].values()) == {None}, alone["checks"]
        assert result.evidence.errors
        assert alone["manifest_hash"] == verification.manifest_hash


@pytest.mark.parametrize("pack_id", ["starter", "season"])
def test_runs_over_the_bundled_packs_pass_both_verifiers(tmp_path, pack_id):
    tape = open_pack(pack_id).tape()

    check(tape if pack_id == "starter" else tape.fixture(tape.fixtures["fixture_id"][0]), tmp_path)


@pytest.mark.realdata
@pytest.mark.parametrize(
    "source", length(["polymarket", "football-data"], ["polymarket", "txline", "betfair", "football-data"])
)
def test_runs_over_real_odds_pass_both_verifiers(realdata, tmp_path, source):
    folder = realdata / ("betfair-stream" if source == "betfair" else source)
    files = sorted(folder.glob("*.bz2")) if source == "betfair" else [folder]
    import_source(source, files, tmp_path / "pack")
    tape = verify_pack(tmp_path / "pack").tape()
    assert (tape.closing_policy == "last_open") == (source == "betfair")

    check(tape, tmp_path / "runs")
