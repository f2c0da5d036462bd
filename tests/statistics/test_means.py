from math import sqrt

import numpy as np
import polars as pl
import pytest
from scipy import linalg, stats

from clvlab.statistics import (
    MIN_CLUSTERS,
    BoundedClusters,
    Clusters,
    cluster_errors,
    cluster_mean,
    group_means,
    mean_skewness,
    sum_by_cluster,
)
from tests.length import length
from tests.simulations import means


def simulated(rng, *, fixtures=60, mean=0.0, between=20.0, within=30.0):
    """Values with a normal part per fixture, and between 1 and 20 decisions a fixture."""
    sizes = rng.integers(1, 21, fixtures)
    ids = np.repeat(np.arange(fixtures), sizes)
    values = mean + rng.normal(0, between, fixtures)[ids] + rng.normal(0, within, ids.size)
    return pl.Series(values), pl.Series(ids)


def by_matrices(values, clusters):
    """CR2 and its degrees of freedom for a regression on a constant, as Bell and McCaffrey write them: with matrices."""
    y, ids = np.array(values, dtype=float), np.array(clusters)
    x = np.ones((len(y), 1))
    bread = np.linalg.inv(x.T @ x)
    hat = x @ bread @ x.T
    rest = np.eye(len(y)) - hat
    beta = float((bread @ x.T @ y)[0])
    variance, spread = 0.0, []
    for name in np.unique(ids):
        own = ids == name
        inverse_root = np.real(linalg.fractional_matrix_power(rest[np.ix_(own, own)], -0.5))
        weights = (inverse_root @ x[own] @ bread)[:, 0]
        variance += float(weights @ (y - beta)[own]) ** 2
        spread.append(rest[own].T @ weights)
    spread = np.column_stack(spread)
    eigenvalues = np.linalg.eigvalsh(spread.T @ spread)
    return beta, sqrt(variance), eigenvalues.sum() ** 2 / (eigenvalues**2).sum()


@pytest.mark.parametrize("seed", range(5))
def test_mean_error_and_degrees_of_freedom_are_those_of_the_matrices(seed):
    rng = np.random.default_rng(seed)
    values, clusters = simulated(rng, fixtures=int(rng.integers(5, 15)))

    found = cluster_mean(values, clusters)

    mean, error, degrees = by_matrices(values, clusters)
    assert (found.mean, found.standard_error, found.degrees_of_freedom) == pytest.approx((mean, error, degrees))
    assert (found.low, found.high) == pytest.approx(stats.t.interval(0.95, degrees, mean, error))
    assert found.p_value == pytest.approx(stats.t.sf(mean / error, degrees))


def test_clusters_of_one_give_the_t_interval_of_independent_values():
    values = pl.Series([1.0, 4.0, -2.0, 7.0, 3.0, 5.0])

    found = cluster_mean(values, pl.Series(range(6)))

    assert found.standard_error == pytest.approx(values.std() / sqrt(6))
    assert found.degrees_of_freedom == pytest.approx(5)
    assert found.design_effect == pytest.approx(1)
    assert (found.effective_n, found.effective_clusters) == pytest.approx((6, 6))


def test_copies_of_a_decision_add_nothing_to_what_is_known():
    values, clusters = pl.Series([1.0, 4.0, -2.0, 7.0, 3.0, 5.0]), pl.Series(range(6))

    once, tenfold = (cluster_mean(pl.concat([values] * n), pl.concat([clusters] * n)) for n in (1, 10))

    assert tenfold.t == pytest.approx(once.t)
    assert (tenfold.low, tenfold.high) == pytest.approx((once.low, once.high))
    assert tenfold.effective_n == pytest.approx(once.effective_n, rel=0.2)


def test_one_large_fixture_leaves_few_degrees_of_freedom_and_few_effective_fixtures():
    rng = np.random.default_rng(3)
    sizes = [27, *[1] * 19]  # 59 % in one of twenty
    clusters = pl.Series(np.repeat(np.arange(20), sizes))

    found = cluster_mean(pl.Series(rng.normal(0, 1, clusters.len())), clusters)

    assert found.effective_clusters == pytest.approx(46**2 / (27**2 + 19))
    assert found.degrees_of_freedom < 3


@pytest.mark.parametrize("fixtures", [0, 1, 2, MIN_CLUSTERS - 1])
def test_few_fixtures_have_no_interval(fixtures):
    found = cluster_mean(pl.Series(range(fixtures), dtype=pl.Int64), pl.Series(range(fixtures), dtype=pl.Int64))

    assert (found.low, found.high, found.p_value) == (None, None, None)
    assert found.n_clusters == fixtures


@pytest.mark.parametrize("value", [3, 0.1, 1e9 / 3])
def test_values_that_never_vary_have_no_t_and_an_interval_of_a_point(value):
    found = cluster_mean(pl.Series([value] * 18), pl.Series([1, 2, 3, 4, 5, 6] * 2 + [1, 1, 1, 2, 2, 3]))

    assert found.mean == pytest.approx(value)
    assert found.low == found.high == found.mean
    assert found.t is None


