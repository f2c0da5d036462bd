import pytest

from clvlab.law.schema import Reason
from clvlab.report.explorer.page import reasoning, record_card
from clvlab.runs.inspector import inspect_decision
from tests.factories import make_mixed_run, make_run, make_tape, message

NASTY = '<img src=x onerror="alert(1)"></fieldset>'


@pytest.fixture(scope="module")
def run():
    return make_mixed_run().sealed


def records(run):
    """Every decision by its reason."""
    found = [inspect_decision(run, seq) for seq in range(1, 8)]
    return {record["recompute"]["reason"]: record for record in found}


def test_the_sums_behind_a_score_are_shown(run):
    record = inspect_decision(run, 2)

    assert record["clv_bps"] == 500
    assert reasoning(record).startswith(
        "CLV = close 4,500 - entry 4,000 = +500 bps of probability. Edge = close 4,500 bps at the price 2.500"
    )


def test_every_reason_of_the_law_is_put_into_words():
    template = {"market_state": None, "agent_action": {}}

    for reason in set(Reason) - {Reason.SCORED}:
        assert reasoning(template | {"recompute": {"reason": reason.value}}).endswith(".")


def test_a_record_shows_state_law_policy_and_claims(run):
    shown = record_card(1, inspect_decision(run, 1))

    for head in ("Proposed", "Known at entry", "The law", "Policy gate", "Claimed by the agent: recorded, never scored"):
        assert head in shown


def test_a_close_that_lies_ahead_gives_nothing_away(run):
    record = inspect_decision(run, 2)

    shown = record_card(2, record, known=False)

    assert "+500" not in shown
    assert "45.00 %" not in shown
    assert "CLV and verdict are hidden" in shown


@pytest.mark.parametrize("reason", ["wait_unscored", "entry_suspended", "scored", "pending_horizon"])
def test_records_without_a_state_a_policy_or_a_number_are_shown(run, reason):
    tape = make_tape([message(0, 0, {"draw": 3000, "part1": 4000, "part2": 3000})], {1: 30})
    known = records(run) | {"pending_horizon": inspect_decision(make_run(tape, {}).sealed, 1)}

    assert reason in record_card(1, known[reason]) or reason == "scored"


def test_claims_stay_behind_their_fence_whatever_they_say():
    tape = make_tape([message(0, 0, {NASTY: 5000, "b": 5000}, market_key=NASTY)], {1: 600})
    run = make_run(tape, {"market_key": NASTY, "side": NASTY, "reason": NASTY}).sealed

    shown = record_card(1, inspect_decision(run, 1))

    assert "<img" not in shown
    assert shown.count("<fieldset") == shown.count("</fieldset>") == 1
    assert shown.index("<fieldset") < shown.index("&lt;/fieldset&gt;", shown.index("<fieldset")) < shown.rindex("</fieldset>")
