"""What must hold of every template on any tape."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clvlab.agents.registry import TEMPLATES, template
from clvlab.law import actions
from tests.agents.strategies import EAGER, bets_of, cut, tapes, transcript_of
from tests.length import length

pytestmark = pytest.mark.long

ORDER = ["fixture_id", "tick_seq", "market_key", "side"]


def agent(strategy, tape):
    recorded = {"llm": transcript_of, "bets": bets_of}
    return template(strategy, EAGER[strategy] | ({"transcript": recorded[strategy](tape)} if strategy in recorded else {}))


@pytest.mark.parametrize("strategy", TEMPLATES)
@given(tapes(), st.integers(0, 60), st.integers(0, 200_000), st.booleans())
@settings(max_examples=length(20, 60))
def test_decisions_on_a_prefix_are_the_prefix_of_the_decisions(strategy, tape, seq, ts_s, by_time):
    asked = agent(strategy, tape)
    known = pl.col("ts_ms") < ts_s * 1000 if by_time else pl.col("tick_seq") < seq
    times = tape.messages.select("fixture_id", "tick_seq", "ts_ms")

    whole = asked.decide(tape).join(times, on=["fixture_id", "tick_seq"]).filter(known).drop("ts_ms")

    assert asked.decide(cut(tape, known)).sort(ORDER).equals(whole.sort(ORDER))


@pytest.mark.parametrize("strategy", TEMPLATES)
@given(tapes())
@settings(max_examples=length(10, 30))
def test_decisions_can_be_sealed_and_claims_are_bounded(strategy, tape):
    decided = actions.check_decisions(agent(strategy, tape).decide(tape))

    assert decided["claimed_edge_bps"].drop_nulls().is_between(-10_000, 10_000).all()
    assert decided["confidence"].drop_nulls().is_between(0, 1).all()


@pytest.mark.parametrize("strategy", TEMPLATES)
@given(tapes())
@settings(max_examples=length(10, 20))
def test_a_fixture_is_decided_alike_alone_and_among_others(strategy, tape):
    asked = template(strategy, EAGER[strategy])
    together = asked.decide(tape)

    for fixture_id in tape.fixtures["fixture_id"]:
        own = pl.col("fixture_id") == fixture_id
        assert asked.decide(cut(tape, own)).sort(ORDER).equals(together.filter(own).sort(ORDER))
