import numpy as np
import polars as pl
import pytest

from clvlab.statistics import cluster_mean, concentration


def sized(*sizes):
    return pl.Series([cluster for cluster, size in enumerate(sizes) for _ in range(size)], dtype=pl.Int64)


@pytest.mark.parametrize(
    ("sizes", "effective", "largest", "top"),
    [
        ((7,), 1, 1, 1),
        ((3, 3, 3, 3), 4, 1 / 4, 1),
        ((1, 1, 1, 1, 1, 1), 6, 1 / 6, 5 / 6),
        ((9, 1), 100 / 82, 9 / 10, 1),
        ((1, 2, 3, 4, 5, 6, 7), 28**2 / 140, 7 / 28, 25 / 28),
    ],
)
def test_equal_clusters_count_in_full_and_a_large_one_takes_from_them(sizes, effective, largest, top):
    found = concentration(sized(*sizes))

    assert found.effective_clusters == pytest.approx(effective)
    assert (found.largest_share, found.top_share) == pytest.approx((largest, top))


def test_without_values_there_is_no_spread():
    found = concentration(sized())

    assert (found.effective_clusters, found.largest_share, found.top_share) == (None, None, None)


def test_means_of_whole_clusters_are_as_uncertain_as_that_many_equal_ones():
    """Every value of a cluster is one draw: the variance of the mean is that of one draw over the effective clusters."""
    sizes, rng = np.array([40, 20, 10, 5, 5, 5, 5, 5, 3, 2]), np.random.default_rng(0)

    means = (rng.normal(0, 1, (20_000, sizes.size)) * sizes).sum(1) / sizes.sum()

    assert 1 / means.var() == pytest.approx(concentration(sized(*sizes)).effective_clusters, rel=0.03)


def test_equal_clusters_whose_values_agree_are_the_effective_sample_size_too():
    values, clusters = np.repeat(np.random.default_rng(1).normal(0, 1, 200), 5), sized(*[5] * 200)

    found = cluster_mean(pl.Series(values), clusters)

    assert found.effective_n == pytest.approx(concentration(clusters).effective_clusters, rel=0.01)
