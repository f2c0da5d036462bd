"""Agents asked message by message decide as they do over the whole tape."""

from random import Random

import polars as pl
import pytest

import clvlab as cl
from clvlab.agents.registry import template
from clvlab.agents.ticks import TickFollower
from clvlab.engine.agent import Identity
from clvlab.engine.live import TapeFollower, following
from clvlab.errors import AgentError, LookaheadError
from clvlab.law.actions import decisions_of
from clvlab.law.message import Message, tape_of
from clvlab.law.schema import DECISIONS
from tests.length import length

MARKETS = {"1X2_PARTICIPANT_RESULT||": ("draw", "part1", "part2"), "OVERUNDER_PARTICIPANT_GOALS||2.5": ("over", "under")}
ORDER = ["fixture_id", "tick_seq", "market_key", "side"]


def messages(chance, count, fixtures=(7, 3)):
    """A live tape in order of arrival: prices that walk, suspensions, single sides without a price, a kick-off."""
    ts_ms, seqs = 1_000_000, dict.fromkeys(fixtures, 0)
    weights = {(f, m): [chance.uniform(1, 3) for _ in sides] for f in fixtures for m, sides in MARKETS.items()}
    made = []
    for number in range(count):
        fixture_id, market_key = chance.choice(fixtures), chance.choice(list(MARKETS))
        ts_ms += chance.choice([1, 7, 60_000, 900_000])
        walk = weights[fixture_id, market_key]
        walk[:] = [max(0.05, weight * chance.choice([1, 1, 1.02, 0.97, 1.3])) for weight in walk]
        total = sum(walk)
        bps = [max(1, int(10_000 * weight / total)) for weight in walk]
        bps[0] += 10_000 - sum(bps)
        missing = chance.random()
        if missing < 0.1:
            bps = [None] * len(bps)
        elif missing < 0.15:
            bps[chance.randrange(len(bps))] = None
        odds = [None if p is None or chance.random() < 0.1 else 9_700_000 // p + 10 for p in bps]
        suspended = all(p is None for p in bps)
        in_play = number > 0.9 * count
        seq = seqs[fixture_id]
        seqs[fixture_id] += 1
        sides = MARKETS[market_key]
        made.append(Message(fixture_id, seq, ts_ms, in_play, market_key, sides, tuple(bps), tuple(odds), suspended))
    return made


def followed(follower, tape, name):
    return decisions_of([one for message in tape for one in follower.take(message)], name).sort(ORDER)


PARAMS = {
    "baseline": [{}, {"warmup_ticks": 9}, {"min_prob_bps": 3000, "markets": ["OVER"]}],
    "cumulative-drift": [
        {},
        {"min_drift_micro_logits": 10_000, "cooldown_s": 60, "warmup_ticks": 2, "min_persistence": -1.0},
        {"persistence_alpha": 0.6180339, "min_persistence": 0.1, "cooldown_s": 0, "warmup_s": 4000},
    ],
    "sharp-momentum-v2": [
        {},
        {"min_z_milli": 500, "cooldown_s": 0, "warmup_ticks": 0, "min_movements": 2, "level_alpha": 0.333},
        {"min_z_milli": 0, "lookback_movements": 4, "persistence_movements": 9, "min_persistence": 0.3, "level_alpha": 1.0},
    ],
}


@pytest.mark.long
@pytest.mark.parametrize(("strategy", "params"), [(name, params) for name, several in PARAMS.items() for params in several])
def test_a_template_decides_message_by_message_as_over_the_whole_tape(strategy, params):
    made = 0
    for seed in range(length(6, 60)):
        tape = messages(Random(f"{strategy}{params}{seed}"), 400)
        agent = template(strategy, params)

        with following(agent, tape_of(tape).fixtures) as follower:
            decided = followed(follower, tape, strategy)

        assert decided.equals(agent.decide(tape_of(tape)).sort(ORDER))
        made += decided.height
    assert made


class Remembering(cl.TickAgent):
    """Decides by all that it has seen, of both fixtures."""

    markets = ("1X2", "OVER")

    def __init__(self):
        self.seen = 0

    def on_tick(self, book):
        self.seen += book.tick_seq + sum(
            book.prob_bps(side, market) or 0 for market in book.markets for side in book.sides(market)
        )
        if book.suspended() or self.seen % 3:
            return book.wait(f"seen {self.seen}") if self.seen % 5 == 0 else None
        side = book.sides()[self.seen % len(book.sides())]
        other = book.markets[0]
        return [book.back(side, confidence=(book.odds_milli(side) or 0) / 1e6), book.wait(f"{book.age_ms(other)}")]


@pytest.mark.parametrize("markets", [("",), ("1X2",), ("OVER", "none")])
def test_a_tick_agent_sees_the_same_book_message_by_message(markets):
    tape, agent = messages(Random(str(markets)), 500), Remembering()
    agent.markets = markets

    decided = followed(TickFollower(agent), tape, "Remembering")

    assert decided.height > 10
    assert decided.equals(agent.decide(tape_of(tape)).sort(ORDER))


def test_a_tick_agent_that_answers_nonsense_fails_at_its_message():
    class Wrong(cl.TickAgent):
        def on_tick(self, book):
            return "back" if book.tick_seq == 2 else None

    follower, tape = TickFollower(Wrong()), messages(Random(1), 20, fixtures=(7,))

    assert [*follower.take(tape[0]), *follower.take(tape[1])] == []
    with pytest.raises(AgentError, match="tick 2 of fixture 7"):
        follower.take(tape[2])


class Columnar:
    identity = Identity("columnar", "columnar", "1")

    def __init__(self, rule):
        self.rule = rule

    def decide(self, tape):
        rows = tape.ticks().collect().filter(self.rule(pl.col("prob_bps")))
        named = {"agent_id": pl.lit("columnar"), "action": pl.lit("BACK")}
        nothing = {
            name: pl.lit(None, dtype) for name, dtype in DECISIONS.items() if name not in rows.columns and name not in named
        }
        return rows.with_columns(**named, **nothing).select(*DECISIONS).cast(dict(DECISIONS))


def test_an_agent_that_decides_anew_over_the_prefix_may_only_add():
    tape = messages(Random(4), 60)

    decided = followed(TapeFollower(Columnar(lambda prob: prob > 5000), tape_of(tape).fixtures), tape, "columnar")

    assert decided.equals(Columnar(lambda prob: prob > 5000).decide(tape_of(tape)).sort(ORDER))
    assert decided.height > 5


def test_an_agent_that_takes_an_earlier_decision_back_fails():
    tape = messages(Random(4), 60)
    follower = TapeFollower(Columnar(lambda prob: prob == prob.max()), tape_of(tape).fixtures)

    with pytest.raises(LookaheadError, match="decisions at earlier ticks changed"):
        followed(follower, tape, "columnar")
