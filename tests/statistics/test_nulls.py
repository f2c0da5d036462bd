"""The nulls by which announced edges are judged have no edge, whatever price one waits for."""

import numpy as np
import pytest

from tests.simulations.nulls import FIXTURES, POINTS, SHAPES, SIZES, TIMES, Null, drawn, grid, paths


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("shape", SHAPES)
def test_prices_are_martingales_at_every_price(shape, times):
    path = paths(shape, 300_000, times, np.random.default_rng(4))

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
    for found, expected in ((made.counts, counts), (made.sums, sums), (made.squares, squares)):
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_favourites_are_backed_above_a_half_and_longshots_below():
    favourites, longshots = (drawn(Null(shape, "equal", 300, 20, 1), np.random.default_rng(2)) for shape in SHAPES[:2])

    assert favourites.entry[favourites.made[:, :, 0]].min() >= 0.6
    assert longshots.entry[longshots.made[:, :, 0]].max() <= 0.4
    assert (favourites.made.sum((0, 1))[:-1] >= favourites.made.sum((0, 1))[1:]).all()
