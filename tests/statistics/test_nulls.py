"""The nulls by which announced edges are judged have no edge, whatever price one waits for."""

import numpy as np
import pytest

from tests.length import length
from tests.simulations.nulls import (
    FIXTURES,
    POINTS,
    POWER,
    SHAPES,
    SIZES,
    STATED,
    TIMES,
    Null,
    announced,
    drawn,
    grid,
    paths,
)

HELD = tuple(Null(shape, "equal", 120, 20, 1) for shape in SHAPES)


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("shape", SHAPES)
def test_prices_are_martingales_at_every_price(shape, times):
    path = paths(shape, length(60_000, 300_000), times, np.random.default_rng(4))

    assert path.min() >= 0
    assert path.max() <= 1
    for entry in range(times):
        at = np.digitize(path[:, entry], [0.1, 0.3, 0.5, 0.7, 0.9])
        for bucket in range(6):
            gained = (path[:, -1] - path[:, entry])[at == bucket]
            if gained.size > 1_000:
                assert abs(gained.mean()) < 4 * gained.std() / np.sqrt(gained.size)


def test_the_grid_has_every_cell_once():
    cells = list(grid())

    assert len(cells) == len({str(cell) for cell in cells}) == 6 * 2 * 4 * 3 * 2
    assert {len(SHAPES), len(SIZES), len(FIXTURES), len(POINTS), len(TIMES)} == {6, 2, 4, 3}


def test_sums_are_those_of_the_decisions():
    made = drawn(Null("favourites", "pareto", 60, 20, 4), np.random.default_rng(1))

    counts, sums, squares = np.zeros((60, 20)), np.zeros((60, 20)), np.zeros((60, 20))
    for fixture, time, point in np.argwhere(made.made):
        gained = made.close[fixture, time] - made.entry[fixture, time]
        counts[fixture, point] += made.size[fixture, 0]
        sums[fixture, point] += made.size[fixture, 0] * gained
        squares[fixture, point] += made.size[fixture, 0] * gained**2
    found = made.clusters()
    for part, expected in ((found.counts, counts), (found.sums, sums), (found.squares, squares)):
        np.testing.assert_allclose(part, expected, atol=1e-12)
    assert (found.lowest <= found.sums).all()
    assert (found.sums <= found.highest).all()


def test_favourites_are_backed_above_a_half_and_longshots_below():
    favourites, longshots = (drawn(Null(shape, "equal", 300, 20, 1), np.random.default_rng(2)) for shape in SHAPES[:2])

    assert favourites.entry[favourites.made[:, :, 0]].min() >= 0.6
    assert longshots.entry[longshots.made[:, :, 0]].max() <= 0.4
    assert (favourites.made.sum((0, 1))[:-1] >= favourites.made.sum((0, 1))[1:]).all()


@pytest.mark.parametrize("null", HELD, ids=str)
def test_an_edge_is_announced_as_rarely_as_is_said(null):
    rounds = length(60, 1_000)

    assert announced(null, rounds) <= 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / rounds)


def test_what_it_was_before_announces_edges_that_are_not_there():
    assert announced(STATED[0], 100, judge="before") > 0.12


@pytest.mark.parametrize(("null", "least"), list(zip(POWER, (0.7, 0.8, 0.8), strict=True)), ids=str)
def test_a_true_edge_of_three_errors_is_found(null, least):
    assert announced(null, length(60, 1_000), edge=3) >= least - length(0.1, 0)


def test_trials_on_record_are_held_as_those_that_are_there():
    null = Null("favourites", "equal", 120, 20, 1)

    assert announced(null, length(60, 1_000), judge="on record") <= 0.05


@pytest.mark.parametrize("shape", ["favourites", "longshots", "creeping"])
def test_price_ratios_are_held_too(shape):
    assert announced(Null(shape, "equal", 120, 20, 1), length(60, 1_000), by="price_ratio") <= 0.08


@pytest.mark.parametrize("shape", SHAPES)
def test_a_mean_that_is_not_cautioned_against_is_held(shape):
    null, rounds = Null(shape, "equal", 1_000, 1, 1), length(60, 1_000)

    assert announced(null, rounds, judge="alone, without caution") <= 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / rounds)
