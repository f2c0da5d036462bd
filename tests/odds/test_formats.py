import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clvlab.errors import OddsError
from clvlab.odds.formats import american_odds, decimal_odds, fractional_odds


@pytest.mark.parametrize(
    ("written", "values", "expected"),
    [
        ("decimal", [2.5, 1.0, 0, -3, np.nan, np.inf], [2.5, *[np.nan] * 5]),
        ("american", [100, -100, 250, -400, 99, -1, 0], [2.0, 2.0, 3.5, 1.25, *[np.nan] * 3]),
        ("fractional", ["5/2", "10/11", "evs", "5/0", "2.5", "", "-5/2"], [3.5, 1 + 10 / 11, 2.0, *[np.nan] * 4]),
        ("probability", [0.4, 0, 1, -0.1, 1.2], [2.5, *[np.nan] * 4]),
    ],
)
def test_odds_of_every_format_become_decimal_and_nonsense_becomes_nan(written, values, expected):
    np.testing.assert_allclose(decimal_odds(values, written), expected)


@given(st.floats(1.01, 1000))
def test_american_odds_lead_back_to_the_decimal_odds(odds):
    assert decimal_odds(american_odds([odds]), "american")[0] == pytest.approx(odds)


def test_fractional_odds_are_the_nearest_fraction():
    assert [fractional_odds(odds) for odds in (3.5, 1.91, 2.0)] == ["5/2", "91/100", "1/1"]
    with pytest.raises(OddsError):
        fractional_odds(1.0)


def test_an_unknown_format_is_refused():
    with pytest.raises(OddsError, match="'roman'"):
        decimal_odds([2], "roman")
