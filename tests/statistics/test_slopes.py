import numpy as np
import polars as pl
import pytest
from scipy.linalg import fractional_matrix_power

from clvlab.statistics import MIN_CLUSTERS, cluster_mean, cluster_slope, explained_share
from tests.length import few, length


def simulated(rng, *, clusters=40, slope=0.0, most=8, shared=0.5):
    """Values in clusters of many sizes, whose errors are shared in part; ``x`` spreads differently in each cluster."""
    sizes = rng.integers(1, most + 1, clusters)
    ids = np.repeat(np.arange(clusters), sizes)
    x = rng.normal(0, 1, ids.size) * rng.uniform(0.3, 2, clusters)[ids] + rng.normal(0, 0.5, clusters)[ids]
    noise = np.sqrt(shared) * rng.normal(0, 1, clusters)[ids] + np.sqrt(1 - shared) * rng.normal(0, 1, ids.size)
    return pl.Series(x), pl.Series(slope * x + noise), pl.Series(ids)


def by_matrices(x, y, ids):
    """CR2 and the degrees of freedom of Bell and McCaffrey, written with whole matrices."""
    x, y, ids = (one.to_numpy() for one in (x, y, ids))
    design = x[:, None]
    bread = 1 / float(x @ x)
    hat = bread * design @ design.T
    residuals = y - hat @ y
    columns, variance = [], 0.0
    for cluster in np.unique(ids):
        own = np.flatnonzero(ids == cluster)
        adjusted = fractional_matrix_power(np.eye(own.size) - hat[np.ix_(own, own)], -0.5).real @ design[own] * bread
        variance += float(adjusted[:, 0] @ residuals[own]) ** 2
        columns.append((np.eye(ids.size) - hat)[:, own] @ adjusted[:, 0])
    gram = np.column_stack(columns)
    eigenvalues = np.linalg.eigvalsh(gram.T @ gram)
    return float(x @ y) * bread, np.sqrt(variance), eigenvalues.sum() ** 2 / (eigenvalues**2).sum()


def test_slope_error_and_degrees_are_those_of_the_matrices():
    for seed in range(5):
        data = simulated(np.random.default_rng(seed), clusters=9, slope=0.7)

        found = cluster_slope(*data)

        assert (found.slope, found.standard_error, found.degrees_of_freedom) == pytest.approx(by_matrices(*data))


def test_a_mean_is_the_slope_on_a_constant():
    _, y, ids = simulated(np.random.default_rng(1))

    slope, mean = cluster_slope(pl.Series(np.ones(len(y))), y, ids), cluster_mean(y, ids)

    assert (slope.slope, slope.standard_error, slope.t) == pytest.approx((mean.mean, mean.standard_error, mean.t))
    assert (slope.low, slope.high) == pytest.approx((mean.low, mean.high))
    assert (slope.n, slope.n_clusters) == (mean.n, mean.n_clusters)


def test_mirrored_rows_add_nothing_to_what_is_known():
    x, y, ids = simulated(np.random.default_rng(2), slope=-0.3)

    once, mirrored = (cluster_slope(pl.concat([x, s * x]), pl.concat([y, s * y]), pl.concat([ids, ids])) for s in (1, -1))

    assert mirrored == once
    assert mirrored.t == pytest.approx(cluster_slope(x, y, ids).t)


@few(1)
@pytest.mark.parametrize("clusters", [8, 40])
def test_the_interval_holds_the_slope_about_as_often_as_it_says_and_the_test_is_of_its_size(clusters):
    rng = np.random.default_rng(3)
    rounds = length(150, 600)

    held = [cluster_slope(*simulated(rng, clusters=clusters, slope=-0.4)) for _ in range(rounds)]
    null = [cluster_slope(*simulated(rng, clusters=clusters)).p_value for _ in range(rounds)]

    error = 3 * np.sqrt(0.05 * 0.95 / rounds)
    assert abs(np.mean([one.low <= -0.4 <= one.high for one in held]) - 0.95) <= error
    assert abs(np.mean(np.array(null) <= 0.05) - 0.05) <= error


def test_few_clusters_have_no_interval_and_nothing_has_no_slope():
    x, y, ids = simulated(np.random.default_rng(4), clusters=MIN_CLUSTERS - 1)
    none = pl.Series([], dtype=pl.Float64)

    few, empty, flat = cluster_slope(x, y, ids), cluster_slope(none, none, none), cluster_slope(x * 0, y, ids)

    assert few.slope is not None
    assert (few.low, few.p_value) == (None, None)
    assert (empty.slope, empty.n, flat.slope, flat.n_clusters) == (None, 0, None, 0)


def test_nulls_of_either_are_left_out():
    x, y = pl.Series([1.0, None, 2.0]), pl.Series([2.0, 5.0, None])

    found = cluster_slope(x, y, pl.Series([1, 2, 3]))

    assert (found.slope, found.n) == (2, 1)


def test_a_perfect_line_has_an_interval_of_a_point_and_explains_all():
    x, ids = pl.Series([1.0, 2.0, 3.0, -1.0, 4.0, 2.0]), pl.Series(range(6))

    line, share = cluster_slope(x, 3 * x, ids), explained_share(x, 3 * x, ids)

    assert (line.low, line.high, line.t) == (3, 3, None)
    assert (share.share, share.low, share.high) == pytest.approx((1, 1, 1))


def test_the_interval_of_a_share_holds_it_about_as_often_as_it_says():
    rng = np.random.default_rng(5)
    rounds, truth = length(125, 500), 0.6

    covered = 0
    for _ in range(rounds):
        ids = np.repeat(np.arange(60), rng.integers(1, 6, 60))
        scale = rng.uniform(0.5, 1.5, 60)[ids]
        x = rng.normal(0, 1, ids.size) * scale
        y = np.sqrt(truth) * x + np.sqrt(1 - truth) * rng.normal(0, 1, ids.size) * scale
        found = explained_share(pl.Series(x), pl.Series(y), pl.Series(ids))
        covered += found.low <= truth <= found.high

    assert abs(covered / rounds - 0.945) <= length(0.06, 0.035)


def test_a_share_of_nothing_is_none():
    x, y, ids = simulated(np.random.default_rng(6), clusters=4)

    assert explained_share(x * 0, y, ids).share is None
    assert explained_share(x, y * 0, ids).share is None
    assert explained_share(x, y, ids).low is None
