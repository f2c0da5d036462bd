import numpy as np
import polars as pl
import pytest
from scipy import stats

from clvlab.errors import StatisticsError
from clvlab.statistics import BoundedClusters, Clusters, cluster_mean, family_of, power
from clvlab.statistics.power import POWER, MeanErrors, alone, mean_errors, powers, ruler, smallest_edge
from tests.length import few, length
from tests.simulations.powers import Shape, after_pilot, at_known_error, family_at_announced, found_in_season, season


def normal(fixtures, error, seed=0):
    """A value a fixture, whose mean has the error exactly."""
    values = np.random.default_rng(seed).normal(0, 1, fixtures)
    values = (values - values.mean()) / values.std(ddof=1) * error * np.sqrt(fixtures)
    return pl.Series(values), pl.Series(range(fixtures))


def one_by_one(error, degrees, n, edge, level=0.95):
    """The fewest fixtures by trying every number, as the formula is written."""
    m = 5
    while True:
        v = max((degrees + 1) * m / n - 1, 1)
        if n * ((stats.t.ppf((1 + level) / 2, v) + stats.t.ppf(POWER, v)) * error / edge) ** 2 <= m * (1 + 1e-12):
            return m
        m += 1


@pytest.mark.parametrize("seed", range(length(20, 200)))
def test_bisection_finds_what_trying_every_number_finds(seed):
    rng = np.random.default_rng(seed)
    n, error = int(rng.integers(5, 80)), float(rng.lognormal(1, 1))
    degrees, edge = float(rng.uniform(1, n - 1)), error * float(rng.uniform(0.8, 8))
    level = float(rng.uniform(0.5, 0.99))
    threshold = stats.norm.ppf((1 + level) / 2)
    known = MeanErrors(*(np.array([one]) for one in (error, degrees, degrees, float(n))), threshold)

    assert powers(known, [edge])[0].needed == one_by_one(error, degrees, n, edge, level)


def test_power_now_is_that_of_the_noncentral_t():
    found = power(*normal(60, 18.0), edge=34.0)

    away = stats.nct.sf(stats.t.ppf(0.975, 59), 59, 34 / 18)
    assert found.power == pytest.approx(away)
    assert found.n_clusters == 60


def test_what_is_missing_is_what_is_needed_less_what_there_is():
    few, enough = (power(*normal(60, 18.0), edge=edge) for edge in (34.0, 200.0))

    assert (few.more, enough.more) == (few.needed - 60, 0)
    assert enough.power > 0.99
    assert few.more_low < few.more < few.more_high


def test_the_range_is_that_of_the_variance_where_residuals_say_no_more():
    known = alone(_sums(normal(40, 10.0)[0]))
    by_hand = MeanErrors(known.errors, known.degrees, known.degrees, known.n_clusters, known.threshold)

    found = powers(by_hand, [20.0])[0]

    least, most = (10 * np.sqrt(39 / stats.chi2.ppf(tail, 39)) for tail in (0.975, 0.025))
    assert found.more_low == max(0, one_by_one(least, 39, 40, 20) - 40)
    assert found.more_high == one_by_one(most, 39, 40, 20) - 40


def test_fat_tails_widen_the_range_and_nothing_else():
    values, ids = normal(60, 10.0)
    fat = pl.Series(np.array([*[0.0] * 58, 1.0, -1.0]))
    fat = fat / cluster_mean(fat, ids).standard_error * 10

    even, uneven = (power(one, ids, edge=15.0) for one in (values, fat))

    assert (even.needed, even.power) == (uneven.needed, pytest.approx(uneven.power))
    assert uneven.more_high > 2 * even.more_high


def test_the_observed_mean_plays_no_part():
    values, ids = normal(60, 18.0)

    assert power(values, ids, edge=34) == power(values + 500, ids, edge=34)
    assert ruler(alone(_sums(values))) == ruler(alone(_sums(values + 500)))


def _sums(values):
    return Clusters(*(np.array(one)[:, None] for one in (values, np.ones(len(values)), values**2)))


@pytest.mark.parametrize("error", [0.003, 0.4, 18.0, 47.3, 900.0])
def test_a_ruler_has_three_edges_below_what_shows_and_one_above(error):
    known = alone(_sums(normal(60, error)[0]))

    marks = ruler(known)

    assert [one.more > 0 for one in marks] == [True, True, True, False]
    assert marks[2].edge < smallest_edge(known) <= marks[3].edge
    assert {f"{one.edge:e}"[0] for one in marks} <= {"1", "2", "5"}
    assert power(*normal(60, error), edge=smallest_edge(known) * 1.0001).needed <= 60


@pytest.mark.parametrize("edge", [0, -3, -0.0, float("nan"), float("inf"), "34", True, None, [34]])
def test_an_edge_that_is_none_is_refused_by_its_value(edge):
    with pytest.raises(StatisticsError, match="edge is"):
        power(*normal(60, 18.0), edge=edge)


def test_an_edge_that_no_number_of_fixtures_shows_is_refused():
    with pytest.raises(StatisticsError, match="more than 1,000,000,000 fixtures"):
        power(*normal(60, 18.0), edge=1e-6)


