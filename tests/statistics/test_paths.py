import numpy as np
import polars as pl
import pytest
from scipy.special import ndtr

from clvlab.errors import StatisticsError
from clvlab.law.closing import Window
from clvlab.law.schema import FIXTURES, TICKS
from clvlab.law.tape import Tape
from clvlab.statistics import known_moves, path_slopes, price_points
from tests.factories import make_tape, message
from tests.length import length
from tests.simulations.after import fair, rejected

HOUR_S, MARKET = 3600, "m"


def points_of(first, last, won, sides=2):
    """``POINTS`` with results, a fixture a row, both sides of a market of two."""
    n = len(first)
    one, other = (
        pl.DataFrame(
            {
                "fixture_id": np.arange(n),
                "market_key": MARKET,
                "side": side,
                "n_sides": sides,
                "open": np.abs(mirrored - first),
                "close": np.abs(mirrored - last),
                "won": np.abs(mirrored - won),
            }
        )
        for side, mirrored in (("a", 0.0), ("b", 1.0))
    )
    return pl.concat([one, other])


def fair_tape(rng, n=150, steps=40):
    """Tape of fair prices, every half hour for twenty hours before the close, and who won."""
    walk = rng.normal(0, 0.7, (n, 1)) + np.cumsum(rng.normal(0, np.sqrt(0.5 / steps), (n, steps)), axis=1)
    left = 1 - 0.5 * np.arange(1, steps + 1) / steps
    prob_bps = np.rint(10_000 * ndtr(walk / np.sqrt(left))).astype(int).clip(1, 9_999)
    fixture, tick = (one.ravel() for one in np.indices(prob_bps.shape))
    sides = [
        pl.DataFrame(
            {"fixture_id": fixture, "tick_seq": tick, "ts_ms": tick * 1_800_000, "side": side, "prob_bps": bps.ravel()}
        )
        for side, bps in (("a", prob_bps), ("b", 10_000 - prob_bps))
    ]
    ticks = pl.concat(sides).with_columns(
        market_key=pl.lit(MARKET), in_running=pl.lit(value=False), suspended=pl.lit(value=False), odds_milli=pl.lit(None)
    )
    fixtures = pl.DataFrame({"fixture_id": range(n), "kickoff_ts_ms": [steps * 1_800_000] * n}, schema=FIXTURES)
    won = (walk[:, -1] + rng.normal(0, np.sqrt(0.5), n) > 0).astype(float)
    return Tape.from_ticks(ticks.select(*TICKS), fixtures), won


def slope(table, leg):
    return table.row(by_predicate=pl.col("leg") == leg, named=True)


@pytest.mark.long
def test_fair_prices_have_no_slope_and_the_test_is_of_its_size():
    rng = np.random.default_rng(1)
    rounds = 400

    tables = [path_slopes(points_of(*fair(rng, 80))) for _ in range(rounds)]

    for leg in ("opening", "close", "reversal"):
        rows = [slope(table, leg) for table in tables]
        # three standard errors of 400 rounds at .05 are 3.3 points
        assert 0.02 <= np.mean([row["p_value"] <= 0.05 for row in rows]) <= 0.085
        assert np.mean([row["slope"] for row in rows]) == pytest.approx(0, abs=0.08)


@pytest.mark.long
def test_few_results_reject_fair_prices_as_often_as_the_page_says():
    few, many = (rejected(length(400, 2_000), fixtures) for fixtures in (20, 150))

    assert max(few) == pytest.approx(0.11, abs=0.05)
    assert max(many) <= 0.06 + length(0.03, 0.01)


@pytest.mark.parametrize("truth", [-0.6, -0.2, 0.5])
def test_a_reversal_and_a_drift_that_goes_on_are_found(truth):
    rng = np.random.default_rng(2)

    rounds, fixtures = length((40, 150), (100, 600))
    inside = 0
    for _ in range(rounds):
        first = rng.uniform(0.35, 0.65, fixtures)
        last = first + rng.normal(0, 0.08, fixtures)
        won = (rng.random(fixtures) < last + truth * (last - first)).astype(float)
        row = slope(path_slopes(points_of(first, last, won)), "reversal")
        inside += row["low"] <= truth <= row["high"]

    assert inside >= 0.88 * rounds


def test_noise_of_the_close_alone_is_taken_back():
    rng = np.random.default_rng(3)
    first = rng.uniform(0.3, 0.7, 4_000)
    stale = first + rng.normal(0, 0.1, 4_000)

    row = slope(path_slopes(points_of(first, stale.clip(0, 1), (rng.random(4_000) < first).astype(float))), "reversal")

    assert row["slope"] == pytest.approx(-1, abs=0.25)
    assert row["p_value"] < 0.001


def test_favourites_that_shorten_and_that_win_too_often_are_found():
    rng = np.random.default_rng(4)
    first = rng.uniform(0.2, 0.8, 3_000)
    last = 0.5 + 1.1 * (first - 0.5) + rng.normal(0, 0.02, 3_000)
    won = (rng.random(3_000) < 0.5 + 1.2 * (last - 0.5)).astype(float)

    table = path_slopes(points_of(first, last, won))

    assert slope(table, "opening")["slope"] == pytest.approx(0.1, abs=0.01)
    assert slope(table, "close")["slope"] == pytest.approx(0.2, abs=0.1)


