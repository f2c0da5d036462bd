from math import sqrt

import numpy as np
import polars as pl
import pytest

from clvlab.statistics import (
    MIN_CLUSTERS,
    cluster_errors,
    cluster_mean,
    estimates,
    estimates_together,
    group_means,
    resample,
    sum_by_cluster,
)


def simulated(rng, *, fixtures=60, mean=0.0, between=20.0, within=30.0):
    """Values with a normal part per fixture, and between 1 and 20 decisions a fixture."""
    sizes = rng.integers(1, 21, fixtures)
    ids = np.repeat(np.arange(fixtures), sizes)
    values = mean + rng.normal(0, between, fixtures)[ids] + rng.normal(0, within, ids.size)
    return pl.Series(values), pl.Series(ids)


def by_hand(values, clusters):
    """CR1 of the mean, written with loops."""
    members = {}
    for value, cluster in zip(values, clusters, strict=True):
        members.setdefault(cluster, []).append(value)
    n, g = len(values), len(members)
    mean = sum(values) / n
    residuals = sum(sum(value - mean for value in own) ** 2 for own in members.values())
    return mean, sqrt(g / (g - 1) * residuals) / n


def test_mean_and_error_are_those_of_the_formula():
    values, clusters = simulated(np.random.default_rng(1))

    found = cluster_mean(values, clusters, resamples=10)

    mean, error = by_hand(values.to_list(), clusters.to_list())
    assert found.mean == pytest.approx(mean)
    assert found.standard_error == pytest.approx(error)
    assert found.t == pytest.approx(mean / error)


def test_clusters_of_one_give_the_error_of_independent_values():
    values = pl.Series([1.0, 4.0, -2.0, 7.0, 3.0, 5.0])

    found = cluster_mean(values, pl.Series(range(6)))

    assert found.standard_error == pytest.approx(values.std() / sqrt(6))
    assert found.design_effect == pytest.approx(1)
    assert found.effective_n == pytest.approx(6)


def test_copies_of_a_decision_add_nothing_to_what_is_known():
    values, clusters = pl.Series([1.0, 4.0, -2.0, 7.0, 3.0, 5.0]), pl.Series(range(6))

    once, tenfold = (cluster_mean(pl.concat([values] * n), pl.concat([clusters] * n)) for n in (1, 10))

    assert tenfold.t == pytest.approx(once.t)
    assert (tenfold.low, tenfold.high) == pytest.approx((once.low, once.high))
    assert tenfold.effective_n == pytest.approx(once.effective_n, rel=0.2)


def test_the_same_seed_gives_the_same_interval_and_another_seed_another():
    values, clusters = simulated(np.random.default_rng(2))

    one, again, other = (cluster_mean(values, clusters, seed=seed, resamples=500) for seed in (1, 1, 2))

    assert one == again
    assert one.low != other.low


def test_resamples_drawn_in_blocks_are_those_drawn_at_once(monkeypatch):
    sums, _, _ = sum_by_cluster(*simulated(np.random.default_rng(3), fixtures=20))
    whole = resample(sums, 50).means

    monkeypatch.setattr("clvlab.statistics.clusters._CELLS", 100)

    # The same draws; a matrix product of another shape may round its sums otherwise.
    assert np.allclose(resample(sums, 50).means, whole, rtol=1e-12, atol=0)


def test_what_is_estimated_together_is_to_the_bit_what_each_gives_alone():
    rng = np.random.default_rng(4)
    parts = [sum_by_cluster(*simulated(rng, fixtures=fixtures))[0] for fixtures in (30, 0, 12, 30, 3)]

    together = estimates_together(parts, resamples=300, seed=7)

    assert together == [estimates(part, resamples=300, seed=7) for part in parts]


def test_a_resample_is_the_ratio_of_its_sums():
    sums, _, _ = sum_by_cluster(pl.Series([1.0, 2.0, 6.0]), pl.Series([1, 1, 2]))

    means = set(np.round(resample(sums, 200).means[:, 0], 9))

    assert means == {1.5, 3.0, 6.0}


@pytest.mark.parametrize("fixtures", [0, 1, 2, MIN_CLUSTERS - 1])
def test_few_fixtures_have_no_interval(fixtures):
    found = cluster_mean(pl.Series(range(fixtures), dtype=pl.Int64), pl.Series(range(fixtures), dtype=pl.Int64))

    assert (found.low, found.high, found.p_value) == (None, None, None)
    assert found.n_clusters == fixtures


def test_values_that_never_vary_have_no_t_and_an_interval_of_a_point():
    found = cluster_mean(pl.Series([3] * 12), pl.Series([1, 2, 3, 4, 5, 6] * 2))

    assert (found.mean, found.low, found.high) == (3, 3, 3)
    assert found.t is None


def test_nulls_are_left_out():
    found = cluster_mean(pl.Series([1, None, 3]), pl.Series([1, 2, 3]))

    assert (found.mean, found.n, found.n_clusters) == (2, 2, 2)


def test_groups_have_the_estimates_they_have_alone():
    values, clusters = simulated(np.random.default_rng(4))
    groups = pl.Series(["a", "b", None] * values.len())[: values.len()]

    table = group_means(values, clusters, groups)

    assert table["group"].to_list() == [None, "a", "b"]
    for row in table.iter_rows(named=True):
        own = groups.eq_missing(row["group"])
        alone = cluster_mean(values.filter(own), clusters.filter(own))
        assert (row["n"], row["n_clusters"]) == (alone.n, alone.n_clusters)
        assert (row["mean"], row["t"]) == pytest.approx((alone.mean, alone.t))
        assert row["low"] == pytest.approx(alone.low, abs=2.0)


def test_no_group_gives_an_empty_table():
    table = group_means(*(pl.Series([], dtype=dtype) for dtype in (pl.Int64, pl.Int64, pl.String)))

    assert table.is_empty()
    assert table.columns == ["group", "n", "n_clusters", "mean", "low", "high", "t"]


@pytest.mark.parametrize("fixtures", [20, 60])
def test_the_interval_holds_the_truth_about_as_often_as_it_says(fixtures):
    rng = np.random.default_rng(5)
    rounds, truth = 600, 12.0

    covered = naive = 0
    for number in range(rounds):
        values, clusters = simulated(rng, fixtures=fixtures, mean=truth)
        found = cluster_mean(values, clusters, resamples=400, seed=number)
        covered += found.low <= truth <= found.high
        naive += abs(found.mean - truth) <= 1.96 * values.std() / sqrt(values.len())

    # 95 % is promised; three standard errors of 600 rounds are 2.7 points
    assert 0.92 <= covered / rounds <= 0.98
    assert naive / rounds < 0.80


def test_p_values_of_no_edge_are_spread_evenly():
    rng = np.random.default_rng(6)

    p_values = [cluster_mean(*simulated(rng, fixtures=30), resamples=400).p_value for _ in range(600)]

    assert 0.02 <= np.mean(np.array(p_values) <= 0.05) <= 0.08
    assert 0.44 <= np.mean(np.array(p_values) <= 0.5) <= 0.56
    means, errors = cluster_errors(sum_by_cluster(pl.Series([1.0]), pl.Series([1]))[0])
    assert (means[0], bool(np.isnan(errors[0]))) == (1.0, True)
