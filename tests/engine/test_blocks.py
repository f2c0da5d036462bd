"""Agents that are asked by blocks of messages, in this process."""

import random
from dataclasses import dataclass, field

import polars as pl
import pytest

from clvlab.agents.registry import template
from clvlab.engine.agent import Identity
from clvlab.engine.decisions import BLOCKS, decisions_by_blocks
from clvlab.errors import AgentError
from clvlab.law.actions import decisions_of
from tests.factories import make_tape, message
from tests.length import few, length
from tests.simulations.blocks import PLANTED, Peeking, passed, season

ORDER = ["ts_ms", "fixture_id", "tick_seq"]


@dataclass
class Own:
    """Decides by a rule over frames, and keeps what it was shown."""

    rule: object
    shown: list = field(default_factory=list)

    @property
    def identity(self):
        return Identity("own", "own", "1")

    def decide(self, tape):
        self.shown.append(tape.messages.select(ORDER).sort(ORDER).rows())
        told = self.rule(tape.ticks().collect()).select("fixture_id", "tick_seq", "market_key", "side").rows()
        return decisions_of([(f, t, "BACK", m, s, 100, None, None, None, None) for f, t, m, s in told], "own")


def risen(ticks):
    """What rose since its last message but one."""
    before = pl.col("prob_bps").shift(2).over("fixture_id", "market_key", "side")
    return ticks.filter(pl.col("prob_bps") - before > 500)


def rising(ticks):
    """What will have risen at its next message."""
    then = pl.col("prob_bps").shift(-1).over("fixture_id", "market_key", "side")
    return ticks.filter(then - pl.col("prob_bps") > 500)


def made_up(seed, most=60):
    dice, messages = random.Random(seed), []
    for fixture_id in range(1, 1 + dice.randint(1, 4)):
        ts_s = dice.randint(0, 40)
        for tick_seq in range(dice.randint(1, most)):
            ts_s += dice.choice([0, 0, 1, 7])
            key, sides = dice.choice([("1X2", ("draw", "part1", "part2")), ("OU||line=2.5", ("over", "under"))])
            priced = dice.random() < 0.9
            quotes = {side: dice.randint(1, 9999) if priced else None for side in sides}
            messages.append(message(tick_seq, ts_s, quotes, market_key=key, fixture_id=fixture_id))
    return make_tape(messages, {1: 50.0})


@few(2)
@pytest.mark.parametrize("seed", range(length(6, 60)))
def test_an_agent_that_looks_back_decides_as_it_does_when_asked_at_once(seed):
    tape = made_up(seed)

    for agent in (Own(risen), template("cumulative-drift", {}), template("baseline", {})):
        report = decisions_by_blocks(agent, tape, seed=seed)
        assert report.passed
        assert report.decisions.equals(agent.decide(tape))


@pytest.mark.parametrize("blocks", [2, 7, BLOCKS])
def test_blocks_come_in_order_of_time_each_with_something_new_and_the_last_ends_the_tape(blocks):
    tape, agent = made_up(5), Own(risen)
    whole = tape.messages.select(ORDER).sort(ORDER).rows()

    decisions_by_blocks(agent, tape, seed=1, blocks=blocks)

    given = agent.shown[1 : agent.shown.index(whole, 1) + 1]
    assert agent.shown[0] == whole
    assert 2 <= len(given) <= blocks
    assert all(one == whole[: len(one)] for one in given)
    lengths = [len(one) for one in given]
    assert lengths == sorted(set(lengths))


def test_where_blocks_end_depends_on_the_seed():
    tape = made_up(5)
    ends = [decisions_by_blocks(Own(risen), tape, seed=seed, blocks=8).cuts for seed in (1, 1, 2)]

    assert ends[0] == ends[1] != ends[2]


def test_one_that_looks_ahead_by_one_message_fails_and_the_decision_is_named():
    report = decisions_by_blocks(Own(rising), made_up(5), seed=1)

    assert not report.passed
    assert "decision(s) depend on later ticks; the first, BACK" in repr(report)
    assert set(report.moved["change"]) == {"vanished"}


def test_one_that_answers_otherwise_when_asked_again_is_named_as_such():
    tape = make_tape([message(tick, tick, {"part1": 5000, "part2": 5000}) for tick in range(10)])
    agent = Own(lambda ticks: ticks.head(len(agent.shown)) if len(agent.shown) == 3 else ticks.head(1))

    with pytest.raises(AgentError, match="draws lots"):
        decisions_by_blocks(agent, tape, seed=1, blocks=2)


def test_a_tape_of_one_message_and_an_empty_one_are_one_block():
    tape = make_tape([message(0, 0, {"part1": 5000, "part2": 5000})])

    assert decisions_by_blocks(Own(lambda ticks: ticks.head(1)), tape, seed=1).decisions.height == 1
    assert decisions_by_blocks(
        Own(lambda ticks: ticks.head(1)), tape.keep(tape.rows["tick_seq"] > 0), seed=1
    ).decisions.is_empty()
    with pytest.raises(AgentError, match="at least 2 blocks"):
        decisions_by_blocks(Own(risen), tape, seed=1, blocks=1)


@few(1)
@pytest.mark.parametrize("uses", PLANTED.values(), ids=PLANTED)
def test_who_looks_ahead_in_all_fixtures_meets_a_cut(uses):
    tape = season(1, 40)

    assert not any(passed(Peeking(uses, 20, 40), tape, seed) for seed in range(3))
    assert passed(Peeking(uses, 20, 0), tape, 1)
