import numpy as np
import polars as pl
import pytest

import clvlab as cl
from clvlab.errors import StatisticsError, UnknownAgentError
from clvlab.report.regression import CATEGORIES, NUMBERS, RESPONSES, regression_of
from clvlab.statistics import cluster_mean, parse_formula, regress
from clvlab.words import kinds_of


@pytest.fixture(scope="module")
def season():
    return cl.backtest("season", "cumulative-drift")


@pytest.fixture(scope="module")
def leagues(tmp_path_factory):
    """A run over a pack whose source ids begin with a league; one league has a single fixture."""
    rng, lines = np.random.default_rng(4), ["fixture,time,market,side,odds,kickoff"]
    for league, count in (("E0", 12), ("D1", 8), ("CUP", 1)):
        for n in range(count):
            for hour in (9, 11, 13, 14):
                home, day = rng.uniform(1.7, 2.1), f"2026-01-{n + 1:02}"
                for side, price in (("home", home), ("away", 3.9 - home)):
                    lines.append(f"{league}|{n},{day}T{hour:02}:00Z,h2h,{side},{price:.3f},{day}T15:00Z")
    folder = tmp_path_factory.mktemp("odds")
    (folder / "odds.csv").write_text("\n".join(lines), encoding="utf-8")
    agent = cl.strategy(agent_id="early")(lambda ticks: ticks.filter(pl.col("tick_seq") < 3))
    with cl.Lab() as lab:
        return lab.backtest(lab.import_odds("csv", folder / "odds.csv"), agent, audit=False)


def test_a_result_and_its_sheet_say_what_the_statistic_says(season):
    sheet = season.tear_sheet()
    text = "clv_bps ~ log(to_close_s) + side"

    found = regress(sheet.scored, parse_formula(text, ["clv_bps"], ["to_close_s"], ["side"]), "fixture_id")

    assert season.regress(text).frame.equals(found.frame)
    assert sheet.regress(text).frame.equals(found.frame)
    assert (season.regress(text).source.n, season.regress(text).source.n_clusters) == (5_324, 299)


def test_groups_alone_are_the_means_of_groups(season):
    rows = season.regress("clv_bps ~ market").frame.rows(named=True)
    scored = season.tear_sheet().scored
    kind = pl.col("market_key").replace_strict(kinds_of(scored["market_key"].unique()))

    base = season.regress("clv_bps ~ market").source.bases["market"]
    mean = cluster_mean(*(scored.filter(kind == base)[name] for name in ("clv_bps", "fixture_id")))
    assert rows[0]["coefficient"] == pytest.approx(mean.mean)


@pytest.mark.parametrize("name", [*NUMBERS, *CATEGORIES])
def test_every_column_is_a_term_or_named_as_left_out(season, name):
    if name == "league":  # of this pack, none is known
        with pytest.raises(StatisticsError, match="no league: 5,324"):
            season.regress("clv_bps ~ league")
        return
    found = season.regress(f"clv_bps ~ {name}")

    assert any(name in term for term in found.frame["term"]) or name in found.source.dropped


def test_an_intercept_that_is_apart_from_0_is_said_and_no_test_is_no_finding(season, leagues):
    """The margin makes every edge a loss: the intercept is far below 0, whatever the odds."""
    found = season.regress("edge_pct ~ odds")
    sheet = leagues.tear_sheet()
    few = sheet.only(fixtures=sheet.scored["fixture_id"].unique().sort()[:5].to_list()).regress("clv_bps ~ side:odds")

    assert found.frame["p_holm"][0] < 0.001
    assert found.line.endswith(": only the intercept can be distinguished from 0 with 2 tests counted")
    assert few.frame["p_holm"].count() == 0
    assert few.line.endswith(": no coefficient can be tested")


@pytest.mark.parametrize("response", RESPONSES)
def test_every_response_has_its_unit(season, response):
    found = season.regress(f"{response} ~ log(odds)")

    assert found.unit in ("bps", "%")
    assert f"coefficient, {found.unit}" in found._repr_html_()


def test_a_league_of_one_fixture_is_named(leagues):
    found = leagues.regress("clv_bps ~ log(to_close_s) + league")

    assert found.frame["term"].to_list() == ["intercept", "log(to_close_s)", "league[D1]"]
    assert found.source.bases == {"league": "E0"}
    assert "league[CUP] has no coefficient: one fixture alone has it" in found.cautions
    assert any(text.startswith("decisions left out: league[CUP] of one fixture") for text in found.cautions)
    assert "2 cautions, in .cautions" in repr(found)
    assert "a level without a row (league E0)" in found._repr_html_()


def test_an_effect_that_is_there_is_announced(season):
    """The entry probability is part of CLV: a high entry goes with a low score, mechanically."""
    sheet = season.tear_sheet()
    moved = sheet.scored.with_columns(clv_bps=pl.col("clv_bps") + 400 * pl.col("side").is_in(["over"]))

    found = regression_of(moved, sheet.source.pack, "clv_bps ~ side", 0.95)

    assert "apart from 0 with 5 tests counted: side[over] +" in found.line
    assert "no coefficient can be distinguished from 0" in season.regress("clv_bps ~ side").line


def test_a_selection_and_a_level_are_its_own(season):
    sheet = season.tear_sheet(level=0.8)
    part = sheet.only(sides=["over", "under"])

    assert part.regress("clv_bps ~ side").source.n == part.scored.height
    wide, narrow = (season.regress("clv_bps ~ odds", level=level).frame.row(1, named=True) for level in (0.99, 0.8))
    assert wide["low"] < narrow["low"] < narrow["high"] < wide["high"]
    assert sheet.regress("clv_bps ~ odds").frame.row(1, named=True) == narrow


def test_what_can_not_be_read_is_refused(season):
    for text in ("clv_bps ~ legue", "profit ~ side", "clv_bps", 3, "clv_bps ~ __import__('os').system('true')"):
        with pytest.raises(StatisticsError):
            season.regress(text)
    with pytest.raises(StatisticsError, match="level of an interval"):
        season.regress("clv_bps ~ side", level=2)


def test_several_agents_need_a_name():
    both = cl.Lab().compete("season", ["baseline", "cumulative-drift"])

    with pytest.raises(UnknownAgentError, match="name one of"):
        both.regress("clv_bps ~ side")
    assert both.regress("clv_bps ~ side", agent_id="baseline").source.n_clusters > 5


def test_a_regression_is_exported(season, tmp_path):
    found = season.regress("clv_bps ~ log(to_close_s) + side + in_gap")

    assert pl.read_csv(found.to_csv(tmp_path / "terms.csv")).columns == found.frame.columns
    page = found.to_html(tmp_path / "terms.html").read_text("utf-8")
    assert "in_gap has no coefficient: does not vary" in page
    assert "What goes with a score need not cause it" in page


def test_long_names_of_terms_break_where_a_screen_is_narrow(season):
    """The names have no space: without a break they would widen the card beyond a phone."""
    card = season.regress("clv_bps ~ log(odds):side:market")._repr_html_()

    assert "ASIANHANDICAP_PARTICIPANT_GOALS] has no coefficient" in card
    assert ".clvlab p{margin:.3rem 0;overflow-wrap:anywhere}" in card
