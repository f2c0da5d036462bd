"""The adversary of blind seats finds what can be found, and nothing else."""

import numpy as np
import pytest

from clvlab.packs.synthetic import Recipe, synthetic
from tests.simulations.catalogues import Catalogue
from tests.simulations.gains import gains
from tests.simulations.recognition import METHODS, mapped, named, recognised, scaled


@pytest.fixture(scope="module")
def catalogue():
    return Catalogue.of(synthetic(Recipe(seed=5, fixtures=60, messages=60)).ticks)


def test_each_view_of_a_fixture_names_it(catalogue):
    found = recognised(catalogue, 30, set(METHODS) - {"suspensions", "warped prices"}, 60)

    assert min(one.best for one in found.values()) > 0.9
    assert found["probabilities"].sure > 0.9
    assert found["probabilities"].precision == 1


def test_warped_prices_name_fixtures_whose_prices_are_mapped(catalogue):
    methods = ["probabilities", "ranks of prices", "warped prices"]

    found = recognised(catalogue, 30, methods, 40, mapped(1))

    assert found["probabilities"].best < 0.2
    assert min(found[name].best for name in methods[1:]) > 0.8


def test_scaled_times_keep_their_shape_until_they_are_coarse(catalogue):
    exact, coarse = (recognised(catalogue, 30, ["gaps, scaled"], 60, scaled(step))["gaps, scaled"] for step in (1, 10**9))

    assert exact.best > 0.9
    assert coarse.best < 0.1


def test_fixtures_that_are_all_alike_are_named_by_chance_and_never_surely(catalogue):
    alike = catalogue.at(np.zeros(20, dtype=np.int64))

    for one in recognised(alike, 30, METHODS, 20).values():
        assert (one.best, one.sure, one.sure_and_wrong) == (pytest.approx(1 / 20), 0, 0)


def test_an_adversary_who_is_sure_of_the_wrong_fixture_is_counted():
    own, likeness = np.arange(40), np.eye(40)
    others_wrong = np.where(own % 2, (own + 1) % 40, own)  # those that set the margin are right

    right, wrong = named(likeness, own), named(likeness, others_wrong)

    assert (right.best, right.sure, right.precision) == (1, 1, 1)
    assert (wrong.best, wrong.sure, wrong.sure_and_wrong, wrong.precision) == (0.5, 0, 1, 0)


@pytest.mark.long
def test_packs_gain_much_in_aliased_seats_and_nothing_by_right_in_held_back_ones(tmp_path):
    found = gains(tmp_path, 60, 60, messages=60)

    published, again = found["aliased, over the published pack"], found["aliased, over a pack that it lacks"]
    assert published.acted == published.right == 1
    assert published.mean_bps > 50
    assert again.acted > 0.2
    assert again.right > 0.5
    assert found["held-back, sure"].right == found["held-back, bold"].right == 0
    assert found["held-back, sure"].acted < 0.5 < found["held-back, bold"].acted
