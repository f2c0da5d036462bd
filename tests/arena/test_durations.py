import pytest

from clvlab.arena.competitions.requests import duration_s_of
from clvlab.errors import WindowError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("PT1S", 1), ("PT90M", 5400), ("PT1H30M5S", 5405), ("P1D", 86_400), ("P1DT12H", 129_600), ("P2W", 1_209_600)],
)
def test_durations_of_a_fixed_length_are_seconds(text, seconds):
    assert duration_s_of(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "P",
        "PT",
        "P1DT",
        "P1Y",
        "P1M",
        "PT1.5H",
        "PT0S",
        "P1W2D",
        "pt1h",
        "PT1H ",
        "-PT1H",
        "1H",
        "PT\u0661H",
        "PT9999999999S",
    ],
)
def test_what_has_no_fixed_length_or_no_form_is_refused(text):
    with pytest.raises(WindowError, match="duration"):
        duration_s_of(text)
