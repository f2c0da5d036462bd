from dataclasses import replace

import polars as pl
import pytest

from clvlab.agents.registry import BaselineConfig, template
from clvlab.agents.template import Template
from clvlab.engine.agent import Identity, register
from clvlab.engine.run import run
from clvlab.errors import AgentError, DecisionError
from clvlab.law.closing import Window
from clvlab.law.metrics import confidence, rank
from clvlab.law.policy import PolicyEnvelope
from clvlab.law.schema import ClosingPolicy
from tests.factories import FailingAgent, FixedAgent, make_agent, make_decisions, make_run, make_tape, message

TAPE = make_tape([message(0, 0, {"part1": 5000, "part2": 5000}), message(1, 100, {"part1": 5500, "part2": 4500})])


def test_backing_before_the_price_rises_beats_the_close():
    result = make_run(TAPE, {})

    assert result.scores.select("reason", "clv_bps").row(0) == ("scored", 500)
    assert result.outcomes.select("agent_id", "mean_clv_bps").row(0) == ("a", 500.0)


@pytest.mark.parametrize(
    ("open_s", "limit_s", "reason", "age_ms"),
    [
        (400, 200, "scored", 200_000),
        (399.999, 200, "closing_stale", 200_001),
        (300, 300, "scored", 300_000),
        (299.999, 300, "closing_suspended", 10_000),
    ],
)
def test_age_of_a_close_under_last_open_is_that_of_the_message_used(open_s, limit_s, reason, age_ms):
    sides = {"part1": (5000, 2000), "part2": (5000, 2000)}
    tape = make_tape(
        [message(0, 0, sides), message(1, open_s, sides), message(2, 590, dict.fromkeys(sides))],
        {1: 600},
        ClosingPolicy.LAST_OPEN,
        max_close_age_s=limit_s,
    )

    result = make_run(tape, {})

    assert result.scores.select("reason", "closing_age_ms").row(0) == (reason, age_ms)


@pytest.mark.parametrize("agents", [[], ["a", "a"]], ids=["none", "twice the same"])
def test_run_without_distinct_agents_is_refused(agents):
    with pytest.raises(DecisionError, match="unique ids"):
        run(TAPE, [make_agent(make_decisions({}), name) for name in agents], Window())


@pytest.mark.parametrize(("fixture_id", "tick_seq"), [(1, 2), (1, -1), (9, 0)])
def test_decision_at_a_tick_that_does_not_exist_is_refused(fixture_id, tick_seq):
    with pytest.raises(DecisionError, match="does not exist"):
        make_run(TAPE, {"fixture_id": fixture_id, "tick_seq": tick_seq})


