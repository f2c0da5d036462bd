import random

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clvlab as cl
from clvlab.agents.columnar import strategy
from clvlab.agents.registry import TEMPLATES, template
from clvlab.engine.agent import Identity
from clvlab.engine.lookahead import lookahead_audit, prefix
from clvlab.engine.run import run
from clvlab.errors import AgentError, LookaheadError
from clvlab.law.closing import Window
from clvlab.law.tape import Tape
from tests.engine.strategies import games
from tests.factories import make_decisions, make_tape, message

PRICE, SERIES = pl.col("prob_bps"), "series"
SOMETIMES = pl.col("tick_seq") % 17 == 0
CHEATS = {
    "future close": lambda ticks: ticks.filter(PRICE.last().over(SERIES) - PRICE > 600, SOMETIMES),
    "global mean": lambda ticks: ticks.filter(PRICE.mean() - 3000 > PRICE, SOMETIMES),
    "backward fill": lambda ticks: ticks.filter(PRICE.fill_null(strategy="backward").over(SERIES) > 8000, SOMETIMES),
    "negative shift": lambda ticks: ticks.filter(PRICE.shift(-1).over(SERIES) - PRICE > 60),
    "rank over the whole tape": lambda ticks: ticks.filter(PRICE.rank().over(SERIES) / pl.len().over(SERIES) < 0.02),
}


@pytest.fixture(scope="module")
def tape():
    return cl.open_pack("season").source.tape()


@pytest.mark.parametrize("name", CHEATS)
def test_agent_that_cheats_is_caught_and_the_decision_named(tape, name):
    report = lookahead_audit(strategy(agent_id="cheat")(CHEATS[name]), tape)

    first = report.moved.row(0, named=True)
    assert not report.passed
    assert f"at tick {first['tick_seq']} of fixture {first['fixture_id']}" in repr(report)
    assert f"the tape ends at tick {first['cut_tick_seq']} of fixture {first['cut_fixture_id']}" in repr(report)


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_pass(tape, name):
    assert lookahead_audit(template(name), tape).passed


def test_decision_that_is_taken_back_is_caught(tape):
    last_is_high = PRICE.last().over(SERIES) == PRICE.max().over(SERIES)

    report = lookahead_audit(strategy(agent_id="hindsight")(lambda ticks: ticks.filter(last_is_high, SOMETIMES)), tape)

    assert set(report.moved["change"]) == {"appeared", "vanished"}


def test_same_seed_cuts_at_the_same_messages(tape):
    cheat = strategy(agent_id="cheat")(CHEATS["negative shift"])

    one, again, other = (lookahead_audit(cheat, tape, seed=seed).moved for seed in (1, 1, 2))

    assert one.equals(again)
    assert not one.equals(other)


def test_long_tape_is_audited_on_some_of_its_fixtures(tape):
    sizes = []

    def watched(ticks):
        frame = ticks.collect()
        sizes.append(frame.height)
        return frame.head(1)

    lookahead_audit(strategy(watched), tape, max_rows=20_000, cuts=2)

    assert max(sizes) <= 20_000


def test_agent_that_fails_on_a_prefix_is_named(tape):
    def fragile(ticks):
        frame = ticks.collect()
        if frame.height < tape.rows.height:
            raise ValueError("too short")
        return frame.head(1)

    with pytest.raises(AgentError, match="'fragile' fails on a prefix of the tape with ValueError: too short"):
        lookahead_audit(strategy(fragile), tape)


def test_model_of_the_whole_tape_that_is_kept_from_call_to_call_does_not_help(tape):
    kept = []

    def cached(ticks):
        if not kept:
            kept.append(ticks.group_by("series").agg(close=PRICE.last()).collect())
        closes = kept[0].lazy()
        return ticks.join(closes, on="series", maintain_order="left").filter(pl.col("close") - PRICE > 600)

    alone = run(tape, [strategy(cached)], Window(), audit=False)
    kept.clear()
    with pytest.raises(LookaheadError):
        run(tape, [strategy(cached)], Window())

    assert alone.outcomes["mean_clv_bps"][0] > 100


def test_agent_that_rolls_dice_is_called_so(tape):
    dice = random.Random(5)

    def gambler(ticks):
        return ticks.filter(pl.col("tick_seq") == dice.randrange(50))

    with pytest.raises(AgentError, match="'gambler' is not deterministic"):
        lookahead_audit(strategy(gambler), tape)


def test_what_is_sealed_is_what_was_audited():
    tape = make_tape([message(n, n, {"part1": 5000, "part2": 5000}) for n in range(9)], {1: 600})
    calls = []

    def fickle(ticks):
        calls.append(1)
        return ticks.filter(pl.col("side") == "part1") if len(calls) <= 100 else ticks.head(0)

    sealed = run(tape, [strategy(fickle)], Window())

    assert (sealed.scores.height, len(calls)) == (9, 10)


def test_causality_is_found_and_not_declared():
    tape = make_tape([message(n, n, {"part1": 5000 + n, "part2": 5000 - n}) for n in range(9)], {1: 600})

    class Claimant:
        identity = Identity("claimant", "mine", "1", causality="template")

        def decide(self, tape):
            return make_decisions({"agent_id": "claimant", "tick_seq": tape.rows["tick_seq"].max()})

    with pytest.raises(LookaheadError):
        run(tape, [Claimant()], Window())


def test_audit_without_cuts_is_refused(tape):
    with pytest.raises(AgentError, match="at least 1 cut, not 0"):
        lookahead_audit(template("baseline"), tape, cuts=0)


def test_agent_that_does_nothing_passes(tape):
    assert lookahead_audit(strategy(lambda ticks: ticks.head(0)), tape).passed


@given(games(), st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_prefix_is_the_tape_of_the_messages_until_then(game, dice):
    if not game.rows:
        return
    whole = Tape.from_ticks(game.ticks, game.fixtures, closing_policy=game.policy)
    last = dice.choice(whole.messages.select("ts_ms", "fixture_id", "tick_seq").rows())
    seen = [row for row in game.rows if (row["ts_ms"], row["fixture_id"], row["tick_seq"]) <= last]

    cut = prefix(whole, last)

    built = Tape.from_ticks(pl.DataFrame(seen, schema=game.ticks.schema), game.fixtures, closing_policy=game.policy)
    assert cut.rows.equals(built.rows)
    assert cut.series.equals(built.series)
    assert cut.binding.content_hash is None
