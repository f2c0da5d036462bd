import json
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from clvlab.errors import StatisticsError
from clvlab.statistics import Clusters, cluster_errors, overfitting
from tests.length import length
from tests.simulations import after

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "overfitting.json").read_text("utf-8"))


def clusters_of(sums, counts=None):
    sums = np.asarray(sums, dtype=float)
    counts = np.ones_like(sums) if counts is None else np.asarray(counts, dtype=float)
    return Clusters(sums, counts, sums**2)


def noise(seed, fixtures=160, configurations=20):
    return np.random.default_rng(seed).normal(0, 50, (fixtures, configurations))


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["name"])
def test_every_logit_is_that_of_another_package(case):
    found = overfitting(clusters_of(case["sums"], case["counts"]), blocks=case["blocks"], statistic=case["statistic"])

    expected = np.array(case["distinct"])[case["logits"]]
    assert np.allclose(found.logits, expected, rtol=0, atol=VECTORS["tolerance"])
    assert found.pbo == case["pbo"]
    assert found.ranks.mean() == pytest.approx(case["mean_rank"])


def test_means_that_are_equal_share_their_rank_and_the_first_is_chosen():
    """Whole numbers of few decisions: many means are the same fraction, of other sums and counts."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        counts = rng.integers(1, 4, (24, 12))
        values = clusters_of(rng.integers(-2, 3, counts.shape), counts)

        found = overfitting(values, blocks=6)

        blocks = np.split(np.arange(24), 6)
        for split, chosen in enumerate(combinations(range(6), 3)):
            inside = np.concatenate([blocks[k] for k in chosen])
            one, other = (fractions_of(values, rows) for rows in (inside, np.setdiff1d(np.arange(24), inside)))
            best = one.index(max(one))
            below, level = (sum(mean < other[best] for mean in other), other.count(other[best]))
            assert found.chosen[split] == best
            assert found.ranks[split] * 13 == pytest.approx(below + (level + 1) / 2)


def fractions_of(values, rows):
    sums, counts = values.sums[rows].sum(0).astype(int).tolist(), values.counts[rows].sum(0).astype(int).tolist()
    return [Fraction(*pair) for pair in zip(sums, counts, strict=True)]


@pytest.mark.parametrize("statistic", ["mean", "t"])
def test_each_split_is_what_the_definition_says(statistic):
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 4, (27, 11))
    values = clusters_of(rng.normal(0, 30, (27, 11)) * counts, counts)

    found = overfitting(values, blocks=6, statistic=statistic)

    blocks = np.split(np.arange(24), 6)
    for split, chosen in enumerate(combinations(range(6), 3)):
        inside = np.concatenate([blocks[k] for k in chosen])
        one, other = (figures(values, rows, statistic) for rows in (inside, np.setdiff1d(np.arange(24), inside)))
        best = int(one.argmax())
        assert found.chosen[split] == best
        assert (found.in_sample[split], found.out_of_sample[split]) == pytest.approx((one[best], other[best]))
        assert found.ranks[split] * 12 == pytest.approx(1 + (other < other[best]).sum())
    assert (found.splits, found.fixtures, found.left_out) == (20, 4, 3)


def figures(values, rows, statistic):
    sums, counts = values.sums[rows], values.counts[rows]
    means = sums.sum(0) / counts.sum(0)
    if statistic == "mean":
        return means
    used = (counts > 0).sum(0)
    return means * counts.sum(0) / np.sqrt(used / (used - 1) * ((sums - means * counts) ** 2).sum(0))


def test_t_is_that_of_the_tear_sheet_where_fixtures_are_of_one_size():
    values = clusters_of(noise(1, 64, 10))

    found = overfitting(values, blocks=4, statistic="t")

    first = cluster_errors(clusters_of(values.sums[:32]))
    assert found.in_sample[0] == pytest.approx((first.means / first.errors).max())


def test_among_equals_the_choice_is_worth_nothing():
    shares = [overfitting(clusters_of(noise(seed)), blocks=8).pbo for seed in range(150)]

    assert np.mean(shares) == pytest.approx(0.5, abs=0.05)
    assert np.mean(np.array(shares) < 0.1) <= 0.05


def test_pbo_of_few_points_and_of_days_is_what_the_page_says():
    values = noise(11, 64, 12)
    rounds = length(150, 1_000)

    few, days = [after.of_few(rounds, points) for points in after.FEW], [after.of_days(rounds, each) for each in after.BLOCKS]

    assert after.pbo(values, 8) == overfitting(clusters_of(values), blocks=8).pbo
    assert [one.mean() for one in few] == pytest.approx([0.5, 0.65, 0.5], abs=0.06)
    assert np.mean(few[0] < 0.1) > 0.09 > np.mean(few[2] < 0.1)
    assert [one.mean() for one in days] == pytest.approx([0.17, 0.29, 0.45], abs=0.06)


def test_one_that_is_better_is_chosen_again():
    values = noise(2)
    values[:, 7] += 40

    found = overfitting(clusters_of(values))

    assert found.pbo < 0.01
    assert np.mean(found.chosen == 7) > 0.95
    assert found.loss == 0


def test_equals_around_a_loss_lose_out_of_sample():
    found = overfitting(clusters_of(noise(3) - 60))

    assert found.loss == 1
    assert (found.in_sample > found.out_of_sample).mean() > 0.9


def test_halves_of_one_sample_lean_against_each_other():
    """A configuration's halves add up to one total: for one alone the slope is -1, whatever it is worth."""
    values = noise(4)
    values[:, 0] += 500

    found = overfitting(clusters_of(values), blocks=8)

    assert found.slope == pytest.approx(-1)
    assert found.pbo == 0


def test_configurations_that_are_the_same_share_their_rank():
    found = overfitting(clusters_of(np.repeat(noise(5, configurations=1), 12, axis=1)), blocks=6)

    assert set(found.ranks) == {0.5}
    assert (found.pbo, set(found.chosen)) == (1, {0})


def test_a_configuration_without_a_decision_in_some_half_is_left_out_and_counted():
    counts = np.ones((64, 12))
    counts[32:, 3] = 0
    counts[:, 5] = 0

    found = overfitting(clusters_of(noise(6, 64, 12) * counts, counts), blocks=8)

    assert (found.configurations, found.unjudged) == (10, 2)
    assert not {3, 5} & set(found.chosen)


def test_a_configuration_that_never_varies_has_no_t():
    values = noise(7, 64, 11)
    values[:, 0] = 3

    assert overfitting(clusters_of(values), blocks=8).unjudged == 0
    assert overfitting(clusters_of(values), blocks=8, statistic="t").unjudged == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"blocks": 7}, "blocks must be an even number from 4 to 20, not 7"),
        ({"blocks": 22}, "not 22"),
        ({"blocks": 8.0}, "not 8.0"),
        ({"statistic": "sharpe"}, "not by 'sharpe'"),
        ({"fixtures": 60}, "60 fixtures make 16 blocks of 3"),
        ({"configurations": 9}, "9 of 9 configurations"),
    ],
)
def test_what_can_not_be_told_is_refused(options, said):
    size = {name: options.pop(name) for name in ("fixtures", "configurations") if name in options}

    with pytest.raises(StatisticsError, match=said):
        overfitting(clusters_of(noise(8, **size)), **options)


def test_numbers_that_are_none_are_refused():
    values = noise(9)
    values[4, 4] = np.nan

    with pytest.raises(StatisticsError, match="finite"):
        overfitting(clusters_of(values))
