from itertools import product

import numpy as np
import pytest

from clvlab.statistics import Clusters, cluster_errors, sign_flip_p_values
from clvlab.statistics.clusters import side_by_side
from tests.length import length
from tests.simulations import means


def column(sums, counts=None):
    sums = np.array(sums, dtype=float)[:, None]
    counts = np.ones_like(sums) if counts is None else np.array(counts, dtype=float)[:, None]
    return Clusters(sums, counts, sums**2)


def by_hand(clusters):
    """Every sign of every cluster, each t taken anew."""

    def t(signs):
        flipped = cluster_errors(Clusters(clusters.sums * np.array(signs)[:, None], clusters.counts, clusters.squares))
        return abs(flipped.means[0]) / flipped.errors[0] if flipped.errors[0] > 0 else np.inf * (flipped.means[0] != 0)

    size = len(clusters.sums)
    observed = t([1] * size)
    return np.mean([t(signs) >= observed * (1 - 1e-9) for signs in product([1, -1], repeat=size)])


@pytest.mark.parametrize("seed", range(4))
def test_below_fifteen_fixtures_all_signs_are_tried(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(5, 11))
    clusters = column(rng.normal(1, 2, size), rng.integers(1, 6, size))

    assert sign_flip_p_values(clusters)[0] == pytest.approx(by_hand(clusters))


def test_with_five_fixtures_no_p_is_below_a_sixteenth():
    assert sign_flip_p_values(column([9, 8, 9, 8, 9]))[0] == 0.0625
    assert np.isnan(sign_flip_p_values(column([9, 8, 9, 8]))[0])


def test_drawn_signs_come_near_to_all_signs(monkeypatch):
    clusters = column(np.random.default_rng(1).normal(1.2, 2, 12))
    exact = sign_flip_p_values(clusters)[0]

    monkeypatch.setattr("clvlab.statistics.permutation.ENUMERATED_BELOW", 0)

    assert sign_flip_p_values(clusters, resamples=20_000)[0] == pytest.approx(exact, abs=0.01)


def test_the_sign_of_all_values_changes_nothing_and_a_seed_gives_the_same():
    clusters = column(np.random.default_rng(2).normal(1, 3, 40))
    turned = Clusters(-clusters.sums, clusters.counts, clusters.squares)

    assert sign_flip_p_values(clusters, seed=3)[0] == sign_flip_p_values(turned, seed=3)[0]


@pytest.mark.parametrize(("value", "clusters"), [(7.3, 10), (0.1, 10), (0.1, 6), (7.3, 14)])
def test_values_that_never_vary_are_as_rare_as_all_signs_alike(value, clusters):
    counts = np.bincount(np.arange(31) % clusters).astype(float)[:, None]
    sums = np.array([sum([value] * int(count)) for count in counts[:, 0]])[:, None]

    assert sign_flip_p_values(Clusters(sums, counts, sums * value))[0] == 2 / 2**clusters


def test_nothing_but_zeros_has_no_p():
    assert np.isnan(sign_flip_p_values(column([0] * 8))[0])


@pytest.mark.parametrize(("sizes", "errors"), [("equal", "normal"), ("pareto", "normal"), ("pareto", "t3")])
def test_a_coin_is_beaten_as_rarely_as_it_says(sizes, errors):
    rounds = length(400, 2_000)

    rejected = means.flip_size(means.drawn(rounds, 30, sizes, errors))

    assert abs(rejected - 0.05) <= 3 * np.sqrt(0.05 * 0.95 / rounds) + 0.01


def test_skewness_rejects_more_often_and_the_tables_say_so():
    assert 0.06 <= means.flip_size(means.drawn(400, 30, "pareto", "lognormal")) <= 0.16


def test_columns_of_any_sizes_have_the_p_values_that_each_has_alone():
    rng = np.random.default_rng(6)
    for seed in range(length(40, 1_000)):
        each = []
        for size in rng.choice([0, 1, 4, 5, 8, 14, 15, 16, 40, 200], rng.integers(1, 5)):
            counts = rng.integers(0, 4, (size, 1)).astype(float)
            sums = np.rint(rng.normal(rng.choice([0, 1]), 3, (size, 1))) * counts * rng.choice([0, 1, 1, 1])
            each.append(Clusters(sums, counts, sums**2))

        together = sign_flip_p_values(side_by_side(each), resamples=99, seed=seed)

        alone = [sign_flip_p_values(one, resamples=99, seed=seed)[0] for one in each]
        assert np.array_equal(together, alone, equal_nan=True)
