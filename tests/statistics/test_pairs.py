from math import sqrt

import numpy as np
import pytest
from scipy import linalg, stats

from clvlab.statistics import Clusters, paired_difference


def pair(first, second, counts=None):
    sums = np.column_stack([first, second]).astype(float)
    return Clusters(sums, np.ones_like(sums) if counts is None else counts, sums**2)


def test_with_one_value_a_fixture_it_is_the_paired_t():
    rng = np.random.default_rng(1)
    first, second = rng.normal(3, 5, 30), rng.normal(1, 5, 30)

    found = paired_difference(pair(first, second))

    apart = first - second
    assert found.difference == pytest.approx(apart.mean())
    assert found.standard_error == pytest.approx(apart.std(ddof=1) / sqrt(30))


def by_matrices(sums_of, sizes):
    """CR2 and its degrees of freedom of a difference of two means, as a regression on two constants."""
    fixture = np.concatenate([np.repeat(np.arange(len(n)), n) for n in sizes])
    column = np.concatenate([np.full(n.sum(), k) for k, n in enumerate(sizes)])
    x = np.eye(2)[column]
    y, bread, contrast = np.concatenate(sums_of), np.linalg.inv(x.T @ x), np.array([1.0, -1.0])
    rest = np.eye(len(y)) - x @ bread @ x.T
    beta = bread @ x.T @ y
    variance, spread = 0.0, []
    for name in np.unique(fixture):
        own = fixture == name
        root = np.real(linalg.fractional_matrix_power(rest[np.ix_(own, own)], -0.5))
        weights = root @ x[own] @ bread @ contrast
        variance += float(weights @ (y - x @ beta)[own]) ** 2
        spread.append(rest[own].T @ weights)
    values = np.linalg.eigvalsh(np.column_stack(spread).T @ np.column_stack(spread))
    return float(beta @ contrast), sqrt(variance), values.sum() ** 2 / (values**2).sum()


@pytest.mark.parametrize("seed", range(4))
def test_error_and_interval_are_those_of_the_matrices(seed):
    rng = np.random.default_rng(seed)
    sizes = [rng.integers(0, 5, 9) + np.arange(9) % 2 for _ in range(2)]
    values = [rng.normal(k, 3, n.sum()) for k, n in enumerate(sizes)]
    sums = np.column_stack([np.bincount(np.repeat(np.arange(9), n), v, 9) for n, v in zip(sizes, values, strict=True)])

    found = paired_difference(Clusters(sums, np.column_stack(sizes).astype(float), sums**2))

    difference, error, degrees = by_matrices(values, sizes)
    assert (found.difference, found.standard_error) == pytest.approx((difference, error))
    assert (found.low, found.high) == pytest.approx(stats.t.interval(0.95, degrees, difference, error))


def test_what_both_share_adds_no_error():
    rng = np.random.default_rng(2)
    shared = rng.normal(0, 100, 40)
    first, second = shared + rng.normal(2, 1, 40), shared

    found = paired_difference(pair(first, second))

    assert found.low > 1
    assert found.standard_error < 1


def test_the_interval_holds_the_true_difference_about_as_often_as_it_says():
    rng = np.random.default_rng(3)
    rounds = 300

    covered = 0
    for _ in range(rounds):
        counts = rng.integers(0, 5, (40, 2)).astype(float)
        effect = rng.normal(0, 20, (40, 1)) + rng.normal(0, 10, (40, 2)) + [4, 0]
        sums = counts * effect + rng.normal(0, 10, (40, 2)) * np.sqrt(counts)
        found = paired_difference(
            Clusters(sums, counts, sums**2),
        )
        covered += found.low <= 4 <= found.high

    assert 0.91 <= covered / rounds <= 0.985


def test_an_agent_without_values_has_no_difference():
    found = paired_difference(pair([1, 2], [0, 0], np.array([[1.0, 0.0], [1.0, 0.0]])))

    assert found.difference is None


def test_an_agent_beside_itself_differs_by_nothing():
    found = paired_difference(pair([1, 5, 2, 8, 3, 1], [1, 5, 2, 8, 3, 1]))

    assert (found.difference, found.t, found.low, found.high) == (0, None, 0, 0)
