"""Attempts at audits: a run log draws their seeds, counts those that came to nothing, and lets readers draw again."""

import json
import pickle
from dataclasses import replace

import polars as pl
import pytest

import clvlab as cl
from clvlab.arena.log.audit import audit
from clvlab.arena.log.operations import open_log
from clvlab.errors import LookaheadError, StoreError
from clvlab.law.schema import DECISIONS
from clvlab.proof.canonical import sha256
from clvlab.runs.execute import execute, perform
from clvlab.runs.progress import Stage
from clvlab.runs.run_folder import FolderRecorder
from clvlab.runs.spec import ReplaySpec, backtest_spec, resolve
from tests.length import few
from tests.logs import entries
from tests.test_cli import clvlab


@cl.strategy
def peeking(ticks):
    return ticks.filter(pl.col("prob_bps") < pl.col("prob_bps").last().over("series") - 300)


@cl.strategy
def honest(ticks):
    return ticks.filter(pl.col("tick_seq") == 5)


@pytest.fixture
def lab(tmp_path):
    return cl.Lab(tmp_path / "lab")


def test_an_audit_that_failed_loosens_the_bound_of_the_next_whatever_its_source(lab):
    first = lab.backtest("starter", honest, params={})
    with pytest.raises(LookaheadError):
        lab.backtest("starter", peeking)
    then = lab.backtest("starter", honest, window=cl.Window(min_clv_horizon_s=120))
    over_another = lab.backtest("season", honest, fixtures=range(90000000, 90000012))

    [one], [two], [other] = (found.audits.values() for found in (first, then, over_another))
    assert [report.blind.attempts for report in (one, two, other)] == [1, 2, 1]
    assert two.blind.least > one.blind.least
    assert two.seed != one.seed
    assert cl.lookahead_audit(honest, "starter", seed=two.seed).source.cuts == two.source.cuts
    assert "in each of 2 attempts" in then._repr_html_()
    assert cl.backtest("starter", honest).audits["honest"].blind.attempts is None


@few(1)
@pytest.mark.parametrize("agent", [peeking, cl.isolated(peeking, stepped=True)], ids=["at once", "in blocks"])
def test_an_agent_that_fails_beside_others_counts_too(lab, agent):
    beside = lab.compete("starter", [agent, "baseline"])

    assert "LookaheadError" in beside.run.source.events.decode()
    assert [report.blind.attempts for report in lab.backtest("starter", honest).audits.values()] == [2]


def test_each_agent_of_a_competition_is_an_attempt_and_those_that_failed_are_told_beside_one_that_passed(lab):
    tries = [peeking.with_params(f"try-{number}") for number in range(2)]
    together = lab.compete("starter", [*tries, honest])
    with pytest.raises(LookaheadError):
        lab.compete("starter", tries[:1])
    then = lab.backtest("starter", honest)

    assert together.run.source.events.decode().count("LookaheadError") == 2
    assert [report.blind.attempts for report in together.audits.values()] == [3]
    assert "in each of 3 attempts" in together._repr_html_()
    assert [report.blind.attempts for report in then.audits.values()] == [2 + 1 + 1]


def test_a_run_that_is_taken_up_again_draws_no_other_seed_for_the_same_answers(tmp_path):
    drawn = []

    def stopped(stage, *_):
        if stage is Stage.SEALING:
            raise KeyboardInterrupt

    class Told(FolderRecorder):
        def commit(self, plan):
            commitment = super().commit(plan)

            def drawing(agent_id, answers_hash):
                drawn.append(commitment.drawing(agent_id, answers_hash))
                return drawn[-1]

            return replace(commitment, drawing=drawing)

    plan = backtest_spec(cl.open_pack("starter").source, honest)
    with open_log(tmp_path / "runs.log", create=True) as log:
        record = Told(tmp_path / "runs", lambda: 1, log)
        with pytest.raises(KeyboardInterrupt):
            execute(plan, record, stopped)
        done = execute(plan, record)

        assert len(drawn) == 2
        assert drawn[0] == drawn[1]
        assert (done.audits["honest"].seed, drawn[0].attempts) == (drawn[0].seed, 1)
        assert [json.loads(entry)["kind"] for entry in entries(log)] == ["COMMIT", "ANSWERED", "RESULT"]