def test_both_sides_of_a_market_say_what_one_says():
    both = points_of(*fair(np.random.default_rng(5), 60))

    one = path_slopes(both.filter(pl.col("side") == "a"))

    for name in ("slope", "low", "high", "t"):
        assert path_slopes(both)[name].to_list() == pytest.approx(one[name].to_list())
    assert path_slopes(both)["fixtures"].to_list() == one["fixtures"].to_list()


def test_without_results_only_the_opening_has_a_slope():
    points = points_of(*fair(np.random.default_rng(6), 30)).with_columns(won=pl.lit(None, dtype=pl.Float64))

    table = path_slopes(points)

    assert table["slope"].is_null().to_list() == [False, True, True]
    assert table["n"].to_list() == [60, 0, 0]


def test_what_was_known_of_a_fair_path_is_its_share_of_the_time():
    tape, won = fair_tape(np.random.default_rng(7), n=500)
    hours = (15.0, 10.0, 5.0, 1.0)

    points = price_points(tape, Window(), hours)
    table = known_moves(points, hours)

    # a walk on its own scale spreads evenly over the twenty hours; the first message takes one step of it
    passed = [(19.5 - hour) / 19.0 for hour in hours]
    assert table["share"].to_list() == pytest.approx(passed, abs=0.08)
    assert (table["slope_low"] < 1.1).all()
    assert (table["slope_high"] > 0.9).all()
    inside = (table["low"] <= pl.Series(passed)) & (pl.Series(passed) <= table["high"])
    assert inside.sum() >= 3
    results = points.filter(pl.col("side") == "a").with_columns(won=pl.Series(won))
    assert abs(slope(path_slopes(results), "reversal")["t"]) < 3


def test_prices_that_go_too_far_come_back_and_were_known_all_the_same():
    rng = np.random.default_rng(8)
    first, move = np.full(300, 0.5), rng.normal(0, 0.05, 300)
    points = points_of(first, first + move, first).with_columns(
        at=pl.concat_list(pl.col("open") + 2 * (pl.col("close") - pl.col("open")))
    )

    row = known_moves(points, [1.0]).row(0, named=True)

    assert (row["share"], row["slope"]) == (pytest.approx(1), pytest.approx(0.5))


def test_points_are_the_first_price_what_stood_then_and_the_close():
    tape = make_tape(
        [
            message(0, 0, {"a": None, "b": None}, market_key="m"),
            message(1, HOUR_S, {"a": 4000, "b": 6000}, market_key="m"),
            message(2, 2 * HOUR_S, {"a": 4500, "b": 5500}, market_key="m"),
            message(3, 2.5 * HOUR_S, {"a": None, "b": None}, market_key="m"),
            message(4, 3 * HOUR_S, {"x": 10_000}, market_key="n"),
            message(5, 3.9 * HOUR_S, {"a": 5000, "b": 5000}, market_key="m"),
            message(6, 5 * HOUR_S, {"a": 9000, "b": 1000}, market_key="m", in_running=True),
        ],
        {1: 4 * HOUR_S},
    )

    points = price_points(tape, Window(end_rule="pre_match"), [3.5, 3.0, 2.0, 1.0])

    # it went in-running an hour after its kickoff: that is its close
    row = points.row(by_predicate=pl.col("side") == "a", named=True)
    assert (row["open"], row["close"], row["n_sides"]) == (0.4, 0.5, 2)
    assert row["at"] == [0.4, 0.45, 0.45, 0.5]
    assert points["market_key"].to_list() == ["m", "m", "n"]


def test_a_market_that_opens_late_had_not_moved_and_one_suspended_at_the_close_is_left_out():
    tape = make_tape(
        [
            message(0, 0, {"a": 4000, "b": 6000}, market_key="m"),
            message(1, 3 * HOUR_S, {"a": 3000, "b": 7000}, market_key="late"),
            message(2, 3.5 * HOUR_S, {"a": 5000, "b": 5000}, market_key="late"),
            message(3, 3.5 * HOUR_S, {"a": None, "b": None}, market_key="m"),
        ],
        {1: 4 * HOUR_S},
    )

    points = price_points(tape, Window(), [2.0, 1.0])
    table = known_moves(points, [2.0, 1.0])

    assert points["market_key"].unique().to_list() == ["late"]
    assert points["at"].to_list() == [[None, 0.3], [None, 0.7]]
    assert table["opened"].to_list() == [0, 1]
    assert table["share"].to_list() == [None, None]


def test_a_window_chooses_markets():
    tape = make_tape([message(0, 0, {"a": 4000, "b": 6000}, market_key=key) for key in ("m|1", "n|1")], {1: HOUR_S})

    assert price_points(tape, Window(market_allowlist=("n",)))["market_key"].to_list() == ["n|1", "n|1"]
    assert price_points(tape, Window(market_allowlist=("z",))).is_empty()


@pytest.mark.parametrize(
    ("hours", "said"), [([], "none"), ([1, 0], "0"), ([-2], "-2"), ([float("nan")], "nan"), (["x"], "'x'")]
)
def test_hours_that_are_none_are_refused(hours, said):
    with pytest.raises(StatisticsError, match=f"not {said}"):
        known_moves(points_of(*fair(np.random.default_rng(9), 5)), hours)
