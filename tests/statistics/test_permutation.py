import numpy as np
import polars as pl
import pytest

from clvlab.law.closing import Window
from clvlab.statistics import permute_fixtures
from tests.factories import make_tape, message
from tests.length import length
from tests.simulations import moving

SMALL = length({"fixtures": 60, "ticks": 30, "draws": 99}, {})


def two_sided(fixture_id, probs, *, start_s=0, step_s=60):
    return [
        message(
            k,
            start_s + k * step_s,
            {"part1": None if p is None else p, "part2": None if p is None else 10_000 - p},
            fixture_id=fixture_id,
        )
        for k, p in enumerate(probs)
    ]


def decision(fixture_id, tick_seq, side, *, to_close_s, clv_bps=0):
    return {
        "fixture_id": fixture_id,
        "tick_seq": tick_seq,
        "market_key": "1X2||",
        "side": side,
        "to_close_s": float(to_close_s),
        "clv_bps": clv_bps,
    }


def permuted(rows, kickoffs, *decisions, max_close_age_s=None, **options):
    tape = make_tape(rows, kickoffs, max_close_age_s=max_close_age_s)
    key = tape.series["market_key"][0]
    scored = pl.DataFrame([one | {"market_key": key} for one in decisions], schema_overrides={"tick_seq": pl.Int64})
    return permute_fixtures(tape, scored, Window(), **options)


def test_the_side_of_the_same_rank_is_backed_as_long_before_the_close():
    # of fixture 1 the favourite part1 at 300 s; of fixture 2 the favourite is part2, which went from 7000 to 7500
    rows = [*two_sided(1, [6000, 6100, 6400], step_s=300), *two_sided(2, [3000, 2800, 2500], start_s=1000, step_s=300)]

    found = permuted(rows, {1: 900, 2: 1900}, decision(1, 1, "part1", to_close_s=600, clv_bps=300), draws=100)

    assert set(np.round(found.draws)) == {300, 7500 - 7200}
    assert found.matched == 1


def test_decisions_of_a_fixture_are_moved_together():
    rows = [
        row for k, path in enumerate(([6000, 6500], [6000, 5000], [6000, 6100])) for row in two_sided(k + 1, path, step_s=300)
    ]

    both = [decision(1, 0, side, to_close_s=900) for side in ("part1", "part2")]
    found = permuted(rows, dict.fromkeys((1, 2, 3), 900), *both, draws=60)

    # the two sides cancel in every draw; moved apart, they would not
    assert set(found.draws) == {0}


def test_fixtures_without_a_price_then_are_left_out_of_the_draw():
    rows = [
        *two_sided(1, [6000, 6500], step_s=300),
        *two_sided(2, [None, 6000, 6600], step_s=300),
        *two_sided(3, [6000], start_s=800),
    ]

    found = permuted(rows, {1: 900, 2: 900, 3: 900}, decision(1, 0, "part1", to_close_s=900, clv_bps=500), draws=90)

    # suspended in the second; not quoted as early, and then at the close itself, in the third
    assert set(found.draws) == {500}
    assert found.matched < 0.6


def test_fixtures_with_a_close_that_is_too_old_to_score_are_left_out_of_the_draw():
    rows = [*two_sided(1, [6000, 6500], step_s=300), *two_sided(2, [6000, 9000], step_s=30)]
    first = decision(1, 0, "part1", to_close_s=900, clv_bps=500)

    always, young = (permuted(rows, {1: 900, 2: 900}, first, max_close_age_s=limit, draws=60) for limit in (None, 600))

    assert set(always.draws) == {500, 3000}
    assert set(young.draws) == {500}


def test_nothing_to_move_or_nowhere_to_move_it_is_none():
    rows = two_sided(1, [6000, 6500], step_s=300)
    none = pl.DataFrame(schema={"fixture_id": pl.Int64})

    assert permute_fixtures(make_tape(rows, {1: 900}), none, Window()) is None
    # entered on the closing message: elsewhere as here, nothing could have moved
    assert permuted(rows, {1: 900}, decision(1, 1, "part1", to_close_s=600)) is None


def test_where_there_is_nothing_to_know_it_says_so_as_often_as_it_should():
    rounds = length(30, 400)

    observed, elsewhere, p_values, _ = moving.moved(rounds, **SMALL)

    error = observed.std(ddof=1) / np.sqrt(rounds)
    assert abs(observed.mean()) <= 4 * error
    assert abs(elsewhere.mean()) <= 4 * error  # random entries in what the agent picked would be far above
    assert np.mean(p_values <= 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / rounds)


def test_random_entries_in_the_same_series_would_gain_where_there_is_nothing_to_know():
    rng = np.random.default_rng(1)

    same = [moving.same_series(moving.paths(rng, 60, 30), rng) for _ in range(30)]

    assert np.mean(same) > 30  # why decisions are moved to other fixtures


def test_what_everybody_gains_is_no_skill_and_acting_now_says_otherwise():
    observed, elsewhere, choice, now = moving.moved(40, drift_bps=300, **SMALL)

    assert elsewhere.mean() >= observed.mean() - 10
    assert np.mean(choice <= 0.05) <= 0.15
    assert np.mean(now <= 0.05) > np.mean(choice <= 0.05)


def test_what_the_rule_knows_is_found():
    observed, elsewhere, choice, _ = moving.moved(15, edge_bps=300, **SMALL)

    assert observed.mean() > elsewhere.mean() + 20
    assert np.mean(choice <= 0.05) > 0.6


def test_a_seed_gives_the_same_draws():
    found = moving.paths(np.random.default_rng(1), 30, 20)
    tape, scored = moving.tape_of(found), moving.entries(found)

    one, again, other = (permute_fixtures(tape, scored, Window(), draws=20, seed=seed) for seed in (1, 1, 2))

    assert np.array_equal(one.draws, again.draws)
    assert not np.array_equal(one.draws, other.draws)


def test_three_sides_keep_their_ranks():
    def three(fixture_id, home, draw):
        return [
            message(k, 300 * k, {"away": 10_000 - h - d, "draw": d, "home": h}, fixture_id=fixture_id)
            for k, (h, d) in enumerate(zip(home, draw, strict=True))
        ]

    rows = [*three(1, [5000, 5200], [3000, 2900]), *three(2, [2000, 2100], [3000, 3300])]

    found = permuted(rows, {1: 900, 2: 900}, decision(1, 0, "draw", to_close_s=900, clv_bps=-100), draws=50)

    # second likeliest: the draw in both, which gained 300 in the other
    assert set(found.draws) == {-100, 300}


@pytest.mark.parametrize("draws", [1, 7])
def test_as_many_draws_as_are_asked_for(draws):
    found = moving.paths(np.random.default_rng(1), 10, 20)

    assert permute_fixtures(moving.tape_of(found), moving.entries(found), Window(), draws=draws).draws.size == draws
