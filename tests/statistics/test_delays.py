import numpy as np
import polars as pl
import pytest

from clvlab.statistics import delay
from tests.factories import MARKET, make_run, make_tape, message


def ends(run):
    return run.evidence.closes.select("fixture_id", "end_seq", "close_ts_ms").unique()


def scored(run):
    return run.scores.filter(pl.col("reason") == "scored")


def two_sided(probs, *, fixture_id=1, start_s=0, step_s=60, first_seq=0):
    return [
        message(first_seq + k, start_s + k * step_s, {"part1": p, "part2": 10_000 - p}, fixture_id=fixture_id)
        for k, p in enumerate(probs)
    ]


def test_later_entries_lie_at_or_after_the_decision_in_its_bin():
    # 3000 to 5000 lie 300 s to 900 s before the close, the others less
    early, late = (
        two_sided([3000, 4000, 4400, 5000], start_s=150, step_s=150),
        two_sided([9000, 9000], start_s=750, first_seq=4),
    )
    tape = make_tape([*early, *late], {1: 1000})
    run = make_run(tape, {"tick_seq": 1})

    found = delay(tape, scored(run), ends(run), draws=300)

    assert set(np.round(found.draws)) == {9000 - 4000, 9000 - 4400, 9000 - 5000}
    assert found.observed == run.scores["clv_bps"][0]
    assert found.gain == pytest.approx(found.observed - found.mean)


def test_unpriced_messages_the_horizon_and_the_play_are_never_entered():
    rows = [
        *two_sided([4000, 4200], start_s=710, step_s=10),
        message(2, 730, {"part1": None, "part2": None}),
        *two_sided([4400], start_s=740, first_seq=3),
        *two_sided([100, 4400], start_s=950, first_seq=4, step_s=10),
        message(6, 1000, {"part1": 1, "part2": 9999}, in_running=True),
    ]
    tape = make_tape(rows)
    run = make_run(tape, {"tick_seq": 0})

    found = delay(tape, scored(run), ends(run), draws=300)

    assert set(np.round(found.draws)) == {400, 200, 0}
    assert found.free == 1


def test_decisions_of_a_fixture_are_moved_together():
    tape = make_tape(two_sided([4000, 5000], start_s=100, step_s=100), {1: 1000})
    run = make_run(tape, {"tick_seq": 0}, {"tick_seq": 0, "side": "part2"})

    found = delay(tape, scored(run), ends(run), draws=100)

    # the two sides cancel in every draw; moved apart, they would not
    assert set(found.draws) == {0}


def test_a_decision_alone_in_its_cell_stays():
    tape = make_tape(two_sided([4000, 5000], start_s=100, step_s=600), {1: 1000})
    run = make_run(tape, {"tick_seq": 0})

    found = delay(tape, scored(run), ends(run), draws=50)

    assert (found.free, found.low, found.high, found.p_value) == (0, 1000, 1000, 1)


def test_a_decision_on_a_carried_state_is_placed_at_its_message():
    other = message(1, 400, {"over": 5000, "under": 5000}, market_key="OU||")
    tape = make_tape([*two_sided([4000], start_s=100), other, *two_sided([6000], start_s=900, first_seq=2)], {1: 1000})
    run = make_run(tape, {"tick_seq": 1, "market_key": MARKET})

    found = delay(tape, scored(run), ends(run), draws=20)

    assert set(found.draws) == {2000}


def test_hindsight_gains_by_acting_now():
    rng = np.random.default_rng(1)
    paths = np.clip(5000 + rng.integers(-80, 81, (40, 60)).cumsum(1), 500, 9500)
    rows = [row for k, path in enumerate(paths) for row in two_sided([int(p) for p in path], fixture_id=k + 1, step_s=5)]
    tape = make_tape(rows, {k + 1: 600 for k in range(40)})
    run = make_run(tape, *({"fixture_id": k + 1, "tick_seq": int(path.argmin())} for k, path in enumerate(paths)))

    found = delay(tape, scored(run), ends(run))

    assert found.gain > 0
    assert found.p_value == pytest.approx(1 / 201)


def test_without_a_scored_decision_nothing_is_moved():
    tape = make_tape(two_sided([4000, 5000]), {1: 1000})
    run = make_run(tape, {"side": "draw"})

    assert delay(tape, scored(run), ends(run)) is None
