"""The vectorised law and replay against the scalar law of the stand-alone verifier."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clvlab.engine.run import run
from clvlab.errors import WindowError
from clvlab.law.closing import fixture_closes
from clvlab.law.clv import scores
from clvlab.law.positions import positions
from clvlab.law.tape import Tape
from clvlab.proof import clv_states, clv_verify
from clvlab.proof.events import receipt_lines
from clvlab.proof.evidence import read_evidence
from clvlab.proof.verify import verify
from clvlab.sql import sql_scores
from clvlab.store.folder import read_receipts, read_run, write_run
from tests.engine.strategies import decisions, games, policies, windows
from tests.factories import make_agent, make_limited_run, make_run, make_tape, message
from tests.length import length

pytestmark = pytest.mark.long

quick = settings(max_examples=length(12, 50))


@st.composite
def settings_of_a_run(draw):
    game = draw(games())
    return game, draw(windows()), draw(decisions(game))


def tape_of(game, *, order=None):
    ticks = game.ticks if order is None else game.ticks[order]
    tape = Tape.from_ticks(ticks, game.fixtures, closing_policy=game.policy)
    return replace(tape, max_close_age_s=game.max_close_age_s)


def oracle_fixtures(game):
    return clv_states.fixtures_of([row | {"kickoff_ts_ms": game.kickoffs[row["fixture_id"]]} for row in game.rows])


def payloads(result, kind):
    events = (json.loads(line) for line in result.sealed.events.splitlines())
    return [event["payload"] for event in events if event["kind"] == kind]


@given(games(), windows())
@quick
def test_windows_end_where_the_scalar_law_says(game, window):
    ends = {number: clv_states.window_end(fixture, window.payload()) for number, fixture in oracle_fixtures(game).items()}

    closes = fixture_closes(tape_of(game), window)

    assert {row[0]: row[1:] for row in closes.iter_rows()} == ends


@given(settings_of_a_run())
@quick
def test_run_seals_the_states_and_closes_of_the_scalar_law(setting):
    game, window, decided = setting
    fixtures = oracle_fixtures(game)

    result = run(tape_of(game), [make_agent(decided)], window)

    for payload in payloads(result, "DECISION"):
        action, at = payload["action"], payload["tick_seq"]
        markets = fixtures[payload["fixture_id"]].markets if action["type"] == "BACK" else {}
        state = clv_states.state_at(markets.get(action["market_key"], []), at)
        assert payload["market_state"] == (state and state | {"age_ms": payload["ts_ms"] - state["ts_ms"]})
    for payload in payloads(result, "MARKET_CLOSE"):
        fixture = fixtures[payload["fixture_id"]]
        end_seq, close_ts_ms, _ = clv_states.window_end(fixture, window.payload())
        states = fixture.markets.get(payload["market_key"], [])
        assert payload["closing"] == clv_states.closing_state(states, end_seq, close_ts_ms, game.policy)


@given(settings_of_a_run())
@quick
def test_run_scores_as_the_scalar_law_does(setting):
    game, window, decided = setting

    result = run(tape_of(game), [make_agent(decided)], window)

    oracle = clv_verify.score_rows(clv_verify.read_evidence(result.sealed.events))
    assert [json.loads(line) for line in result.sealed.scores.splitlines()] == oracle
    assert result.scores.to_dicts() == [{column: row[column] for column in result.scores.columns} for row in oracle]


@given(settings_of_a_run(), policies())
@quick
def test_both_verifiers_pass_a_stored_run_and_read_back_what_was_sealed(setting, policy):
    game, window, decided = setting
    result = run(tape_of(game), [make_agent(decided), make_agent(decided, "b")], window, policy=policy)

    with tempfile.TemporaryDirectory() as folder:
        stored = write_run(result.sealed, Path(folder), receipt_lines(result.receipts))
        verification = verify(read_run(stored), read_receipts(stored))
        alone, states = clv_verify.verify(stored), clv_states.verify_states(stored, oracle_fixtures(game))

    assert (verification.passed, verification.outcomes.equals(result.outcomes)) == (True, True)
    assert (alone["verified"], set(alone["checks"].values())) == (True, {None})
    assert states["checks"] == {"states_from_ticks": None}
    assert alone["manifest_hash"] == verification.manifest_hash == result.sealed.manifest_hash
    evidence = read_evidence(result.sealed.events)
    placed = positions(*evidence.events.lines)
    assert scores(placed, evidence.window, evidence.max_close_age_s).equals(result.scores)
    assert evidence.decisions.equals(result.evidence.decisions)


@given(settings_of_a_run(), st.randoms(use_true_random=False))
@quick
def test_order_of_ticks_and_decisions_does_not_matter(setting, random):
    game, window, decided = setting
    rows, named = list(range(game.ticks.height)), list(range(decided.height))
    random.shuffle(rows)
    random.shuffle(named)

    one = run(tape_of(game), [make_agent(decided)], window)
    other = run(tape_of(game, order=rows), [make_agent(decided[named])], window)

    assert one.sealed == other.sealed


@given(settings_of_a_run())
@quick
def test_other_fixtures_on_the_tape_do_not_matter(setting):
    game, window, decided = setting
    tape = tape_of(game)
    whole = run(tape, [make_agent(decided)], window)

    for fixture_id in game.kickoffs:
        own = pl.col("fixture_id") == fixture_id
        alone = Tape.from_ticks(game.ticks.filter(own), game.fixtures.filter(own), closing_policy=game.policy)
        alone = replace(alone, max_close_age_s=game.max_close_age_s)
        cut = tape.fixture(fixture_id)
        result = run(cut, [make_agent(decided.filter(own))], window)

        assert cut.rows.equals(alone.rows)
        assert cut.series.equals(alone.series)
        assert result.sealed == run(alone, [make_agent(decided.filter(own))], window).sealed
        assert result.scores.drop("seq").equals(whole.scores.filter(own).drop("seq"))
        assert result.evidence.closes.drop("seq").equals(whole.evidence.closes.filter(own).drop("seq"))


@given(settings_of_a_run(), policies())
@quick
def test_scores_do_not_depend_on_the_policy(setting, policy):
    game, window, decided = setting

    free, bound = (run(tape_of(game), [make_agent(decided)], window, policy=each) for each in (None, policy))

    assert bound.scores.equals(free.scores)
    assert bound.outcomes.equals(free.outcomes)


@given(settings_of_a_run(), policies())
@quick
def test_gate_gives_the_verdicts_of_the_scalar_gate(setting, policy):
    game, window, decided = setting
    result = run(tape_of(game), [make_agent(decided), make_agent(decided, "b")], window, policy=policy)

    judged = clv_verify.verdicts(clv_verify.read_evidence(result.sealed.events))

    backs = result.evidence.decisions.filter(pl.col("action") == "BACK")
    assert [(seq, verdict["pre"]["reasons"], verdict["post"]["reasons"]) for seq, verdict in judged] == list(
        backs.select("seq", "pre", "post").iter_rows()
    )
    waits = result.evidence.decisions.filter(pl.col("action") == "WAIT")
    assert waits["pre"].null_count() == waits["post"].null_count() == waits.height


@given(settings_of_a_run())
@quick
def test_agents_do_not_see_each_other(setting):
    game, window, decided = setting
    agents = [make_agent(decided), make_agent(decided, "b")]

    one, other = run(tape_of(game), agents, window), run(tape_of(game), agents[::-1], window)

    assert one.sealed == other.sealed
    a, b = (one.scores.filter(agent_id=name).drop("seq", "agent_id") for name in "ab")
    assert a.equals(b)


@given(settings_of_a_run())
@quick
def test_tape_gives_its_ticks_back(setting):
    game, _, _ = setting

    ticks = tape_of(game).ticks().collect()

    assert ticks.equals(game.ticks.sort("fixture_id", "tick_seq", "market_key", "side"))


def test_close_older_than_the_limit_is_stale_in_every_law():
    result = make_limited_run()

    oracle = clv_verify.score_rows(clv_verify.read_evidence(result.sealed.events))
    assert [(row["tick_seq"], row["market_key"], row["side"], row["reason"]) for row in oracle] == [
        (2, "AT|", "over", "scored"),
        (2, "AT|", "under", "closing_side_missing"),
        (2, "OVER|", "over", "closing_stale"),
        (2, "OVER|", "under", "closing_stale"),
        (2, "SUSPENDED|", "over", "closing_suspended"),
        (2, "SUSPENDED|", "under", "closing_suspended"),
        (5, None, None, "wait_unscored"),
        (6, "LATE|", "over", "pending_horizon"),
        (6, "OVER|", "over", "closing_stale"),
    ]
    assert [json.loads(line) for line in result.sealed.scores.splitlines()] == oracle
    assert sql_scores(result.sealed.events).equals(result.scores)


@pytest.mark.parametrize("limit_s", [0, -1, True, 1.0, "60", 9_007_199_255])
def test_tape_with_a_limit_that_no_evidence_can_hold_is_refused(limit_s):
    with pytest.raises(WindowError, match=f"not {limit_s!r}"):
        make_tape([message(0, 0, {"part1": 1, "part2": 2})], max_close_age_s=limit_s)


@pytest.mark.parametrize("backward", [False, True])
def test_back_and_wait_of_the_same_market_have_one_order(backward):
    tape = make_tape([message(seq, seq, {"part1": 1, "part2": 2}) for seq in range(40)])
    rows = [{"tick_seq": seq, "action": action} for seq in range(40) for action in ("WAIT", "BACK")]

    result = make_run(tape, *(rows[::-1] if backward else rows))

    assert [row["action"]["type"] for row in payloads(result, "DECISION")] == ["BACK", "WAIT"] * 40