@pytest.mark.parametrize("level", [1e-12, 0.5, 1 - 1e-9, 1 - 2**-53])
@pytest.mark.parametrize("fixtures", [5, 60])
def test_every_level_and_every_concentration_has_a_ruler(level, fixtures):
    for values in (normal(fixtures, 18.0)[0], pl.Series([1e6, *[0.001 * at for at in range(fixtures - 1)]])):
        marks = ruler(alone(_sums(values), level))

        assert marks[-1].more == 0
        assert all(one.more_low <= one.more <= one.more_high for one in marks)


@pytest.mark.parametrize("fixtures", [0, 1, 4])
def test_few_fixtures_have_no_power(fixtures):
    values = pl.Series(range(fixtures), dtype=pl.Float64)

    with pytest.raises(StatisticsError, match=rf"5 fixtures or more, and {fixtures} have"):
        power(values, pl.Series(range(fixtures), dtype=pl.Int64), edge=3)


def test_values_that_never_vary_have_no_power():
    with pytest.raises(StatisticsError, match="same mean"):
        power(pl.Series([3.0] * 8), pl.Series(range(8)), edge=3)


def test_numbers_of_other_libraries_are_edges():
    assert power(*normal(60, 18.0), edge=np.float32(34)) == power(*normal(60, 18.0), edge=34)


HELD = [Shape(sizes, errors) for sizes in ("equal", "gamma") for errors in ("normal", "t3", "autocorrelated")]


@few(3)
@pytest.mark.parametrize("shape", HELD, ids=str)
@pytest.mark.parametrize("fixtures", [60, 200])
def test_power_at_what_is_announced_is_eighty_percent(shape, fixtures):
    rounds = length(300, 4_000)

    found, needed = at_known_error(shape, fixtures, 4, rounds)

    slack = 0 if rounds >= 4_000 else 2 * np.sqrt(0.16 / rounds)
    assert 0.77 - slack <= found <= 0.84 + slack, needed


@few(1)
@pytest.mark.parametrize("fixtures", [60, 200])
def test_an_error_of_its_own_costs_little_where_fixtures_are_even(fixtures):
    found, held = after_pilot(Shape("equal", "normal"), fixtures, 1.5, 400)

    assert 0.74 <= found <= 0.86
    assert held >= 0.92


def test_skewed_fixtures_are_where_the_method_does_not_hold():
    """The power that is announced from a sample without the rare gain is too high: docs say so."""
    assert after_pilot(Shape("equal", "lognormal"), 20, 4, 300)[0] < 0.7


@few(1)
@pytest.mark.parametrize(("points", "correlation"), [(1, 0.0), (9, 0.95), (9, 0.0), (50, 0.0)])
def test_the_threshold_of_a_family_takes_the_place_of_students(points, correlation):
    found, needed = family_at_announced(points, correlation, length(150, 1_000))

    assert 0.7 <= found <= 0.9, needed


def test_a_family_needs_more_the_more_points_it_has():
    needed = [family_at_announced(points, 0.0, 1)[1] for points in (1, 9, 50)]

    assert needed == sorted(needed)
    assert needed[2] > 2 * needed[0]


@few(1)
@pytest.mark.parametrize(
    ("points", "correlation", "low", "high"),
    [(50, 0.95, 0.35, 0.55), pytest.param(50, 0.5, 0.1, 0.25, marks=pytest.mark.long), (50, 0, 0, 0.15)],
)
def test_power_in_a_search_at_the_error_of_a_season_depends_on_correlation(points, correlation, low, high):
    assert low <= found_in_season(points, correlation, 200)[0] <= high


@pytest.mark.parametrize("earlier", [0, 40])
def test_a_threshold_is_the_score_whose_p_value_is_alpha(earlier):
    rng = np.random.default_rng(3)
    sums, ones = rng.normal(0, 10, (60, 12)), np.ones((60, 12))
    sums[:, 0] += 3.7
    clusters = BoundedClusters(sums, ones, sums**2, -50 * ones, 50 * ones)
    found = family_of(clusters, earlier=earlier)
    top = int(np.nanargmax(found.scores))

    threshold = found.threshold(float(found.p_values[top]))

    assert threshold == pytest.approx(found.scores[top], abs=0.05)
    assert found.threshold(0.01) > found.threshold(0.05) > found.threshold(0.3)


def test_a_family_without_a_judged_point_has_no_threshold():
    ones = np.ones((3, 2))

    assert np.isnan(family_of(BoundedClusters(ones, ones, ones, -ones, ones)).threshold(0.05))


def test_errors_without_clusters_are_missing():
    found = mean_errors(Clusters(*(np.zeros((0, 1)),) * 3), 1.96)

    assert np.isnan(found.errors[0])
    assert found.n_clusters[0] == 0


@few(1)
@pytest.mark.parametrize(("points", "correlation"), [(1, 0.0), (9, 0.95), (9, 0.0), (50, 0.5)])
def test_power_now_in_a_family_is_that_of_its_draws(points, correlation):
    rounds, fixtures = length(150, 2_000), 300
    family = family_of(season(np.random.default_rng(7), points, correlation, fixtures), resamples=4_999)
    n, degrees = np.array([float(fixtures)]), np.array([fixtures - 1.0])
    known = MeanErrors(np.array([18.0]), degrees, degrees, n, family.threshold(0.05), 1 / n, -family.losses[:1] / n)

    found, _ = found_in_season(points, correlation, rounds)

    assert powers(known, [34.0])[0].power == pytest.approx(found, abs=0.03 + 3.3 * np.sqrt(0.25 / rounds))
