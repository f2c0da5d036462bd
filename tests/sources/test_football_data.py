import gzip
from datetime import datetime
from zoneinfo import ZoneInfo

import polars as pl
import pytest

from clvlab.errors import SourceError
from clvlab.odds.margin import Margin
from clvlab.packs.verification import verify_pack
from clvlab.sources.football_data import handicap, result_1x2, totals
from clvlab.sources.importer import import_source
from clvlab.sources.source import Options
from tests.factories import performed

HEADER = (
    "Div,Date,Time,HomeTeam,AwayTeam,FTHG,FTAG,FTR,PSH,PSD,PSA,AvgH,AvgD,AvgA,AHh,PAHH,PAHA,"
    "PSCH,PSCD,PSCA,AvgCH,AvgCD,AvgCA,AHCh,PCAHH,PCAHA"
)
_VALUES = "E0,13/08/2021,20:00,Ash,Elm,2,1,H,2.0,3.5,4.0,1.95,3.4,3.9,-0.5,1.95,1.95,2.1,3.4,3.8,2.05,3.3,3.7,-0.5,2.0,1.9"
ROW = dict(zip(HEADER.split(","), _VALUES.split(","), strict=True))


def season(tmp_path, *rows, header=HEADER, name="E0.csv", encoding="utf-8"):
    lines = [header] + [row if isinstance(row, str) else ",".join((ROW | row)[c] for c in header.split(",")) for row in rows]
    (tmp_path / name).write_bytes("\r\n".join([*lines, ""]).encode(encoding))
    return tmp_path / name


def imported(tmp_path, path, *, lenient=False, **options):
    report = import_source("football-data", [path], tmp_path / "p", Options(lenient=lenient, **options))
    return report, verify_pack(tmp_path / "p")


def frame(pack):
    return pack.tape().ticks().collect()


def test_a_match_has_two_ticks_a_market_before_its_kickoff_in_uk_time(tmp_path):
    report, pack = imported(tmp_path, season(tmp_path, {}), margin=Margin.MULTIPLICATIVE)

    kickoff = round(datetime(2021, 8, 13, 20, tzinfo=ZoneInfo("Europe/London")).timestamp() * 1000)
    assert report.manifest.fixtures[0].kickoff_ts_ms == kickoff
    ticks = frame(pack).filter(market_key="1X2_PARTICIPANT_RESULT||")
    assert ticks.with_columns(pl.col("ts_ms") - kickoff).select("ts_ms", "side", "prob_bps", "odds_milli").rows() == [
        (-86_400_000, "draw", 2759, 3500), (-86_400_000, "part1", 4827, 2000), (-86_400_000, "part2", 2414, 4000),
        (-1000, "draw", 2846, 3400), (-1000, "part1", 4608, 2100), (-1000, "part2", 2546, 3800),
    ]  # fmt: skip
    assert "synthetic" in report.manifest.consensus


def test_the_first_source_with_a_whole_close_is_taken_and_put_on_record(tmp_path):
    path = season(tmp_path, {}, {"HomeTeam": "Oak", "PSCD": ""})

    report, pack = imported(tmp_path, path)

    assert report.quality.notes["closing 1X2_PARTICIPANT_RESULT of pinnacle"] == 1
    assert report.quality.notes["closing 1X2_PARTICIPANT_RESULT of average"] == 1
    assert pack.manifest.closing_source == "pinnacle > betfair-exchange > average > maximum"
    odds = frame(pack).filter(side="draw")["odds_milli"].to_list()
    assert sorted(odds) == [3300, 3400, 3400, 3500]


def test_the_order_of_preference_is_the_callers(tmp_path):
    report, _ = imported(tmp_path, season(tmp_path, {}), closing=("average",))

    assert report.quality.notes["closing 1X2_PARTICIPANT_RESULT of average"] == 1
    assert report.manifest.closing_source == "average"


