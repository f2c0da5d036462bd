from datetime import UTC, date, datetime

import polars as pl
import pytest

import clvlab as cl
from clvlab.errors import StatisticsError, UnknownFixtureError
from clvlab.report.selection import Selection
from clvlab.statistics import cluster_mean

_TOTALS = "OVERUNDER_PARTICIPANT_GOALS"


@pytest.fixture(scope="module")
def sheet():
    return cl.backtest("starter", "cumulative-drift").tear_sheet(resamples=50, draws=5)


@pytest.fixture(scope="module")
def two_leagues(tmp_path_factory):
    """A pack whose source ids begin with a league."""
    lines = ["fixture,time,market,side,odds,kickoff"]
    for league in ("E0", "D1"):
        for n in range(6):
            for time, odds in (("12:00", ("2.00", "1.90")), ("14:30", ("1.90", "2.00"))):
                for side, price in zip(("home", "away"), odds, strict=True):
                    day = f"2026-01-{2 + n:02}"
                    lines.append(f"{league}|{n},{day}T{time}Z,h2h,{side},{price},{day}T15:00Z")
    folder = tmp_path_factory.mktemp("odds")
    (folder / "odds.csv").write_text("\n".join(lines), encoding="utf-8")
    agent = cl.strategy(agent_id="first")(lambda ticks: ticks.filter(pl.col("tick_seq") == 0))
    with cl.Lab() as lab:
        return lab.backtest(lab.import_odds("csv", folder / "odds.csv"), agent, audit=False).tear_sheet(resamples=50, draws=5)


def test_a_part_is_what_its_rows_say(sheet):
    part = sheet.only(markets=[_TOTALS], sides=["over"])
    rows = sheet.scored.filter(pl.col("market_key").str.starts_with(_TOTALS), pl.col("side") == "over")

    assert part.scored.equals(rows)
    assert part.clv == cluster_mean(rows["clv_bps"], rows["fixture_id"])
    assert part.tables["by_side"]["side"].to_list() == ["over"]


def test_parts_add_up_to_the_whole(sheet):
    sides = sheet.scored["side"].unique().to_list()

    assert sum(sheet.only(sides=[side]).clv.n for side in sides) == sheet.clv.n


def test_days_are_those_of_the_close_both_included(sheet):
    days = sheet.scored.select(pl.from_epoch("close_ts_ms", time_unit="ms").dt.date()).to_series()
    middle = days.sort()[days.len() // 2]

    before, on_or_after = sheet.only(until=date.fromordinal(middle.toordinal() - 1)), sheet.only(since=str(middle))

    assert before.clv.n + on_or_after.clv.n == sheet.clv.n
    assert sheet.only(since=middle, until=middle).clv.n == (days == middle).sum()


def test_leagues_are_those_that_the_source_names(two_leagues):
    one, other = two_leagues.only(leagues=["E0"]), two_leagues.only(leagues=["D1"])

    assert one.clv.n == other.clv.n == 12
    assert not set(one.scored["fixture_id"]) & set(other.scored["fixture_id"])
    with pytest.raises(StatisticsError, match="no league 'F1'; its leagues are D1, E0"):
        two_leagues.only(leagues=["F1"])


def test_counts_of_the_whole_run_are_not_shown_of_a_part(sheet):
    part = sheet.only(sides=["over"])

    assert sheet.tables["reasons"].height
    assert part.tables["reasons"].is_empty()
    walk = part.scored["clv_bps"].cum_sum()
    fall = part.frame.row(by_predicate=pl.col("figure") == "largest fall of the cumulative CLV", named=True)["value"]
    assert fall == min(total - max(0, *walk[: k + 1]) for k, total in enumerate(walk))


def test_a_part_says_that_it_is_one(sheet):
    shown = sheet.only(markets=[f"{_TOTALS}||line=2.5"])._repr_html_()

    assert "Only market Over/Under 2.5 goals." in shown
    assert "chosen from a larger run" in shown or "Loses" in shown


def test_a_part_without_a_decision_shows_itself_too(sheet):
    assert "no decision was scored" in sheet.only(sides=["nobody"])._repr_html_()


@pytest.mark.parametrize("wrong", [{"leagues": ["E0"]}, {"since": "soon"}, {"since": "2026-02-01", "until": "2026-01-01"}])
def test_what_makes_no_sense_is_refused_at_once(sheet, wrong):
    with pytest.raises(StatisticsError):
        sheet.only(**wrong)


def test_a_text_in_place_of_a_list_and_an_unknown_fixture_are_refused(sheet):
    with pytest.raises(StatisticsError, match="sides is a list"):
        Selection(sides="over")
    with pytest.raises(UnknownFixtureError):
        sheet.only(fixtures=[1])


def test_a_time_is_read_as_its_day_in_utc():
    assert Selection(since=datetime(2026, 1, 31, 23, 30, tzinfo=UTC)).since == date(2026, 1, 31)
