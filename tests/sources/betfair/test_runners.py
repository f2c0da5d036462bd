"""Tables of Betfair's runners: what is read of starting prices and of best prices, and what of them is left out."""

import polars as pl
import pytest

from clvlab.errors import SourceError
from clvlab.packs.verification import verify_pack
from clvlab.sources.importer import import_options, import_source

HEADER = (
    "EVENT_ID,MENU_HINT,EVENT_NAME,EVENT_DT,SELECTION_ID,SELECTION_NAME,WIN_LOSE,BSP,PPWAP,MORNINGWAP,PPMAX,PPMIN,IPMAX,IPMIN,"
    "MORNINGTRADEDVOL,PPTRADEDVOL,IPTRADEDVOL"
)
ROWS = (
    "2220,GB / Ling 1st Jul,1m Hcap,01-07-2024 15:05,11,Ash,1,2.0,9.9,2.5,3,2,5,1.01,100,2000,50",
    "2220,GB / Ling 1st Jul,1m Hcap,01-07-2024 15:05,12,Elm,0,4.0,9.9,3.2,4,3,1000,3,90,1500,20",
    "2220,GB / Ling 1st Jul,1m Hcap,01-07-2024 15:05,13,Oak,0,4.0,9.9,4.0,6,4,1000,4,80,900,20",
    "2220,GB / Ling 1st Jul,1m Hcap,01-07-2024 15:05,14,Yew,0,,,6.0,,,,,10,0,0",
)
OFF_MS = 1_719_842_700_000  # 15:05 of London's summer is 14:05 UTC
SPANS = "EVENT_DATE,EVENT_ID,MARKET_TYPE,MARKET_ID,SELECTION_ID,RUNNER_NAME,HANDICAP,IS_WINNER,HOME_TEAM,AWAY_TEAM"
BEST = "BEST_BACK_PRICE_60_MIN_PRIOR,BEST_LAY_PRICE_60_MIN_PRIOR,BEST_BACK_PRICE_1_MIN_PRIOR,BEST_LAY_PRICE_1_MIN_PRIOR"


def imported(tmp_path, *rows, header=HEADER, zone="Europe/London", source=None, **options):
    (tmp_path / "runners.csv").write_text("\n".join([header, *rows]) + "\n")
    report = import_source(source, [tmp_path / "runners.csv"], tmp_path / "p", import_options(time_zone=zone, **options))
    return report, verify_pack(tmp_path / "p")


def tick_rows(pack, *columns):
    return pack.tape().ticks().collect().sort("tick_seq", "side").select(*columns).rows()


def test_starting_prices_are_the_close_and_the_morning_is_before_it(tmp_path):
    report, pack = imported(tmp_path, *ROWS, lenient=False)

    morning_ms = OFF_MS - 4 * 3_600_000 - 5 * 60_000
    assert report.recognised.source == "betfair-csv"
    assert tick_rows(pack, "ts_ms", "side", "odds_milli") == [
        *((morning_ms, side, odds) for side, odds in (("11", 2500), ("12", 3200), ("13", 4000))),
        *((OFF_MS - 1000, side, odds) for side, odds in (("11", 2000), ("12", 4000), ("13", 4000))),
    ]
    assert [row[0] for row in tick_rows(pack, "prob_bps")[3:]] == [5000, 2500, 2500]
    (fixture,) = pack.manifest.fixtures
    assert (fixture.names, fixture.kickoff_ts_ms) == (("GB / Ling 1st Jul 1m Hcap",), OFF_MS)
    assert pack.results.sort("side").select("side", "result", "detail").rows() == [
        ("11", "won", "Ash"), ("12", "lost", "Elm"), ("13", "lost", "Oak"),
    ]  # fmt: skip
    assert report.quality.notes["runners without a starting price, which did not run, are left out"] == 1
    assert (pack.provenance, pack.manifest.closing_source) == ("imported-betfair-csv", "starting price")


@pytest.mark.parametrize(
    "header",
    [
        HEADER.lower(),
        HEADER.replace("_", " ").replace("WIN LOSE", "Win/Lose").replace("MORNINGWAP", "Morning WAP"),
        HEADER.replace(",", ";"),
    ],
)
def test_headers_are_read_in_other_letters_and_with_other_delimiters(tmp_path, header):
    rows = [row.replace(",", ";") for row in ROWS] if ";" in header else ROWS

    report, pack = imported(tmp_path, *rows, header=header)

    assert (report.recognised.source, report.quality.ticks, pack.results.height) == ("betfair-csv", 2, 3)


def test_the_time_of_a_race_needs_its_zone(tmp_path):
    with pytest.raises(SourceError, match=r"runners\.csv:2: '01-07-2024 15:05' has no time zone"):
        imported(tmp_path, *ROWS, zone=None, lenient=False)


