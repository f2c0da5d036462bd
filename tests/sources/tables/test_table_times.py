"""Times, dates, leagues and files as people's tables have them."""

import polars as pl
import pytest

import clvlab as cl
from clvlab.errors import SourceError

HEAD = "fixture,day,clock,market,side,odds,league,season"
ROWS = """\
m1,03/04/2026,18:30,WINNER||,home,2.1,Premier League,2025-26
m1,03/04/2026,18:30,WINNER||,away,1.8,Premier League,2025-26
"""
DAY_FIRST = {"columns": {"date": "day", "time": "clock"}, "time_format": "%d/%m/%Y %H:%M"}
APRIL_MS = 1_775_241_000_000  # 2026-04-03T18:30:00Z


def table(folder, text=f"{HEAD}\n{ROWS}", name="odds.csv"):
    path = folder / name
    path.write_text(text)
    return path


def test_a_day_and_a_time_of_day_are_one_time(tmp_path):
    pack = cl.import_odds("csv", table(tmp_path), tmp_path / "pack", mapping=DAY_FIRST, time_zone="UTC")

    assert pack.ticks()["ts_ms"].unique().to_list() == [APRIL_MS]


def test_a_format_has_the_zone_that_is_named(tmp_path):
    pack = cl.import_odds("csv", table(tmp_path), tmp_path / "pack", mapping=DAY_FIRST, time_zone="Europe/London")

    assert pack.ticks()["ts_ms"].unique().to_list() == [APRIL_MS - 3_600_000]


def test_iso_days_need_no_format(tmp_path):
    path = table(tmp_path, f"{HEAD}\n{ROWS}".replace("03/04/2026", "2026-04-03"))

    pack = cl.import_odds("csv", path, tmp_path / "pack", mapping={"columns": DAY_FIRST["columns"]}, time_zone="UTC")

    assert pack.ticks()["ts_ms"].unique().to_list() == [APRIL_MS]


def test_a_column_named_date_next_to_whole_times_changes_nothing(tmp_path):
    rows = "fixture,date,time,market,side,odds\nm,never,2026-04-03T18:30Z,W||,a,2.1\nm,never,2026-04-03T18:30Z,W||,b,1.8\n"

    pack = cl.import_odds("csv", table(tmp_path, rows), tmp_path / "pack")

    assert pack.ticks()["ts_ms"].unique().to_list() == [APRIL_MS]


@pytest.mark.parametrize(
    ("mapping", "zone", "message"),
    [
        (DAY_FIRST | {"time_format": "%Y-%m-%d %H:%M"}, "UTC", "'03/04/2026 18:30' is not written as '%Y-%m-%d %H:%M'"),
        (DAY_FIRST, None, "'03/04/2026 18:30' has no time zone: name the zone of such times"),
        ({"columns": DAY_FIRST["columns"]}, "UTC", "'03/04/2026 18:30' is not an ISO 8601 time"),
    ],
)
def test_a_time_that_is_written_otherwise_is_refused_by_value(tmp_path, mapping, zone, message):
    with pytest.raises(SourceError, match=f"odds.csv:2: {message}"):
        cl.import_odds("csv", table(tmp_path), tmp_path / "pack", mapping=mapping, time_zone=zone)


def test_league_and_season_reach_agents_and_views(tmp_path):
    pack = cl.import_odds("csv", table(tmp_path), tmp_path / "pack", mapping=DAY_FIRST, time_zone="UTC")

    assert pack.frame.select("league", "season").row(0) == ("Premier League", "2025-26")
    assert pack.source.tape().about["league"].to_list() == ["Premier League"]
    assert pack.where(league="Premier League").fixture_ids == pack.fixture_ids


def test_files_of_another_header_are_passed_over_and_counted_when_lenient(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    table(folder)
    table(folder, "run_at,rows,error\n2026-04-03,0,\n", "heartbeat.csv")
    table(folder, "when,odds\n1,2\n", "older.csv")

    with pytest.raises(SourceError, match="the columns are 'run_at', 'rows', 'error'"):
        cl.import_odds("csv", folder, tmp_path / "strict", mapping=DAY_FIRST, time_zone="UTC", lenient=False)
    pack = cl.import_odds("csv", folder, tmp_path / "pack", mapping=DAY_FIRST, time_zone="UTC", lenient=True)

    refused = {one.reason: one.count for one in pack.quality.refused}
    assert sorted(refused.values()) == [1, 1]
    assert any("'run_at', 'rows', 'error'" in reason for reason in refused)
    assert any("'when', 'odds'" in reason for reason in refused)
    assert pack.ticks().height == 2


def test_nothing_but_other_files_is_no_pack(tmp_path):
    path = table(tmp_path, "run_at,rows,error\n2026-04-03,0,\n")

    with pytest.raises(SourceError, match=r"the columns are 'run_at', 'rows', 'error'$"):
        cl.import_odds("csv", path, tmp_path / "pack", mapping=DAY_FIRST, lenient=True)


def test_frames_of_polars_say_the_same(tmp_path):
    frame = pl.read_csv(table(tmp_path))
    there = cl.import_odds("csv", frame, tmp_path / "frame", mapping=DAY_FIRST, time_zone="UTC")
    here = cl.import_odds("csv", tmp_path / "odds.csv", tmp_path / "file", mapping=DAY_FIRST, time_zone="UTC")

    assert there.ticks().equals(here.ticks())