class Rewriter:
    """Raises its own closing price in the frames that it is given."""

    identity = make_agent(make_decisions({})).identity

    def decide(self, tape):
        prices = pl.Series("prob_bps", [1000, 9000] * (tape.rows.height // 2), dtype=pl.Int32)
        tape.rows.replace_column(tape.rows.get_column_index("prob_bps"), prices)
        return make_decisions({})


def test_what_an_agent_does_to_its_tape_does_not_reach_its_score():
    honest = make_run(TAPE, {})

    rewritten = run(TAPE, [register(Rewriter())], Window())

    assert rewritten.sealed == honest.sealed


@pytest.mark.parametrize("returned", [None, [], {}, 5, pl.LazyFrame()])
def test_decisions_that_are_no_frame_are_refused(returned):
    agent = FixedAgent(make_agent(make_decisions({})).identity, returned)

    with pytest.raises(DecisionError, match="must return a polars DataFrame"):
        run(TAPE, [agent], Window())


@pytest.mark.parametrize(
    "wrong",
    [{"agent_id": ""}, {"agent_id": "a" * 201}, {"strategy": None}, {"strategy_version": 1}, {"config": [1]}, {"causality": 3}],
)
def test_identity_that_cant_be_sealed_is_refused(wrong):
    with pytest.raises(AgentError):
        Identity(**{"agent_id": "a", "strategy": "s", "strategy_version": "1"} | wrong)


def test_decision_in_another_agents_name_is_refused():
    honest = make_agent(make_decisions({}))
    impostor = FixedAgent(make_agent(make_decisions(), "b").identity, make_decisions({"agent_id": "a", "tick_seq": 1}))

    with pytest.raises(DecisionError, match="another agent_id"):
        run(TAPE, [impostor], Window())
    both = run(TAPE, [honest, impostor], Window())

    assert [(error["agent_id"], error["error"]) for error in both.evidence.errors] == [("b", "DecisionError")]
    assert both.scores.height == 1


@pytest.mark.parametrize(
    "wrong", [[{"stake": -1}], [{"tick_seq": 99}], [{}, {}], [{"action": "LAY"}]], ids=["stake", "tick", "twice", "action"]
)
def test_agent_whose_decisions_are_refused_does_not_stop_the_others(wrong):
    result = run(TAPE, [make_agent(make_decisions({})), make_agent(make_decisions(*wrong), "b")], Window())

    assert [(error["agent_id"], error["error"]) for error in result.evidence.errors] == [("b", "DecisionError")]
    assert result.scores["agent_id"].to_list() == ["a"]


def test_run_whose_agents_all_fail_is_refused():
    with pytest.raises(DecisionError, match="RuntimeError"):
        run(TAPE, [FailingAgent()], Window())


def test_failed_agent_does_not_change_the_scores_of_another():
    alone = make_run(TAPE, {})

    beside = run(TAPE, [make_agent(make_decisions({})), FailingAgent()], Window())

    assert beside.scores.equals(alone.scores)
    assert beside.causes == {"broken": "no decision over 1 fixtures"}
    assert b"no decision over" not in beside.sealed.events + beside.sealed.scores + beside.sealed.manifest
    assert beside.outcomes["agent_id"].to_list() == ["a", "broken"]


def test_interrupt_inside_an_agent_interrupts_the_run():
    class Interrupted(FailingAgent):
        def decide(self, tape):  # noqa: ARG002
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(TAPE, [make_agent(make_decisions({})), Interrupted()], Window())


def test_decision_on_a_market_that_is_not_on_the_tape_is_not_scored():
    result = make_run(TAPE, {"market_key": "nowhere|"})

    assert result.scores["reason"].to_list() == ["entry_market_absent"]
    assert b'"closing":null' in result.sealed.events


def test_flood_of_abstentions_changes_neither_sample_nor_tier_nor_rank():
    tape = make_tape([message(n, n, {"part1": 5000 + n, "part2": 5000 - n}) for n in range(300)], {1: 5000})
    backs = [{"tick_seq": n, "confidence": 0.6} for n in range(20)]
    waits = [{"tick_seq": n, "action": "WAIT", "market_key": None, "side": None, "stake": None} for n in range(300)]
    rival = make_agent(make_decisions({"side": "part2"}), "b")

    quiet, loud = (
        run(tape, [make_agent(make_decisions(*decided)), rival], Window(min_clv_horizon_s=0))
        for decided in (backs, backs + waits)
    )

    counted = pl.exclude("abstention_count")
    assert loud.outcomes["abstention_count"].to_list() == [300, 0]
    assert loud.outcomes.select(counted).equals(quiet.outcomes.select(counted))
    assert rank(loud.outcomes).select(counted).equals(rank(quiet.outcomes).select(counted))
    assert confidence(loud.outcomes["valid_count"][0]) == confidence(quiet.outcomes["valid_count"][0]) == "low"


def test_allowed_action_is_filled_at_the_carried_quote():
    tape = make_tape(
        [
            message(0, 0, {"part1": (5000, 2100), "part2": (5000, 1900)}),
            message(1, 60, {"over": 5000, "under": 5000}, market_key="OU|"),
        ]
    )

    filled = make_run(tape, {"tick_seq": 1, "stake": 7}).receipts
    unquoted = make_run(tape, {"tick_seq": 1, "market_key": "OU|", "side": "over"}, policy=PolicyEnvelope(require_quote=False))

    assert filled.drop("run_id").row(0) == (1, "a", 60_000, "paper", "filled", 7, 2100)
    assert unquoted.receipts.select("status", "stake", "odds_milli").row(0) == ("no_quote", 0, None)


def test_refused_action_is_scored_and_not_filled():
    result = make_run(TAPE, {}, policy=PolicyEnvelope(kill_switch=True))

    assert result.receipts.height == 0
    assert result.scores["clv_bps"].to_list() == [500]


def test_object_that_clvlab_did_not_make_is_refused_and_not_called():
    calls = []

    class Own:
        @property
        def identity(self):
            calls.append("identity")
            return Identity("own", "mine", "1", causality="template")

        def decide(self, _tape):
            calls.append("decide")
            return make_decisions({"agent_id": "own"})

    for agent in (Own(), replace(template("baseline"), agent_id="own"), Template("own", "baseline", BaselineConfig(), None)):
        with pytest.raises(AgentError, match="code of your own, which never runs where runs are scored"):
            run(TAPE, [agent], Window())
    assert calls == []


def test_policy_is_part_of_what_names_a_run():
    one, other = (make_run(TAPE, {}, policy=PolicyEnvelope(max_stake=stake)) for stake in (1, 2))

    assert one.sealed.run_id != other.sealed.run_id