def test_what_an_agent_answers_is_fixed_before_its_audit_is_drawn(tmp_path):
    with open_log(tmp_path / "runs.log", create=True) as log:
        record = FolderRecorder(tmp_path / "runs", lambda: 1, log)
        execute(backtest_spec(cl.open_pack("starter").source, honest), record)
        answered = json.loads(entries(log)[1])

    order = ["fixture_id", "tick_seq", "market_key", "side", "action"]
    decided = resolve(honest).decide(cl.open_pack("starter").source.tape())
    told = decided.select(*DECISIONS).sort(order, nulls_last=False).write_csv()
    assert answered["answers_hash"] == sha256(told.encode())


def test_a_record_that_can_t_be_written_ends_the_run_and_is_no_failure_of_an_agent(tmp_path):
    class Broken(FolderRecorder):
        def commit(self, plan):
            def drawing(*_):
                raise StoreError("the disk is full")

            return replace(super().commit(plan), drawing=drawing)

    plan = ReplaySpec(pack=cl.open_pack("starter").source, agents=[resolve("baseline"), resolve(honest)])
    with open_log(tmp_path / "runs.log", create=True) as log, pytest.raises(StoreError, match="the disk is full"):
        execute(plan, Broken(tmp_path / "runs", lambda: 1, log))


def test_a_run_in_another_process_is_drawn_there_and_says_that_nobody_counts(tmp_path):
    plan = backtest_spec(cl.open_pack("starter").source, honest)
    with open_log(tmp_path / "runs.log", create=True) as log:
        commitment = FolderRecorder(tmp_path / "runs", lambda: 1, log).commit(plan)
        arrived = pickle.loads(pickle.dumps(commitment))

    found = perform(plan, arrived).audits["honest"]
    assert (arrived.index, arrived.drawing, found.blind.attempts) == (commitment.index, None, None)
    assert "attempts are not counted" in repr(found)


@pytest.mark.long
def test_the_terminal_says_what_was_found_and_a_reader_of_the_log_draws_it_again(tmp_path):
    agents = tmp_path / "agents.py"
    agents.write_text(
        "import clvlab as cl, polars as pl\n"
        "@cl.strategy\ndef honest(ticks):\n    return ticks.filter(pl.col('tick_seq') == 5)\n"
        "@cl.strategy\ndef peeking(ticks):\n"
        "    return ticks.filter(pl.col('prob_bps') < pl.col('prob_bps').last().over('series') - 300)\n"
    )
    (tmp_path / "log.pub").write_text(clvlab(tmp_path, "log", "keygen", "log.example", "--out", "log.key")[1])
    logged = ("--log", "runs.log", "--runs", "runs")
    assert clvlab(tmp_path, "backtest", "starter", "--agent", "agents.py:peeking", *logged)[0] == 2
    code, out, _ = clvlab(tmp_path, "backtest", "starter", "--agent", "agents.py:honest", *logged, "--json")
    found = json.loads(out)
    assert (code, found["audits"]["honest"]["passed"], found["audits"]["honest"]["attempts"]) == (0, True, 2)
    said = clvlab(tmp_path, "backtest", "starter", "--agent", "agents.py:honest", "--runs", "others")[1]
    assert "Look-ahead audit of 'honest': passed" in said
    assert "attempts are not counted" in said

    bundled = ("bundle", found["run_folder"], "--out", "run.clv", "--log", "runs.log", "--log-key", "log.key")
    assert clvlab(tmp_path, *bundled)[0] == 0
    code, out, _ = clvlab(tmp_path, "log", "audit", "runs.log", "--bundle", "run.clv")
    assert code == 0
    drawn = f"one of 2 attempts over this pack, drawn by seed {found['audits']['honest']['seed']}"
    assert f"the audit of honest is {drawn}" in " ".join(out.split())
    [recount] = audit(str(tmp_path / "runs.log"), bundles={"run.clv": (tmp_path / "run.clv").read_bytes()}).recounts
    assert [(one.attempts, one.seed) for one in recount.draws] == [(2, found["audits"]["honest"]["seed"])]
