"""Several runs at once: each on the record, whoever performs them."""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import polars as pl
import pytest

import clvlab as cl
from clvlab.agents.isolation.agent import isolated
from clvlab.agents.registry import template
from clvlab.arena import packs
from clvlab.arena.run_store import KeptRuns
from clvlab.base import parallel
from clvlab.errors import AgentError, AgentFailedError, ExecutorError, PackFormatError, PackTamperedError
from clvlab.lab.results.run import verification_of
from clvlab.runs.execute import arrived_agent, arrived_pack, execute_all, perform
from clvlab.runs.spec import ReplaySpec
from tests.factories import make_agent, make_decisions

PACK = packs.open_pack("starter")


@pytest.fixture(scope="module")
def processes():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield pool


@pytest.fixture
def spread(monkeypatch, processes):
    """Send every run but the first away."""
    monkeypatch.setattr(parallel, "_ALONE_S", 1e-9)
    return processes


def plans(*agents):
    return [ReplaySpec(pack=PACK, agents=[agent], fixtures=PACK.fixture_ids[:2]) for agent in agents]


@cl.strategy
def early(ticks):
    return ticks.filter(pl.col("tick_seq") == 40).with_columns(action=pl.lit("BACK"))


def test_runs_of_other_processes_are_those_of_this_one(spread):
    agents = template("baseline"), template("cumulative-drift", {"cooldown_s": 60}, agent_id="mine"), isolated(early)
    found = list(execute_all(iter(plans(*agents)), 3, executor=spread))

    for one, plan in zip(found, plans(*agents), strict=True):
        here = perform(plan)
        assert (one.sealed, one.receipts, one.verification.checks) == (here.sealed, here.receipts, here.verification.checks)
        assert one.scores.equals(here.scores)


def test_runs_are_committed_to_before_and_kept_after(spread):
    with_log = KeptRuns()
    agents = [template("baseline", {"stake": stake}) for stake in (1, 2, 3)]
    found = list(execute_all(iter(plans(*agents)), 3, with_log.recorder_of, spread))

    assert [with_log.runs.sealed_run(one.run_id) for one in found] == [one.sealed for one in found]
    assert len({one.sealed.commit_index for one in found} - {None}) == 3
    assert [verification_of(with_log.runs.verify(one.run_id)).passed for one in found] == [True] * 3


@cl.strategy
def broken(ticks):  # noqa: ARG001
    raise ValueError("nothing to say")


@pytest.mark.parametrize("far", [True, False])
def test_what_fails_ends_the_rest_and_leaves_no_run_open(spread, far):
    with_log = KeptRuns()
    agents = [template("baseline", {"stake": 1}), isolated(broken), *(template("baseline", {"stake": n}) for n in (2, 3))]
    wanted = plans(*agents)
    made = execute_all(iter(wanted), 4, with_log.recorder_of, spread if far else None)

    first = next(made)
    with pytest.raises(AgentFailedError, match="nothing to say"):
        list(made)

    assert first.run_id == wanted[0].run_id
    states = {one["run_id"]: one["status"] for one in with_log.runs.page(None, 10)["runs"]}
    assert states.pop(first.run_id) == "sealed"
    assert set(states.values()) <= {"failed"}
    again = list(
        execute_all(iter(plans(agents[2])), 1, with_log.recorder_of, spread)
    )  # what was abandoned can be asked for again
    assert verification_of(with_log.runs.verify(again[0].run_id)).passed


def test_agents_that_clvlab_did_not_make_are_not_asked_elsewhere():
    with pytest.raises(AgentError, match="FixedAgent can't be asked in another process"):
        arrived_agent(make_agent(make_decisions({})))


def test_another_pack_in_the_same_place_is_refused():
    other = "sha256:" + "0" * 64
    with pytest.raises(PackTamperedError, match=other):
        arrived_pack(replace(PACK, content_hash=other))


def test_fixtures_that_are_held_out_stay_so_elsewhere():
    held = ((PACK.fixture_ids[0], "plan_1"),)
    assert arrived_pack(replace(PACK, held_out=held)).held_out == held


def test_a_laboratory_keeps_every_run_and_says_what_it_can_not_take(spread):
    lab = cl.Lab()
    found = lab.backtests(["starter", cl.open_pack("season")], "baseline", executor=spread)

    assert [one.pack.pack_id for one in found] == ["starter", "season"]
    assert sorted(lab.runs().frame["run_id"]) == sorted(one.run_id for one in found)
    assert lab.backtests([], "baseline") == ()
    with pytest.raises(PackFormatError, match="packs is a list of packs"):
        lab.backtests("starter", "baseline")
    with pytest.raises(ExecutorError, match="an executor is"):
        lab.backtests(["starter"], "baseline", executor="dask")


def test_audits_of_other_processes_are_those_of_this_one(spread):
    @cl.strategy
    def peeking(ticks):
        later = pl.col("prob_bps").shift(-20).over("fixture_id", "market_key", "side") > pl.col("prob_bps") + 100
        return ticks.filter(later & (pl.col("tick_seq") < 200)).with_columns(action=pl.lit("BACK"))

    found = cl.lookahead_audits(peeking, ["starter", "starter"], seed=7, executor=spread)

    assert [one.passed for one in found] == [False, False]
    assert repr(found[1]) == repr(cl.lookahead_audit(peeking, "starter", seed=7))
    with ThreadPoolExecutor(1) as threads, pytest.raises(PackFormatError, match="packs is a list"):
        cl.lookahead_audits("baseline", 5, executor=threads)