def test_nulls_are_left_out():
    found = cluster_mean(pl.Series([1, None, 3]), pl.Series([1, 2, 3]))

    assert (found.mean, found.n, found.n_clusters) == (2, 2, 2)


def test_a_single_cluster_has_a_mean_and_no_error():
    found = cluster_errors(sum_by_cluster(pl.Series([1.0]), pl.Series([1]))[0])

    assert (found.means[0], bool(np.isnan(found.errors[0]))) == (1.0, True)


@pytest.mark.parametrize("clv_bps", [[1] + [0] * 48, [1] + [-1] * 48, [3, 1, 1]])
def test_of_a_single_cluster_nothing_is_left_over_to_round(clv_bps):
    found = cluster_mean(pl.Series(clv_bps), pl.Series([7] * len(clv_bps)))

    assert found.mean == pytest.approx(np.mean(clv_bps))
    assert (found.standard_error, found.t, found.design_effect, found.effective_n) == (None,) * 4


def test_nothing_has_no_error():
    found = cluster_mean(pl.Series([], dtype=pl.Float64), pl.Series([], dtype=pl.Int64))

    assert (found.mean, found.standard_error, found.t) == (None, None, None)


def test_equal_values_have_no_design_effect_whatever_rounding_leaves_of_them():
    found = cluster_mean(pl.Series([0.1] * 30), pl.Series(list(range(10)) * 3))

    assert (found.standard_error, found.design_effect, found.effective_n) == (0, None, None)


def test_the_squares_of_what_clusters_add_are_the_square_of_the_error():
    found = cluster_errors(Clusters(*(np.random.default_rng(1).uniform(1, 9, (3, 12, 4)))))

    assert (found.residuals**2).sum(0) == pytest.approx(found.errors**2)


def test_groups_have_the_estimates_they_have_alone():
    values, clusters = simulated(np.random.default_rng(4))
    groups = pl.Series(["a", "b", None] * values.len())[: values.len()]

    table = group_means(values, clusters, groups)

    assert table["group"].to_list() == [None, "a", "b"]
    for row in table.iter_rows(named=True):
        own = groups.eq_missing(row["group"])
        alone = cluster_mean(values.filter(own), clusters.filter(own))
        assert (row["n"], row["n_clusters"]) == (alone.n, alone.n_clusters)
        assert [row[name] for name in ("mean", "t", "low", "high")] == pytest.approx(
            [alone.mean, alone.t, alone.low, alone.high]
        )


def test_no_group_gives_an_empty_table():
    table = group_means(*(pl.Series([], dtype=dtype) for dtype in (pl.Int64, pl.Int64, pl.String)))

    assert table.is_empty()
    assert table.columns == ["group", "n", "n_clusters", "mean", "low", "high", "t"]


@pytest.mark.parametrize("fixtures", means.FIXTURES)
@pytest.mark.parametrize("sizes", means.SIZES)
@pytest.mark.parametrize("errors", ["normal", "t3"])
def test_the_interval_holds_the_truth_as_often_as_it_says(errors, sizes, fixtures):
    rounds = length(500, 2_000)

    held = means.coverage(means.drawn(rounds, fixtures, sizes, errors))

    # at least 92 % is promised where errors are symmetric, less what the rounds are uncertain by
    assert held >= 0.92 - 2 * sqrt(0.92 * 0.08 / rounds)


def test_skewed_values_get_less_than_is_said_and_the_tables_say_how_much():
    held = means.coverage(means.drawn(500, 30, "pareto", "lognormal"))

    assert 0.80 <= held <= 0.92


@pytest.mark.parametrize(("skewness", "above", "below"), [(-0.12, 0.067, 0.038), (0.12, 0.038, 0.067), (-0.3, 0.09, 0.023)])
def test_errors_to_either_side_are_what_docs_state_of_a_skewed_mean(skewness, above, below):
    assert means.one_sided(10_000, skewness) == pytest.approx((above, below), abs=0.001)


def test_the_skewness_of_a_mean_is_seen_or_possible():
    ones = np.ones((100, 1))
    even, favourites = (BoundedClusters(ones * 0, ones, ones * 0, -p * ones, (1 - p) * ones) for p in (0.5, 0.9))
    rare = np.where(np.arange(100)[:, None] == 7, -0.4, 0.01)
    shown = BoundedClusters(rare, ones, rare**2, -0.5 * ones, 0.5 * ones)

    assert mean_skewness(even)[0] == 0
    assert mean_skewness(favourites)[0] == pytest.approx(-0.8 / np.sqrt(0.09 * 100))
    assert mean_skewness(shown)[0] == pytest.approx(stats.skew(rare)[0] / 10)
    assert np.isnan(mean_skewness(BoundedClusters(*np.zeros((5, 3, 1))))[0])


def test_decisions_as_if_independent_would_be_far_off():
    rng, rounds, truth = np.random.default_rng(5), 200, 12.0

    naive = sum(
        abs(values.mean() - truth) <= 1.96 * values.std() / sqrt(values.len())
        for values, _ in (simulated(rng, mean=truth) for _ in range(rounds))
    )

    assert naive / rounds < 0.80
