import numpy as np
import polars as pl
import pytest

from clvlab.statistics import calibration


def forecasts(seed=0, n=2000):
    rng = np.random.default_rng(seed)
    confidence = rng.random(n)
    return pl.Series(confidence), pl.Series(np.where(rng.random(n) < confidence, 5, -5)), pl.Series(np.arange(n) // 4)


def test_the_parts_add_up_to_the_score():
    found = calibration(*forecasts())

    assert found.brier == pytest.approx(found.reliability - found.resolution + found.uncertainty)
    assert found.n == found.frame["n"].sum() == 2000


def test_honest_confidences_are_reliable_and_overstated_ones_are_not():
    confidence, clv_bps, fixtures = forecasts()

    honest = calibration(confidence, clv_bps, fixtures)
    overstated = calibration(0.5 + confidence / 2, clv_bps, fixtures)

    assert honest.reliability < 0.002
    assert overstated.reliability > 0.05


def test_honest_shares_lie_in_their_intervals():
    table = calibration(*forecasts()).frame

    inside = (table["low"] <= table["confidence"]) & (table["confidence"] <= table["high"])

    assert table["bin"].to_list() == pytest.approx([k / 10 for k in range(10)])
    assert inside.sum() >= 9


def test_a_tie_is_no_beaten_close_and_full_confidence_is_in_the_last_bin():
    found = calibration(pl.Series([1.0, None]), pl.Series([0, 5]), pl.Series([1, 2]))

    assert (found.brier, found.n, found.frame["bin"].to_list()) == (1.0, 1, [0.9])


def test_without_a_confidence_there_is_no_calibration():
    assert calibration(pl.Series([None], dtype=pl.Float64), pl.Series([5]), pl.Series([1])) is None
