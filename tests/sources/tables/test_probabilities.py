"""Tables of probabilities without odds: read where they say when they stood, and else refused for what they are."""

import polars as pl
import pytest

import clvlab as cl
from clvlab.errors import SourceError
from clvlab.packs.verification import verify_pack
from clvlab.sources.importer import import_options, import_source
from clvlab.sources.recognition import probabilities_of

NOTE = "probabilities without odds: nothing is on offer that could be bet"


def imported(tmp_path, text, source=None, **options):
    (tmp_path / "x.csv").write_text(text)
    report = import_source(source, [tmp_path / "x.csv"], tmp_path / "p", import_options(**options))
    return report, verify_pack(tmp_path / "p").tape().ticks().collect().sort("tick_seq", "side")


WIDE = {
    "shares": ("home,draw,away", "0.50,0.30,0.20", "0.55,0.25,0.20"),
    "percent": ("home_pct,draw_pct,away_pct", "50.0,30.0,20.0", "55,25,20"),
    "percent signs": ("prob_home,prob_draw,prob_away", "50%,30%,20%", "55%,25%,20%"),
    "numbered": ("prob1,probtie,prob2", "0.50,0.30,0.20", "0.55,0.25,0.20"),
}


@pytest.mark.parametrize("kind", WIDE)
def test_probabilities_with_a_time_are_read_as_fair_and_nothing_is_on_offer(tmp_path, kind):
    header, first, last = WIDE[kind]
    rows = f"m,2026-01-02T12:00:00Z,{first}\nm,2026-01-02T13:00:00Z,{last}\n"

    report, ticks = imported(tmp_path, f"fixture,time,{header}\n{rows}")

    assert report.recognised.source == "csv"
    assert "probabilities without odds in" in str(report.recognised)
    assert ticks["prob_bps"].to_list() == [3000, 5000, 2000, 2500, 5500, 2000]
    assert (ticks["side"].unique().sort().to_list(), ticks["odds_milli"].null_count()) == (["draw", "part1", "part2"], 6)
    assert report.quality.notes[NOTE] == 6


def test_a_long_table_of_probabilities_is_read_likewise(tmp_path):
    rows = "m,2026-01-02T12:00:00Z,a,0.6\nm,2026-01-02T12:00:00Z,b,0.4\n"

    report, ticks = imported(tmp_path, f"fixture,time,side,probability\n{rows}")

    assert (report.recognised.source, ticks["prob_bps"].to_list(), report.quality.notes[NOTE]) == ("csv", [6000, 4000], 2)


def test_an_agent_bets_on_a_pack_of_probabilities_at_no_price(tmp_path):
    header = "fixture,time,kickoff,home,draw,away\n"
    rows = "".join(f"m,2026-01-02T{h}:00:00Z,2026-01-02T15:30:00Z,0.{50 + h},0.{40 - h},0.10\n" for h in range(10, 15))
    imported(tmp_path, header + rows)

    result = cl.backtest(cl.open_pack(tmp_path / "p"), "baseline")

    assert result.frame["valid_count"].to_list() == [1]  # scored by its probability alone


REFUSED = {
    "model": "date,home_team,away_team,home_prob,draw_prob,away_prob\n01/03/2026,Ash,Elm,0.45,0.28,0.27\n",
    "odds' names": "date,home,away,1,X,2\n01/03/2026,Ash,Elm,0.45,0.28,0.27\n01/03/2026,Oak,Yew,,,\n",
    "forecasts": "season,date,team1,team2,spi1,spi2,prob1,prob2,probtie\n2022,2022-08-05,Ash,Elm,80.1,60.2,0.62,0.15,0.23\n",
    "percent": "date;home;away;p1;px;p2\n01/03/2026;Ash;Elm;45;28;27\n",
}


@pytest.mark.parametrize("kind", REFUSED)
def test_probabilities_of_matches_are_refused_for_what_they_are(tmp_path, kind):
    with pytest.raises(
        SourceError, match=r"it holds probabilities, not odds: the columns .* which sum to 1.* in 1 row"
    ) as refused:
        imported(tmp_path, REFUSED[kind], time_zone="UTC")

    assert "Nobody offers them to be bet, and the table does not say when they stood" in str(refused.value)
    assert "probabilities: {part1: " in str(refused.value)


def test_a_source_that_is_named_says_that_the_table_holds_probabilities(tmp_path):
    with pytest.raises(
        SourceError, match=r"'0\.45' is no price.*; it holds probabilities, not odds, in the columns 1, X and 2"
    ):
        imported(tmp_path, REFUSED["odds' names"], "oddsportal", time_zone="UTC")


def test_prices_of_an_exchange_are_read_where_the_caller_says_so(tmp_path):
    report, ticks = imported(tmp_path, REFUSED["odds' names"], time_zone="UTC", odds_format="probability")
    ticks = ticks.filter(~pl.col("suspended"))

    assert (report.recognised.source, ticks["odds_milli"].to_list()) == ("oddsportal", [3571, 2222, 3704])


NOT = {
    "odds": "date,home,away,1,X,2\nd,Ash,Elm,2.2,3.5,3.7\n",
    "goals": "date,home,away,1,2\nd,Ash,Elm,3,1\nd,Ash,Elm,0,0\nd,Ash,Elm,2,2\n",
    "one goal each": "home,away\n1,0\n0,1\n1,1\n0,0\n",
    "names alone": "date,home,away\nd,Ash,Elm\n",
    "one row of ten": "home,draw,away\n0.5,0.3,0.2\n" + "0.9,0.3,0.2\n" * 9,
    "a negative": "home,away\n1.5,-0.5\n",
    "nothing": "",
    "a header": "home,draw,away\n",
    "quotes": 'home,draw,away\n0.5,"0.3,0.2\n',
}


@pytest.mark.parametrize("kind", NOT)
def test_other_numbers_are_no_probabilities(kind):
    assert probabilities_of(NOT[kind]) is None


def test_odds_next_to_probabilities_stay_odds(tmp_path):
    text = "date,time,home,away,1,X,2,p_home,p_draw,p_away\n01/03/2026,15:00,Ash,Elm,2.0,3.5,4.0,0.5,0.26,0.24\n"

    report, ticks = imported(tmp_path, text, time_zone="UTC")

    assert (report.recognised.source, ticks.filter(pl.col("side") == "draw")["odds_milli"].to_list()) == ("oddsportal", [3500])
