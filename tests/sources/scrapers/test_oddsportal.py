import pytest

from clvlab.errors import SourceError
from clvlab.packs.verification import verify_pack
from clvlab.sources.importer import import_options, import_source
from tests.samples import oddsportal
from tests.sources.plain import states_by_time

MATCH = "1X2_PARTICIPANT_RESULT||"
KICKOFF_MS = 1_772_377_200_000
DAY_MS = 86_400_000


def imported(tmp_path, text, *, lenient=False, **options):
    (tmp_path / "season.csv").write_text(text)
    return import_source(
        "oddsportal", [tmp_path / "season.csv"], tmp_path / "p", import_options(lenient=lenient, **options)
    ).quality


def states(tmp_path):
    return {(ts_ms, key): odds for (_, ts_ms, key), (_, odds) in states_by_time(verify_pack(tmp_path / "p")).items()}


HEADERS = {
    "date,time,home,away,1,X,2": "01/03/2026,15:00",
    "Date,Time,Home,Away,odds_1,odds_x,odds_2": "2026-03-01,15:00",
    "match_date,match_time,home_team,away_team,home_odds,draw_odds,away_odds": "01 Mar 2026,15:00",
    "date,time,team1,team2,avg_1,avg_X,avg_2": "01.03.2026,15:00",
}


@pytest.mark.parametrize("header", HEADERS)
def test_columns_and_days_are_read_as_they_are_usually_written(tmp_path, header):
    quality = imported(tmp_path, f"{header}\n{HEADERS[header]},Ash,Elm,2.00,3.50,4.00\n", time_zone="UTC")

    assert states(tmp_path) == {(KICKOFF_MS - 1000, MATCH): {"part1": 2000, "draw": 3500, "part2": 4000}}
    assert quality.notes["markets that can't be entered before their close: they were seen once"] == 1


@pytest.mark.parametrize(
    "when", ["2026-03-01T15:00:00Z", "2026-03-01 16:00:00+01:00", "01 Mar 2026 15:00", "01/03/2026, 15:00"]
)
def test_date_and_time_may_stand_in_one_cell(tmp_path, when):
    imported(tmp_path, f'date,home,away,1,X,2\n"{when}",Ash,Elm,2.00,3.50,4.00\n', time_zone="UTC")

    assert verify_pack(tmp_path / "p").manifest.fixtures[0].kickoff_ts_ms == KICKOFF_MS


@pytest.mark.parametrize("column", ["League", "competition", "tournament"])
def test_a_match_names_its_league_if_a_column_does(tmp_path, column):
    imported(tmp_path, f"{column},date,time,home,away,1,X,2\nGrove,01/03/2026,15:00,Ash,Elm,2,3.5,4\n", time_zone="UTC")

    assert verify_pack(tmp_path / "p").manifest.fixtures[0].league == "Grove"


def test_opening_odds_stand_a_day_before_and_two_sides_are_a_market_of_their_own(tmp_path):
    text = "date,time,home,away,opening_1,opening_2,1,2\n01/03/2026,15:00,Ash,Elm,1.9,2.0,-110,+150\n"

    imported(tmp_path, text.replace("1.9,2.0", "+100,-120"), time_zone="UTC", odds_format="american")

    assert states(tmp_path) == {
        (KICKOFF_MS - 1000 - DAY_MS, "MATCH_WINNER||"): {"part1": 2000, "part2": 1833},
        (KICKOFF_MS - 1000, "MATCH_WINNER||"): {"part1": 1909, "part2": 2500},
    }


def test_a_time_of_day_needs_its_zone_and_a_day_alone_gives_no_kickoff(tmp_path):
    with pytest.raises(SourceError, match=r"season\.csv:2: .* has no time zone"):
        imported(tmp_path, "date,time,home,away,1,X,2\n01/03/2026,15:00,Ash,Elm,2.00,3.50,4.00\n")
    quality = imported(tmp_path, "date,home,away,1,X,2\n01/03/2026,Ash,Elm,2.00,3.50,4.00\n")

    assert (quality.fixtures_without_kickoff, quality.notes["matches without a time of day have no kickoff"]) == (1, 1)


def test_a_row_a_book_is_one_match_and_two_matches_of_the_same_teams_are_two(tmp_path):
    rows = ["01/03/2026,15:00,Ash,Elm,Birch,2.0,3.5,4.0", "01/03/2026,15:00,Ash,Elm,Cedar,2.1,3.4,3.9",
            "01/03/2026,19:00,Ash,Elm,Birch,1.8,3.7,4.5"]  # fmt: skip
    quality = imported(tmp_path, "\n".join(["date,time,home,away,bookmaker,1,X,2", *rows]) + "\n", time_zone="UTC")

    assert (quality.fixtures, quality.ticks, quality.books_per_tick.max) == (2, 2, 2)


@pytest.mark.parametrize(
    "row", ["yesterday,15:00,Ash,Elm,2,3,4", "01/03/2026,15:00,Ash,Ash,2,3,4", "01/03/2026,15:00,Ash,Elm,2,x,4"]
)
def test_a_row_that_is_no_match_is_refused_with_its_line(tmp_path, row):
    text = f"date,time,home,away,1,X,2\n01/03/2026,15:00,Oak,Fir,2.00,3.50,4.00\n{row}\n"

    with pytest.raises(SourceError, match=r"season\.csv:3: "):
        imported(tmp_path, text, time_zone="UTC")

    assert imported(tmp_path, text, time_zone="UTC", lenient=True).refused_rows == 1


@pytest.mark.parametrize("mapping", [{"columns": ["date"]}, {"column": {}}, {"sides": "1"}, {"fixtures": []}])
def test_a_mapping_of_another_shape_is_refused(tmp_path, mapping):
    with pytest.raises(SourceError, match=r"of a mapping go from|has no key"):
        imported(tmp_path, "date,home,away,1,X,2\n01/03/2026,Ash,Elm,2.00,3.50,4.00\n", mapping=mapping)


def test_other_columns_are_named_by_flags(tmp_path):
    text = "day,clock,H,A,w,d,l\n01/03/2026,15:00,Ash,Elm,2.00,3.50,4.00\n"
    columns = {"date": "day", "time": "clock", "home": "H", "away": "A"}
    sides = {"part1": "w", "draw": "d", "part2": "l"}

    with pytest.raises(SourceError, match="no match can be read of the columns 'day', 'clock'"):
        imported(tmp_path, text)
    with pytest.raises(SourceError, match="'Day', which is not one of the columns"):
        imported(tmp_path, text, mapping={"columns": {"date": "Day"}})
    with pytest.raises(SourceError, match="'hme' is no meaning here: did you mean 'home'"):
        imported(tmp_path, text, mapping={"columns": {"hme": "H"}})
    imported(tmp_path, text, mapping={"columns": columns, "sides": sides}, time_zone="UTC")

    assert list(states(tmp_path)) == [(KICKOFF_MS - 1000, MATCH)]


@pytest.mark.parametrize("delimiter", ",;\t|")
def test_a_plain_loop_over_the_sample_gives_the_same_odds(tmp_path, delimiter):
    imported(tmp_path, oddsportal.text(3, delimiter), time_zone="UTC")

    rows = [line.split(",")[6:] for line in oddsportal.text(3).splitlines()[1:]]
    expected = [[round(float(cell) * 1000) for cell in cells] for row in rows for cells in (row[:3], row[3:])]
    found = [
        [odds[side] for side in ("part1", "draw", "part2")] for _, odds in states_by_time(verify_pack(tmp_path / "p")).values()
    ]
    assert sorted(expected) == sorted(found)