def test_a_race_before_eleven_has_no_morning(tmp_path):
    _, pack = imported(tmp_path, *(row.replace("15:05", "10:30") for row in ROWS))

    assert len({ts_ms for (ts_ms,) in tick_rows(pack, "ts_ms")}) == 1


def test_a_market_of_several_winners_is_one_a_runner(tmp_path):
    report, pack = imported(tmp_path, *(row.replace(",4.0,9.9", ",1.25,9.9").replace(",12,Elm,0", ",12,Elm,1") for row in ROWS))

    closes = pack.tape().ticks().collect().filter(pl.col("ts_ms") == OFF_MS - 1000)
    assert closes["market_key"].unique().sort().to_list() == [f"PLACE||selection={n}" for n in (11, 12, 13)]
    assert closes.filter(pl.col("market_key") == "PLACE||selection=12").sort("side").select("side", "prob_bps").rows() == [
        ("no", 2000), ("yes", 8000),
    ]  # fmt: skip
    assert (report.quality.markets, pack.results.filter(pl.col("result") == "won").height) == (3, 3)


def test_one_bad_price_leaves_the_other_races_and_is_counted(tmp_path):
    other = [row.replace("2220,", "2221,") for row in ROWS]

    report, pack = imported(tmp_path, *ROWS[:1], ROWS[1].replace(",4.0,", ",0.9,"), *ROWS[2:], *other)

    (refused,) = report.quality.refused
    assert (refused.reason, refused.count) == ("no odds", 1)
    assert refused.examples[0].startswith("runners.csv:3: '0.9' is no price")
    assert (report.quality.fixtures, report.quality.suspended_ticks) == (2, 1)
    assert len(pack.fixture_ids) == 2


def test_of_a_table_that_is_cut_off_the_last_market_is_left_out(tmp_path):
    (tmp_path / "runners.csv").write_text("\n".join([HEADER, *ROWS, *ROWS[:2]]).replace("\n2220", "\n2221", 3) + '\n2223,"GB')

    report = import_source("betfair-csv", [tmp_path / "runners.csv"], tmp_path / "p", import_options(time_zone="UTC"))

    assert report.quality.refused_rows == 1
    assert report.quality.fixtures_without_ticks == 1


def test_best_prices_before_a_match_are_its_mids(tmp_path):
    rows = [
        "2024-12-15 00:00:00.000 Z,7,MATCH_ODDS,99,1,Ash,0,1,Ash,Elm,1.98,2.02,1.90,1.92",
        "2024-12-15 00:00:00.000 Z,7,MATCH_ODDS,99,2,Elm,0,0,Ash,Elm,1.98,2.02,2.08,2.12",
        "2024-12-15 00:00:00.000 Z,7,LINE,98,3,Runs,0,0,Ash,Elm,5.5,6.5,4.5,5.5",
    ]

    report, pack = imported(tmp_path, *rows, header=f"{SPANS},{BEST}", zone=None)

    end_ms = 1_734_220_800_000 + 86_400_000
    assert tick_rows(pack, "ts_ms", "market_key", "side", "prob_bps", "odds_milli") == [
        (end_ms - 3_600_000, "MATCH_ODDS||", "1", 5000, 1980),
        (end_ms - 3_600_000, "MATCH_ODDS||", "2", 5000, 1980),
        (end_ms - 60_000, "MATCH_ODDS||", "1", 5237, 1900),
        (end_ms - 60_000, "MATCH_ODDS||", "2", 4763, 2080),
    ]
    (fixture,) = pack.manifest.fixtures
    assert (fixture.names, fixture.kickoff_ts_ms) == (("Ash", "Elm"), None)  # the file tells a day, and no time of it
    assert report.quality.notes["markets of one runner are left out: a line, or a walkover"] == 1


def test_two_kinds_of_tables_are_imported_one_by_one(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("\n".join([HEADER, *ROWS]) + "\n")
    (tmp_path / "in" / "b.csv").write_text(f"{SPANS},{BEST}\n2024-12-15T00:00Z,7,M,99,1,Ash,0,1,Ash,Elm,2,2.1,2,2.1\n")

    with pytest.raises(SourceError, match=r"b\.csv: starting prices and best prices are tables of two kinds"):
        import_source("betfair-csv", [tmp_path / "in"], tmp_path / "p", import_options(time_zone="UTC", lenient=False))


@pytest.mark.realdata
def test_the_prices_of_a_season_of_cricket_are_read(realdata, tmp_path):
    report = import_source(None, [realdata / "other" / "BBL14_All_Markets.csv.gz"], tmp_path / "p", import_options())

    matches = verify_pack(tmp_path / "p").tape().ticks().collect().filter(pl.col("market_key") == "MATCH_ODDS||")
    assert (report.recognised.source, report.quality.messages) == ("betfair-csv", 9183)
    assert matches.filter(~pl.col("suspended"))["fixture_id"].n_unique() > 30
