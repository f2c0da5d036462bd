"""The verdict on the best point of a search says no more of the line than the p-value that counts all trials."""

import numpy as np
import polars as pl
import pytest

from clvlab.report.search import HonestSearch, Point
from clvlab.statistics import cluster_mean
from clvlab.statistics.verdict import Tone


def mean(centre, spread):
    draws = np.random.default_rng(1).normal(0, spread, 60)
    return cluster_mean(pl.Series(draws - draws.mean() + centre), pl.Series(range(60)))


@pytest.mark.parametrize(
    ("p_family", "begins"),
    [
        (0.4, "The best setting loses at its prices, and its CLV is what luck over a grid can give: +60 bps [+"),
        (0.04, "The best setting moves with the market, but loses at its prices: +60 bps [+"),
    ],
)
def test_a_move_of_the_line_that_luck_can_give_is_not_claimed(p_family, begins):
    point = Point({"a": 1}, mean(60, 90), mean(-3, 2), p_family, p_family)

    found = HonestSearch((point,), 30, ()).verdict

    assert found.sentence.startswith(begins)
    assert found.sentence.endswith(f", p {p_family} counting all 30 trials.")
    assert found.tone is Tone.LOSES
