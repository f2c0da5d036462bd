import json
from pathlib import Path

import goto_conversion
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clvlab.errors import OddsError
from clvlab.odds.margin import Margin, fair_probabilities, overround
from tests.length import length
from tests.vectors.oracles import METHODS, books

ORACLE = json.loads((Path(__file__).parents[1] / "vectors" / "margin.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("method", METHODS)
def test_method_agrees_with_the_package_that_made_the_vectors(method):
    compared = 0
    for book in ORACLE["books"]:
        found = fair_probabilities([book["odds"]], method)
        if not found.fell_back[0]:
            np.testing.assert_allclose(found.prob[0], book[method], rtol=0, atol=ORACLE["tolerance"])
            compared += 1
    assert compared > 50


def test_shin_agrees_with_shin_whose_python_and_rust_solvers_stop_at_1e_12():
    shin = pytest.importorskip("shin")
    for odds in books():
        expected = shin.calculate_implied_probabilities(odds)
        np.testing.assert_allclose(fair_probabilities([odds], "shin").prob[0], expected, rtol=0, atol=1e-9)


def test_goto_agrees_with_goto_conversion():
    compared = 0
    for odds in books():
        found = fair_probabilities([odds], "goto")
        if not found.fell_back[0]:
            np.testing.assert_allclose(found.prob[0], goto_conversion.goto_conversion(list(odds)), rtol=0, atol=1e-9)
            compared += 1
    assert compared > 200


@pytest.mark.parametrize("method", ["additive", "goto"])
def test_a_longshot_that_would_fall_below_zero_takes_power_and_is_counted(method):
    odds = [[1.02, 12.0, 500.0], [1.9, 3.6, 4.5]]

    found = fair_probabilities(odds, method)

    assert found.fell_back.tolist() == [True, False]
    np.testing.assert_array_equal(found.prob[0], fair_probabilities(odds[:1], "power").prob[0])


@pytest.mark.parametrize("method", list(Margin))
def test_an_outcome_that_a_market_does_not_have_changes_nothing(method):
    narrow = fair_probabilities([[1.9, 2.0]], method).prob[0]
    wide = fair_probabilities([[1.9, np.nan, 2.0], [2.5, 3.2, 3.1]], method).prob

    np.testing.assert_allclose(wide[0, [0, 2]], narrow, rtol=0, atol=1e-12)
    assert np.isnan(wide[0, 1])


@settings(max_examples=length(60, 200))
@example(method=Margin.ADDITIVE, odds=[9.0, 1.001953125, 1.001953125])
@given(
    method=st.sampled_from(list(Margin)),
    odds=st.lists(st.floats(1.001, 1000), min_size=2, max_size=30),
)
def test_every_method_gives_probabilities_that_sum_to_one_and_keep_the_order_of_the_odds(method, odds):
    prob = fair_probabilities([odds], method).prob[0]

    assert (prob > 0).all()
    assert (prob < 1).all()
    assert prob.sum() == pytest.approx(1, abs=1e-9)
    ranked = prob[np.argsort(odds, kind="stable")]
    assert (np.diff(ranked) <= 1e-9).all()


@pytest.mark.parametrize("method", list(Margin))
def test_rows_do_not_depend_on_the_rows_beside_them(method):
    odds = np.array([row for row in books() if len(row) == 3])

    together = fair_probabilities(np.tile(odds, (600, 1)), method).prob[-len(odds) :]

    np.testing.assert_allclose(together, [fair_probabilities([row], method).prob[0] for row in odds], rtol=0, atol=1e-12)


@pytest.mark.parametrize("odds", [[[1.0, 2.0]], [[0.5, 2.0]], [[-2.0, 2.0]], [[np.inf, 2.0]], [[2.0]], [[2.0, np.nan]], [2.0]])
def test_odds_that_are_none_are_refused_by_name(odds):
    with pytest.raises(OddsError):
        fair_probabilities(odds)


def test_an_unknown_method_is_refused():
    with pytest.raises(OddsError, match="'magic'"):
        fair_probabilities([[2.0, 2.0]], "magic")


def test_overround_is_the_sum_of_inverse_odds_less_one():
    assert overround([[2.0, 4.0, 4.0], [1.6, np.nan, 2.0]]).tolist() == [0.0, 0.125]