def test_a_handicap_whose_line_moved_has_no_close_on_the_first_line(tmp_path):
    _, pack = imported(tmp_path, season(tmp_path, {"AHCh": "-0.75"}))

    ticks = frame(pack).filter(pl.col("market_key").str.starts_with("ASIAN"), side="part1").sort("tick_seq")
    assert ticks.select("market_key", "suspended").rows() == [
        ("ASIANHANDICAP_PARTICIPANT_GOALS||line=-0.5", False),
        ("ASIANHANDICAP_PARTICIPANT_GOALS||line=-0.5", True),
        ("ASIANHANDICAP_PARTICIPANT_GOALS||line=-0.75", False),
    ]


def test_results_are_kept_next_to_the_ticks_and_no_tape_carries_them(tmp_path):
    _, pack = imported(tmp_path, season(tmp_path, {"AHCh": "-1"}))

    settled = {
        (key.partition("_")[0] + key[-3:], side): (result, detail) for _, key, side, result, detail in pack.results.rows()
    }
    assert settled["1X2T||", "part1"] == ("won", "2-1")
    assert settled["ASIAN" + "HANDICAP" + "=-1", "part1"] == ("void", "2-1")
    assert set(frame(pack).columns) & {"result", "detail"} == set()
    assert pack.manifest.results.startswith("sha256:")


def test_a_backtest_does_not_change_with_the_results(tmp_path):
    scores = []
    for n, goals in enumerate(({}, {"FTHG": "0", "FTAG": "3", "FTR": "A"})):
        import_source("football-data", [season(tmp_path, goals)], tmp_path / f"p{n}")
        scores.append(performed(verify_pack(tmp_path / f"p{n}")).scores)

    assert scores[0].equals(scores[1])


@pytest.mark.parametrize(
    ("lead", "line", "home"),
    [
        (1, -0.5, "won"),
        (0, -0.25, "half_lost"),
        (0, 0.25, "half_won"),
        (1, -1, "void"),
        (1, -1.25, "half_lost"),
        (0, -0.75, "lost"),
    ],
)
def test_handicaps_are_settled_to_the_quarter(lead, line, home):
    assert handicap(lead, line)["part1"] == home


def test_results_and_totals_are_settled_by_the_score():
    assert result_1x2(0) == {"part1": "lost", "draw": "won", "part2": "lost"}
    assert totals(3, 2.5) == {"over": "won", "under": "lost"}


def test_the_old_header_without_times_and_closing_columns_gives_one_tick_and_no_kickoff(tmp_path):
    header = "Div,Date,HomeTeam,AwayTeam,FTHG,FTAG,FTR,BbAvH,BbAvD,BbAvA,BbAHh,BbAvAHH,BbAvAHA"
    path = season(tmp_path, "E0,08/08/15,Ash,Elm,0,1,A,1.96,3.48,3.98,-0.5,1.93,1.92", header=header)

    report, pack = imported(tmp_path, path)

    assert report.manifest.fixtures[0].kickoff_ts_ms is None
    assert report.manifest.fixtures[0].source_id == "E0|2015-08-08|Ash|Elm"
    assert frame(pack)["tick_seq"].n_unique() == 2
    assert report.quality.notes["no closing 1X2_PARTICIPANT_RESULT: average before the match only"] == 1


def test_the_header_of_extra_leagues_is_read(tmp_path):
    header = "Country,League,Season,Date,Time,Home,Away,HG,AG,Res,PSCH,PSCD,PSCA"
    path = season(tmp_path, "Brazil,Serie A,2024,13/04/2024,22:30,Ash,Elm,1,1,D,2.1,3.2,3.9", header=header)

    report, pack = imported(tmp_path, path)

    assert report.manifest.fixtures[0].source_id == "Brazil Serie A|2024-04-13|Ash|Elm"
    assert pack.results.filter(side="draw")["result"].to_list() == ["won"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "cp1252"])
