"""In history without arrivals a time that nothing bears out is left out, and moves no other."""

import polars as pl
import pytest

from clvlab.errors import SourceError
from clvlab.packs.verification import verify_pack
from clvlab.sources.betfair.history import JUMPED
from clvlab.sources.clock import NOT_BORNE_OUT, jumps, with_sound_times
from clvlab.sources.importer import import_source
from tests.sources.betfair import test_history as betfair
from tests.sources.capture.test_captures_as_files import MESSAGE, later, polymarket, txline
from tests.sources.polymarket import test_pmxt as pmxt

MINUTE, DAY = 60_000, 86_400_000
NOW = MESSAGE["Ts"]


@pytest.mark.parametrize("by_ms", [15 * MINUTE, DAY, 3653 * DAY])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("place", [0, 6])
def test_a_jump_that_nothing_bears_out_leaves_the_tape_as_it_were_without(tmp_path, by_ms, count, place):
    sound = [later(MESSAGE, n) for n in range(12)]
    false = [later(MESSAGE, 100 + n, Ts=NOW + by_ms + n) for n in range(count)]

    report = import_source("txline", [txline(tmp_path, *sound)], tmp_path / "a")
    lied = import_source("txline", [txline(tmp_path, *sound[:place], *false, *sound[place:])], tmp_path / "b")

    assert [one.digest for one in lied.manifest.fixtures] == [one.digest for one in report.manifest.fixtures]
    assert (report.manifest.reading, lied.manifest.reading.refused) == (None, count)
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


@pytest.mark.parametrize(
    ("times", "sound"),
    [
        ([], []),
        ([0, 400 * DAY], [0, 400 * DAY]),
        ([0, DAY, 1, 2], [0, 0, 1, 2]),
        ([DAY, 1, 2, 3], [1, 1, 2, 3]),
        ([0, DAY, None, DAY, 1, 2, 3, 4, 5], [0, 0, None, 0, 1, 2, 3, 4, 5]),
        ([0, DAY, DAY + 1, DAY + 2, DAY + 3, DAY + 4, DAY + 5], [0, DAY, DAY + 1, DAY + 2, DAY + 3, DAY + 4, DAY + 5]),
    ],
)
def test_a_book_is_of_the_last_sound_time_where_its_own_is_not_borne_out(times, sound):
    found = list(with_sound_times(enumerate(times)))

    assert found == list(enumerate(sound))


@pytest.mark.parametrize("by_s", [900, 86_400, 3653 * 86_400])
@pytest.mark.parametrize("place", [1, 4])
def test_a_change_of_betfair_with_a_false_time_counts_as_of_the_last_sound_one(tmp_path, by_s, place):
    sound = [betfair.change(n, rc=[betfair.offers(1, 1.9 + n / 100)]) for n in range(1, 9)]
    false = betfair.change(place + by_s, rc=[betfair.offers(2, 1.95)])

    report, pack = betfair.imported(tmp_path, betfair.stream(tmp_path, betfair.OPENING, *sound[:place], false, *sound[place:]))

    seconds = betfair.states(pack)["ts_ms"].unique().sort().to_list()
    assert seconds == [0, *range(1, 9)]
    assert betfair.states(pack).filter((pl.col("ts_ms") == place) & (pl.col("side") == "2"))["odds_milli"].to_list() == [1950]
    assert report.quality.notes[JUMPED] == 1


def test_a_quote_of_polymarket_that_nothing_bears_out_leaves_the_tape_as_it_were_without(tmp_path):
    own = [(n * 90, 0.5 + n / 100) for n in range(8)]
    others = {"draw": [(n * 90, 0.26) for n in range(8)], "away": [(n * 90, 0.28) for n in range(8)]}

    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    report = import_source("polymarket", [polymarket(tmp_path / "one", home=own, **others)], tmp_path / "a")
    lied = import_source(
        "polymarket", [polymarket(tmp_path / "two", home=[*own[:3], (86_400, 0.9), *own[3:]], **others)], tmp_path / "b"
    )

    assert [one.digest for one in lied.manifest.fixtures] == [one.digest for one in report.manifest.fixtures]
    assert (lied.quality.notes[NOT_BORNE_OUT], report.quality.notes.get(NOT_BORNE_OUT)) == (1, None)


def test_a_time_after_the_hour_of_its_file_stops_no_book(tmp_path):
    rows = [
        pmxt.OPEN,
        pmxt.pmxt.book(pmxt.at(12 + 30, 1), "7", 44, 46),
        pmxt.pmxt.book(pmxt.at(12, 2), "7", 50, 52),
    ]

    quality = pmxt.imported(tmp_path, {12: rows})

    assert pmxt.yes(tmp_path) == [(12 * 3600, 4500), (12 * 3600 + 2, 5100)]
    assert quality.notes["rows of a time after the hour of their file are of the last one in it"] == 1
