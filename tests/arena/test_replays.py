import linecache
from dataclasses import replace

import polars as pl
import pytest

from clvlab.agents.isolation.agent import isolated
from clvlab.arena.packs import open_pack
from clvlab.arena.replays import replay_run
from clvlab.engine.run import run
from clvlab.errors import EvidenceError, ReplayError
from clvlab.law.closing import Window
from clvlab.proof.verify import verify
from clvlab.runs.execute import Commitment, perform
from clvlab.runs.spec import backtest_spec, envelope
from clvlab.sql import second_opinion
from tests.factories import make_sealed_run, performed

OWN = """
import polars as pl
import clvlab as cl

@cl.strategy
def mine(ticks, threshold=0.5):
    likely = ticks.filter(pl.col("prob_bps") > 10_000 * pl.lit(threshold)).sort("tick_seq", maintain_order=True)
    return likely.unique(["fixture_id", "market_key"], keep="first", maintain_order=True)
"""


@pytest.fixture(scope="module")
def pack():
    return open_pack("starter")


@pytest.mark.parametrize("strategy", ["baseline", "cumulative-drift", "sharp-momentum-v2"])
def test_run_of_a_template_gives_the_same_bytes_again(pack, strategy):
    plan = backtest_spec(
        pack, strategy, params={"stake": 7}, fixture_ids=pack.fixture_ids[:2], policy=envelope({"max_orders": 3})
    )
    test, logged = perform(plan), perform(plan, Commitment(plan.run_id, 12))

    assert replay_run(test.sealed, test.receipts).agrees
    assert replay_run(logged.sealed, test.receipts, pack="starter").agrees


def test_fraction_in_a_config_is_restored_from_its_text(pack):
    test = performed(pack, "cumulative-drift", params={"persistence_alpha": 0.4}, fixture_ids=[pack.fixture_ids[0]])

    assert replay_run(test.sealed).agrees


def test_own_agent_is_replayed_from_its_source_and_only_from_that(pack, tmp_path):
    path = tmp_path / "agents.py"
    path.write_text(OWN)
    test = performed(pack, f"{path}:mine", params={"threshold": 0.25}, fixture_ids=[pack.fixture_ids[0]])

    assert replay_run(test.sealed, agents=[isolated(f"{path}:mine")]).agrees
    with pytest.raises(ReplayError, match="is not available"):
        replay_run(test.sealed)
    path.write_text(OWN.replace('keep="first"', 'keep="last"'))
    with pytest.raises(ReplayError, match="is not available"):
        replay_run(test.sealed, agents=[isolated(f"{path}:mine")])


def test_made_up_prices_that_verify_do_not_survive_a_replay(pack):
    """The seal is sound and says the right pack; only the ticks were others."""
    tape = pack.tape([pack.fixture_ids[0]])
    better = tape.rows.with_columns(pl.when(pl.col("prob_bps") > 5000).then(pl.col("prob_bps") + 1).otherwise("prob_bps"))
    from clvlab.agents.registry import template

    forged = run(replace(tape, rows=better), [template("baseline", {"markets": [""]})], Window()).sealed

    assert verify(forged).passed
    assert second_opinion(forged.events, forged.scores).agrees
    outcome = replay_run(forged)
    assert (outcome.agrees, "the ticks of pack 'starter' do not give the line" in outcome.detail) == (False, True)


def test_altered_scores_or_receipts_do_not_survive_a_replay(pack):
    test = performed(pack, fixture_ids=[pack.fixture_ids[0]])
    rows = test.sealed.scores.splitlines(keepends=True)

    assert "scores.jsonl differs" in replay_run(replace(test.sealed, scores=b"".join(rows[1:]))).detail
    assert "receipts.jsonl differs" in replay_run(test.sealed, test.receipts + test.receipts).detail


def test_another_pack_or_none_is_refused(pack):
    test = performed(pack, fixture_ids=[pack.fixture_ids[0]])

    with pytest.raises(ReplayError, match="is 'season' of"):
        replay_run(test.sealed, pack="season")
    with pytest.raises(ReplayError, match="no pack of the catalog"):
        replay_run(make_sealed_run())
    with pytest.raises(EvidenceError):
        replay_run(replace(test.sealed, events=b"x\n"))


def test_run_of_a_function_replays_from_a_file_that_holds_it_under_its_name(pack, tmp_path):
    path = tmp_path / "agents.py"
    path.write_text(OWN + "\n\n@cl.strategy\ndef other(ticks):\n    return ticks.head(3)\n")
    namespace = {}
    exec(compile(OWN, str(path), "exec"), namespace)
    linecache.checkcache(str(path))
    test = performed(pack, namespace["mine"], fixture_ids=[pack.fixture_ids[0]])

    assert replay_run(test.sealed, agents=[isolated(f"{path}:mine")]).agrees
    with pytest.raises(ReplayError, match="is not available"):
        replay_run(test.sealed, agents=[isolated(f"{path}:other")])
