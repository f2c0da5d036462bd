"""In history without arrivals a time that nothing bears out is left out, and moves no other."""

import pytest

from clvlab.errors import SourceError
from clvlab.packs.importers.importing import import_source
from clvlab.packs.importers.jumps import jumps
from clvlab.packs.verifying import verify_pack
from tests.packs.importers.test_captures import MESSAGE, later, txline

MINUTE, DAY = 60_000, 86_400_000
NOW = MESSAGE["Ts"]


@pytest.mark.parametrize("by_ms", [15 * MINUTE, DAY, 3653 * DAY])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("place", [0, 6])
def test_a_jump_that_nothing_bears_out_leaves_the_tape_as_it_were_without(tmp_path, by_ms, count, place):
    sound = [later(MESSAGE, n) for n in range(12)]
    false = [later(MESSAGE, 100 + n, Ts=NOW + by_ms + n) for n in range(count)]

    told = import_source("txline", [txline(tmp_path, *sound)], tmp_path / "a")
    lied = import_source("txline", [txline(tmp_path, *sound[:place], *false, *sound[place:])], tmp_path / "b")

    assert [one.digest for one in lied.manifest.fixtures] == [one.digest for one in told.manifest.fixtures]
    assert (told.manifest.reading, lied.manifest.reading.refused) == (None, count)
    assert verify_pack(tmp_path / "b").is_genuine


def test_a_jump_that_what_follows_bears_out_stands(tmp_path):
    messages = [MESSAGE, *(later(MESSAGE, n, Ts=NOW + DAY + n) for n in range(1, 5))]

    report = import_source("txline", [txline(tmp_path, *messages)], tmp_path / "p")

    assert report.manifest.reading is None
    assert report.manifest.fixtures[0].rows == 10


def test_no_fixtures_time_is_before_anothers(tmp_path):
    messages = [later(MESSAGE, 9), later(MESSAGE, 1, FixtureId=8), later(MESSAGE, 10)]

    report = import_source("txline", [txline(tmp_path, *messages)], tmp_path / "p")

    assert [one.rows for one in report.manifest.fixtures] == [4, 2]
    assert report.manifest.reading.rule == 2
    assert verify_pack(tmp_path / "p").is_genuine


def test_a_time_that_falls_by_little_is_refused_as_ever(tmp_path):
    messages = [MESSAGE, later(MESSAGE, 9), later(MESSAGE, 3), later(MESSAGE, 10)]

    with pytest.raises(SourceError, match="before the message above"):
        import_source("txline", [txline(tmp_path, *messages)], tmp_path / "p")


@pytest.mark.parametrize(
    ("times", "false"),
    [
        ([], set()),
        ([5], set()),
        ([0, 20 * DAY], set()),
        ([0, 31 * DAY], {1}),
        ([0, DAY, 1, 2], {1}),
        ([DAY, 1, 2, 3], {0}),
        ([0, DAY, DAY, 1, 2, 3, 4, 5], {1, 2}),
        ([0, DAY, DAY + 1, DAY + 2], set()),
    ],
)
def test_what_comes_after_a_jump_decides(times, false):
    assert jumps((number, 7, ts_ms) for number, ts_ms in enumerate(times)) == false