def test_names_of_both_encodings_are_read(tmp_path, encoding):
    report, _ = imported(tmp_path, season(tmp_path, {"HomeTeam": "Málaga"}, encoding=encoding))

    assert report.manifest.fixtures[0].names == ("Málaga", "Elm")


def test_blank_rows_at_the_end_and_gzip_are_read(tmp_path):
    path = season(tmp_path, {}, "," * HEADER.count(","), "")
    packed = tmp_path / "E0.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))

    report, _ = imported(tmp_path, packed)

    assert (report.quality.messages, report.quality.refused_rows) == (1, 0)


BAD = {
    "25 cells under a header of 26": ",".join(ROW.values()).rsplit(",", 1)[0],
    "27 cells under a header of 26": ",".join(ROW.values()) + ",",
    "Date '2021-08-13'": {"Date": "2021-08-13"},
    "Time '8pm'": {"Time": "8pm"},
    "PSCH '0' is no price": {"PSCH": "0"},
    "PSCH '-2' is no price": {"PSCH": "-2"},
    "PSCH 'nan' is no price": {"PSCH": "nan"},
    "PSCH '0.9' is no price": {"PSCH": "0.9"},
    "result 'A' is not that of 2-1": {"FTR": "A"},
    "goals '2' and 'x'": {"FTAG": "x"},
    "league 'D1' in a file of 'E0'": {"Div": "D1"},
    "is listed twice": {"HomeTeam": "Oak"},
    "no match": {"AwayTeam": "Yew", "HomeTeam": "Yew"},
}


@pytest.mark.parametrize("reason", BAD)
def test_a_row_that_cant_be_read_is_refused_with_file_line_and_reason_or_counted(tmp_path, reason):
    bad = BAD[reason] if isinstance(BAD[reason], str) else {"HomeTeam": "Fir"} | BAD[reason]
    path = season(tmp_path, {"HomeTeam": "Oak"}, bad, {"HomeTeam": "Yew"})

    with pytest.raises(SourceError, match=rf"E0\.csv:3: .*{reason}"):
        imported(tmp_path, path)
    assert not (tmp_path / "p").exists()
    report, _ = imported(tmp_path, path, lenient=True)

    assert report.quality.refused_rows == 1
    assert report.quality.fixtures - report.quality.fixtures_without_ticks == (3 if "price" in reason else 2)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "has no header"),
        (b"a,b,c\n1,2,3\n", "lacks 'Date'"),
        (b"Div,Date,HomeTeam,AwayTeam,Date\n", "names 'Date' twice"),
        (b'Div,Date,HomeTeam,AwayTeam\nE0,"13/08/2021,A,B\n', "no CSV"),
        (b"Div,Date,HomeTeam,AwayTeam\nE0,13/08/2021,\x81\x8d,B\n", "neither UTF-8 nor cp1252"),
    ],
)
def test_a_file_that_is_no_season_is_refused(tmp_path, content, text):
    (tmp_path / "x.csv").write_bytes(content)

    with pytest.raises(SourceError, match=rf"x\.csv.*{text}"):
        imported(tmp_path, tmp_path / "x.csv")


def test_an_unknown_closing_source_is_refused(tmp_path):
    with pytest.raises(SourceError, match="'tote'"):
        imported(tmp_path, season(tmp_path, {}), closing=("tote",))


@pytest.mark.realdata
def test_the_real_seasons_are_read_whole_with_their_results(realdata, tmp_path):
    report, pack = imported(tmp_path, realdata / "football-data")

    assert (report.quality.fixtures, report.quality.refused_rows) == (2192, 0)
    assert report.quality.notes["closing 1X2_PARTICIPANT_RESULT of pinnacle"] == 1968
    assert pack.results.filter(pl.col("market_key") == "1X2_PARTICIPANT_RESULT||", result="won").height == 2192
    run = performed(pack)
    assert run.verification.passed
