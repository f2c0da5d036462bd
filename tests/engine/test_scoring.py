"""Scores read from the tape against scores read from the states that a replay writes down."""

from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from clvlab.engine.agent import decisions_of
from clvlab.engine.replay import locate, replay
from clvlab.errors import DecisionError, EvidenceError
from clvlab.law.closing import Window
from clvlab.law.clv import scores
from clvlab.law.positions import positions
from clvlab.runs.inspector import at_close
from clvlab.runs.search.scorer import Scorer
from tests.engine.strategies import decisions, games, windows
from tests.engine.test_replay_properties import tape_of
from tests.factories import make_agent, make_decisions, make_tape, message
from tests.length import length

TICKS = [message(0, 0, {"part1": 5000, "part2": 5000}), message(1, 60, {"part1": 5100, "part2": 4900})]


def by_replay(tape, window, agent):
    found = replay(tape, locate(tape, decisions_of(agent, tape)), window)
    rows = scores(positions(found.decisions, found.closes), window, tape.max_close_age_s)
    return rows.with_columns(at_close(found.decisions, found.closes))


@pytest.mark.long
@settings(max_examples=length(60, 500))
@given(st.data())
def test_scores_are_those_of_the_replay(data):
    game, window = data.draw(games()), data.draw(windows())
    tape, agent = tape_of(game), make_agent(data.draw(decisions(game)))

    assert_frame_equal(Scorer(tape, window).scores(agent), by_replay(tape, window, agent))


def test_an_entry_at_the_closing_message_is_marked():
    tape = make_tape(TICKS, {1: 120})
    found = Scorer(tape, Window(min_clv_horizon_s=0)).scores(
        make_agent(make_decisions({"tick_seq": 0}, {"tick_seq": 1}, {"tick_seq": 1, "action": "WAIT"}))
    )

    assert found["at_close"].to_list() == [False, True, False]


def test_a_tick_that_does_not_exist_and_a_price_that_no_market_has_are_refused():
    tape = make_tape(TICKS)
    with pytest.raises(DecisionError, match="'tick_seq': 7"):
        Scorer(tape, Window()).scores(make_agent(make_decisions({"tick_seq": 7})))
    broken = tape.rows.with_columns(prob_bps=pl.lit(10_001, pl.Int32))
    with pytest.raises(EvidenceError, match="a price out of range"):
        Scorer(replace(tape, rows=broken), Window())
