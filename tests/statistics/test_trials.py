import numpy as np
import pytest

from clvlab.statistics import Clusters, cluster_errors, deflated_t, expected_max_t, family_wise_p_values, influence_shape


def season(rng, *, fixtures=60, agents=12, lift=0.0, alike=0.0):
    """Sums and counts of agents whose decisions share fixtures; ``alike`` of their noise is common."""
    counts = rng.integers(0, 6, (fixtures, agents)).astype(float)
    common = rng.normal(0, 20, (fixtures, 1))
    noise = alike * common + (1 - alike) * rng.normal(0, 20, (fixtures, agents))
    sums = counts * noise + rng.normal(0, 10, (fixtures, agents)) * np.sqrt(counts)
    sums[:, 0] += lift * counts[:, 0]
    return Clusters(sums, counts, sums**2)


@pytest.mark.parametrize("alike", [0.0, 0.9])
def test_chance_is_called_good_in_about_one_family_of_twenty(alike):
    rng = np.random.default_rng(1)
    rounds = 400

    false_alarms = sum(
        np.nanmin(family_wise_p_values(season(rng, alike=alike), resamples=400, seed=k)) <= 0.05 for k in range(rounds)
    )

    # 5 % is promised; three standard errors of 400 rounds are 3.3 points
    assert 0.01 <= false_alarms / rounds <= 0.085


def test_uncorrected_p_values_would_be_called_good_far_more_often():
    rng = np.random.default_rng(1)

    single = [
        min(
            family_wise_p_values(Clusters(*(part[:, [k]] for part in (s.sums, s.counts, s.squares))), resamples=200)[0]
            for k in range(12)
        )
        for s in (season(rng) for _ in range(60))
    ]

    assert np.mean(np.array(single) <= 0.05) > 0.25


def test_a_true_edge_is_found():
    p_values = family_wise_p_values(season(np.random.default_rng(2), lift=25.0), resamples=2000)

    assert p_values[0] < 0.01
    assert np.all(p_values[1:] > 0.05)


def test_p_values_never_fall_as_t_falls_and_never_lie_below_those_alone():
    sums = season(np.random.default_rng(3), lift=8.0)

    family = family_wise_p_values(sums, resamples=1000)
    alone = family_wise_p_values(Clusters(sums.sums[:, :1], sums.counts[:, :1], sums.squares[:, :1]), resamples=1000)

    means, errors = cluster_errors(sums)
    assert family[0] >= alone[0]
    assert np.all(np.diff(family[np.argsort(-means / errors)]) >= 0)


def test_agents_in_too_few_fixtures_have_no_p_value_and_cost_the_others_nothing():
    sums = season(np.random.default_rng(4), agents=2, lift=10)
    lone = Clusters(*(np.hstack([part, np.eye(60, 1)]) for part in (sums.sums, sums.counts, sums.squares)))

    found = family_wise_p_values(lone, resamples=500)

    assert np.isnan(found[2])
    assert np.array_equal(found[:2], family_wise_p_values(sums, resamples=500))


def test_the_expected_maximum_is_that_of_simulated_normals():
    highest = np.random.default_rng(5).normal(size=(20_000, 50)).max(1).mean()

    assert expected_max_t(50) == pytest.approx(highest, abs=0.03)
    assert expected_max_t(50, 0.5) == pytest.approx(expected_max_t(50) / 2)


def test_one_trial_is_not_deflated():
    found = deflated_t(1.7, 100, [1.7], skewness=0, kurtosis=1)

    assert (found.expected_max, found.deflated) == (0, 1.7)


def test_trials_on_record_deflate_further():
    trial_ts = [-0.5, 0.2, 1.0, 2.4]

    few, many = (deflated_t(2.4, 100, trial_ts, earlier=earlier) for earlier in (0, 500))

    assert many.trials == 504
    assert many.probability < few.probability


def test_the_shape_of_what_fixtures_add_is_that_of_their_values():
    sums = np.array([[0.0], [0.0], [0.0], [4.0]])

    skewness, kurtosis = influence_shape(Clusters(sums, np.ones_like(sums), sums**2))

    # residuals -1, -1, -1, 3: second moment 3, third 6, fourth 21
    assert skewness == pytest.approx(6 / 3**1.5)
    assert kurtosis == pytest.approx(21 / 9)
