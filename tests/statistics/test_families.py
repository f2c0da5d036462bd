import numpy as np
import pytest
from scipy import stats

from clvlab.statistics import BoundedClusters, estimates, family_of
from tests.length import length
from tests.simulations import families


def bounded(sums, counts, bound=0.0):
    """Values that may fall and rise by a bound; by 0 where what nobody saw is to cost nothing."""
    return BoundedClusters(sums, counts, sums**2, -bound * counts, bound * counts)


def season(rng, *, fixtures=60, agents=12, lift=0.0, alike=0.0):
    """Sums and counts of agents whose decisions share fixtures; ``alike`` of their noise is common."""
    counts = rng.integers(0, 6, (fixtures, agents)).astype(float)
    common = rng.normal(0, 20, (fixtures, 1))
    noise = alike * common + (1 - alike) * rng.normal(0, 20, (fixtures, agents))
    sums = counts * noise + rng.normal(0, 10, (fixtures, agents)) * np.sqrt(counts)
    sums[:, 0] += lift * counts[:, 0]
    return bounded(sums, counts)


def sparse_season(rng, *, fixtures=200, others=25):
    """An agent with a t of 5 in all fixtures, beside others that know nothing and have 5 to 7 fixtures."""
    sums, counts = rng.normal(0, 10, (fixtures, 1 + others)), np.ones((fixtures, 1 + others))
    for k in range(1, 1 + others):
        absent = rng.permutation(fixtures)[int(rng.integers(5, 8)) :]
        sums[absent, k] = counts[absent, k] = 0
    sums[:, 0] += 5 * sums[:, 0].std(ddof=1) / np.sqrt(fixtures) - sums[:, 0].mean()
    return bounded(sums, counts)


def one_column(clusters, k):
    return clusters.columns(np.array([k]))


@pytest.mark.parametrize("alike", [0.0, 0.9])
def test_chance_is_called_good_in_about_one_family_of_twenty(alike):
    rng, rounds = np.random.default_rng(1), length(200, 2_000)

    lowest = np.array([np.nanmin(family_of(season(rng, alike=alike), resamples=400, seed=k).p_values) for k in range(rounds)])

    for level in (0.05, 0.5):  # spread evenly, up to three standard errors
        assert abs(np.mean(lowest <= level) - level) <= 3 * np.sqrt(level * (1 - level) / rounds) + 0.01


def test_uncorrected_p_values_would_be_called_good_far_more_often():
    rng = np.random.default_rng(1)

    lowest = [min(one.p_value for one in estimates(season(rng))) for _ in range(100)]

    assert np.mean(np.array(lowest) <= 0.05) > 0.3


def test_a_family_of_one_has_the_p_value_of_its_t():
    sums = season(np.random.default_rng(2), agents=1, lift=2.0)

    assert family_of(sums, resamples=40_000).p_values[0] == pytest.approx(estimates(sums)[0].p_value, abs=0.01)


def test_points_in_few_fixtures_cost_a_good_one_nothing():
    rng = np.random.default_rng(3)

    p_values = [family_of(sparse_season(rng), resamples=1999, seed=k).p_values[0] for k in range(20)]

    assert np.median(p_values) <= 0.001


def test_bad_trials_do_not_widen_what_chance_gives():
    rng = np.random.default_rng(4)
    chance = season(rng, agents=12)
    worse = bounded(chance.sums - 300 * chance.counts * (np.arange(12) > 5), chance.counts)

    alone, among = (family_of(one).expected_max for one in (chance, worse))

    assert 1.2 < among <= alone + 0.1
    assert alone == pytest.approx(1.63, abs=0.1)  # of twelve normals


def test_a_true_edge_is_found():
    found = family_of(season(np.random.default_rng(2), lift=25.0)).p_values

    assert found[0] < 0.01
    assert np.all(found[1:] > 0.05)


def test_p_values_never_fall_as_scores_fall_and_never_lie_below_those_alone():
    sums = season(np.random.default_rng(3), lift=8.0)

    family, alone = family_of(sums), family_of(one_column(sums, 0))

    assert family.p_values[0] >= alone.p_values[0]
    assert np.all(np.diff(family.p_values[np.argsort(-family.scores)]) >= 0)


def test_agents_in_too_few_fixtures_have_no_p_value_and_cost_the_others_nothing():
    sums = season(np.random.default_rng(4), agents=2, lift=10)
    lone = bounded(*(np.hstack([part, np.eye(60, 1)]) for part in (sums.sums, sums.counts)))

    found, without = family_of(lone, resamples=500), family_of(sums, resamples=500, earlier=1)

    assert np.isnan(found.p_values[2])
    assert found.trials == without.trials == 3
    assert np.all(found.p_values[:2] >= family_of(sums, resamples=500).p_values)


def test_the_highest_that_chance_gives_is_that_of_as_many_normals():
    sums = np.random.default_rng(6).normal(size=(400, 50))

    found = family_of(bounded(sums, np.ones_like(sums)))
    thrice = family_of(bounded(sums, np.ones_like(sums)), earlier=100)

    highest = np.random.default_rng(5).normal(size=(20_000, 150))
    assert found.expected_max == pytest.approx(highest[:, :50].max(1).mean(), abs=0.06)
    assert thrice.expected_max == pytest.approx(highest.max(1).mean(), abs=0.06)


def test_trials_on_record_count_as_sidak_has_it():
    sums = season(np.random.default_rng(7), agents=4, lift=6)

    few, many = family_of(sums).p_values[0], family_of(sums, earlier=496).p_values[0]

    assert many == pytest.approx(1 - (1 - few) ** 125, abs=0.02)


def test_copies_of_a_trial_cost_less_than_strangers_on_record_do():
    one = season(np.random.default_rng(7), agents=1, lift=12)
    fifty = one.columns(np.zeros(50, int))

    (alone,), (many, *_) = (family_of(own, earlier=50).p_values for own in (one, fifty))

    assert many == pytest.approx(alone)
    assert family_of(fifty).p_values[0] == pytest.approx(family_of(one).p_values[0])
    assert many == pytest.approx(1 - (1 - stats.norm.cdf(-family_of(one).scores[0])) ** 51, abs=0.02)
    assert family_of(fifty, earlier=50).expected_max == pytest.approx(family_of(one, earlier=50).expected_max)
    assert family_of(one, earlier=50).expected_max == pytest.approx(2.26, abs=0.02)  # of 51 normals


def test_a_family_without_a_t_has_no_highest():
    found = family_of(bounded(*np.zeros((2, 4, 2))), earlier=3)

    assert np.isnan(found.p_values).all()
    assert np.isnan(found.expected_max)


def test_draws_in_blocks_are_those_at_once(monkeypatch):
    sums = season(np.random.default_rng(8), lift=4)
    whole = family_of(sums, resamples=500)

    monkeypatch.setattr("clvlab.statistics.families._CELLS", 7_000)

    assert np.array_equal(family_of(sums, resamples=500).p_values, whole.p_values, equal_nan=True)


def test_over_martingales_an_edge_is_announced_as_rarely_as_is_said():
    rounds = length(80, 1_000)

    assert families.announced(rounds) <= length(9, 64)


@pytest.mark.parametrize("harmful", [0, 25])
def test_the_p_of_the_best_is_never_too_small(harmful):
    p_values = families.best_p_values(length(80, 1_000), harmful=harmful)

    assert np.mean(p_values <= 0.05) <= 0.09
    assert 0.3 <= np.mean(p_values <= 0.5) <= 0.56


def test_an_edge_of_34_bps_is_found():
    assert families.announced(20, fixtures=300, edge_bps=34) >= 19
