from math import sqrt

import numpy as np
import pytest

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
    for seed in range(rounds):
        counts = rng.integers(0, 5, (40, 2)).astype(float)
        effect = rng.normal(0, 20, (40, 1)) + rng.normal(0, 10, (40, 2)) + [4, 0]
        sums = counts * effect + rng.normal(0, 10, (40, 2)) * np.sqrt(counts)
        found = paired_difference(Clusters(sums, counts, sums**2), resamples=300, seed=seed)
        covered += found.low <= 4 <= found.high

    assert 0.91 <= covered / rounds <= 0.985


def test_an_agent_without_values_has_no_difference():
    found = paired_difference(pair([1, 2], [0, 0], np.array([[1.0, 0.0], [1.0, 0.0]])))

    assert found.difference is None


def test_an_agent_beside_itself_differs_by_nothing():
    found = paired_difference(pair([1, 5, 2, 8, 3, 1], [1, 5, 2, 8, 3, 1]))

    assert (found.difference, found.t, found.low) == (0, None, None)
