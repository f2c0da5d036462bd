import polars as pl
import pytest

from clvlab.report.explorer.exploration import fixture_labels, matching

FIXTURES = pl.DataFrame(
    {
        "fixture_id": [7, 8, 9],
        "names": ["Heath - Glen", "", "Äpfel - Dale (x)"],
        "league": ["E0", None, None],
        "kickoff_ts_ms": [1_767_387_600_000, None, 2**53],
    }
)


def test_a_label_says_who_and_when_as_far_as_that_is_known():
    assert fixture_labels(FIXTURES).to_list() == ["Heath - Glen, E0, 2 Jan 2026", "fixture 8", "Äpfel - Dale (x), 1 Jan 9900"]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("", [7, 8, 9]),
        ("glen JAN", [7]),
        ("e0 heath", [7]),
        ("8", [8]),
        ("(x)", [9]),
        ("ÄPFEL", [9]),
        ("heath dale", []),
        ("  ", [7, 8, 9]),
    ],
)
def test_every_word_that_is_asked_for_must_be_there(asked, found):
    labelled = FIXTURES.with_columns(fixture_labels(FIXTURES))

    assert matching(labelled, asked)["fixture_id"].to_list() == found
