import numpy as np
import polars as pl
import pytest

from clvlab.law.closing import Window, fixture_closes
from clvlab.law.schema import FIXTURES
from clvlab.law.tape import Tape
from clvlab.statistics import permutation, permute_fixtures
from clvlab.statistics.permutation import STOP_AT, Permutation
from tests import booked
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


def sides_by_rank(prices):
    return sorted(prices, key=lambda one: -prices[one] if prices[one] is not None else 1)


def moved_by_hand(ticks, tape, scored, donor):
    """Mean CLV and number of the decisions in other fixtures, decision by decision over plain rows."""
    ends = fixture_closes(tape, Window())
    close_ms = dict(ends.select("fixture_id", "close_ts_ms").iter_rows())
    end_seq = dict(ends.select("fixture_id", "end_seq").iter_rows())
    messages = {}
    for fixture, seq, ts, _, market, side, prob, _, _ in sorted(ticks.rows()):
        messages.setdefault((fixture, market), {}).setdefault((seq, ts), {})[side] = prob
    fixtures, clv = ends["fixture_id"].to_list(), []
    for row in scored.iter_rows(named=True):
        own = messages[row["fixture_id"], row["market_key"]]
        rank = sides_by_rank(own[max(at for at in own if at[0] <= row["tick_seq"])]).index(row["side"])
        there = fixtures[donor[fixtures.index(row["fixture_id"])]]
        other = messages.get((there, row["market_key"]), {})
        closing = max((at for at in other if at[0] < end_seq[there]), default=None)
        entered = max((at for at in other if at[1] <= close_ms[there] - 1000 * row["to_close_s"]), default=None)
        if entered is None or closing is None or entered >= closing or rank >= len(other[entered]):
            continue
        side = sides_by_rank(other[entered])[rank]
        entry, close = other[entered][side], other[closing][side]
        if entry is not None and close is not None:
            clv.append(close - entry)
    return (sum(clv) / len(clv) if clv else np.nan), len(clv)


def booked_decisions(ticks, tape, rng):
    """Random sides of random messages before the close, on tapes with ties, suspensions and absent markets."""
    ends = fixture_closes(tape, Window())
    rows = ticks.drop_nulls("prob_bps").join(ends, on="fixture_id").filter(pl.col("tick_seq") < pl.col("end_seq"))
    rows = rows.sort("fixture_id", "tick_seq", "side").filter(pl.Series(rng.random(rows.height) < 0.3))
    return rows.select(
        "fixture_id", pl.col("tick_seq").cast(pl.Int64), "market_key", "side",
        to_close_s=(pl.col("close_ts_ms") - pl.col("ts_ms")) / 1000, clv_bps=pl.lit(7),
    )  # fmt: skip


@pytest.mark.parametrize("sizes", [(1, 30), (2, 3), (5, 40), (9, 25)])
def test_each_draw_is_what_a_loop_over_decisions_finds(sizes):
    rng, fixtures, compared = np.random.default_rng(5), sizes[0], 0
    for seed in range(length(4, 60)):
        ticks, _ = booked.frames(seed, fixtures=fixtures, messages=sizes[1])
        ticks = ticks.with_columns(pl.when(pl.col("prob_bps").is_not_null()).then(pl.col("prob_bps") // 900 * 900))  # ties
        if seed % 2:
            ticks = ticks.filter(~((pl.col("fixture_id") == 1) & (pl.col("market_key") == "1X2||")))
        kickoffs = pl.DataFrame({"fixture_id": range(1, fixtures + 1), "kickoff_ts_ms": 4 * booked.HOUR_MS}, schema=FIXTURES)
        tape = Tape.from_ticks(ticks, kickoffs)
        scored = booked_decisions(ticks, tape, rng)
        found = permute_fixtures(tape, scored, Window(), draws=3, seed=seed)

        donors = [
            np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(k,))).permutation(
                tape.series["fixture_id"].n_unique()
            )
            for k in range(3)
        ]
        by_hand = [moved_by_hand(ticks, tape, scored, donor) for donor in donors]
        means = [mean for mean, n in by_hand if n]
        assert (found is None) == (not means)
        if found:
            compared += 1
            assert found.draws.tolist() == means
            assert found.matched == sum(n for _, n in by_hand) / (3 * scored.height)
    assert compared or sizes == (2, 3)


def test_the_number_of_threads_changes_no_bit_and_more_draws_begin_with_the_same(monkeypatch):
    found = moving.paths(np.random.default_rng(3), 40, 30)
    tape, scored = moving.tape_of(found), moving.entries(found)

    each = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(permutation, "_THREADS", threads)
        each.append(permute_fixtures(tape, scored, Window(), draws=120, seed=3))
    more = permute_fixtures(tape, scored, Window(), draws=400, seed=3)

    for one in each:
        assert one.draws.tobytes() == each[0].draws.tobytes() == more.draws[: each[0].draws.size].tobytes()
        assert one.judged.tobytes() == each[0].judged.tobytes()
        assert (one.p_value, one.matched) == (each[0].p_value, each[0].matched)
    shared = min(each[0].judged.size, more.judged.size)
    assert more.judged[:shared].tobytes() == each[0].judged[:shared].tobytes()


def sequence(draws, of, observed=0.0):
    made, settled = permutation._sequential(
        lambda number: (of[number], 1), draws, min(draws, max(STOP_AT, draws // 2)), observed
    )
    judged = np.array([mean for mean, _ in made[:settled]])
    return Permutation(observed, 1, judged, judged, 1.0), len(made)


@pytest.mark.parametrize(
    ("of", "p_value", "made"),
    [
        ([1.0] * 200, 1.0, 100),
        ([-1.0] * 200, 1 / 201, 200),
        ([-1.0, 1.0] * 100, 50 / 100, 100),
        ([-1.0, -1.0, 1.0] * 66 + [-1.0] * 2, 50 / 150, 150),
        ([-1.0] * 150 + [1.0] * 50, 50 / 200, 200),
        ([-1.0] * 151 + [1.0] * 49, 50 / 201, 200),
        ([0.0] * 200, 1.0, 100),  # a tie is as good
    ],
)
def test_a_p_value_stops_at_the_fiftieth_draw_that_is_as_good(of, p_value, made):
    found, drawn = sequence(200, of)

    assert found.p_value == p_value
    assert drawn == made


def test_an_error_in_a_draw_is_raised_and_stops_the_others():
    asked = []

    def draw(number):
        asked.append(number)
        raise ValueError(f"draw {number}")

    with pytest.raises(ValueError, match="draw 0"):
        permutation._sequential(draw, 10_000, 5_000, 0.0)
    assert len(asked) < 10_000


@pytest.mark.long
def test_the_sequential_p_value_keeps_its_level():
    rounds = length(150, 10_000)

    found = moving.levels(rounds)

    for level, share in found.items():
        assert share <= level + 3.5 * np.sqrt(level * (1 - level) / rounds), (level, share)
    assert found[0.25] > 0.15  # a p that is always 1 would keep every level
