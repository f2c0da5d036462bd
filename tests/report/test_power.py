import polars as pl
import pytest

import clvlab as cl
from clvlab.errors import StatisticsError, UnknownAgentError
from clvlab.statistics import power

GRID = {"warmup_ticks": [10, 20, 40], "cooldown_s": [0, 3600]}


@pytest.fixture(scope="module")
def season():
    return cl.backtest("season", "cumulative-drift")


@pytest.fixture(scope="module")
def swept():
    return cl.sweep("season", "cumulative-drift", GRID, progress=False)


def test_a_result_and_its_sheet_say_what_the_statistic_says(season):
    sheet = season.tear_sheet()

    found = power(sheet.scored["clv_bps"], sheet.scored["fixture_id"], edge=34)

    rows = [one.frame.row(0) for one in (season.power(34), sheet.power(edge=34.0))]
    assert rows[0] == rows[1] == (34.0, found.power, 299, found.needed, found.more, found.more_low, found.more_high)
    missing = f"{found.more:,} more fixtures [{found.more_low:,}, {found.more_high:,}] would make it 80%"
    assert missing in repr(season.power(34))


def test_without_an_edge_only_round_ones_are_computed(season):
    found = season.power()

    assert found.frame["edge"].to_list() == [5, 10, 20, 50]
    assert found.frame["more"].to_list()[-1] == 0
    assert "26,333 more, 10 takes" in found.line
    assert "+26,333" in found._repr_html_()


def test_another_level_needs_other_numbers_and_another_measure_has_another_unit(season):
    at_level, wider = (season.power(34, level=level).frame["more"][0] for level in (0.95, 0.99))

    assert wider > at_level
    assert "an edge of 0.5 % shows with the 299 fixtures" in season.power(0.5, by="edge").line
    assert season.power(0.5, by="edge").frame["more"][0] != season.power(0.5, by="price_ratio").frame["more"][0]


def test_the_sheet_shows_the_ruler_and_no_power_at_the_mean(season):
    page = season.tear_sheet(resamples=50, draws=2)._repr_html_()

    assert "50 bps shows now" in page
    assert "47 bps shows now, whatever the mean" in page
    assert "+27 bps takes" not in page


def test_a_sheet_of_few_fixtures_has_no_ruler_and_refuses(season):
    few = season.tear_sheet(resamples=50, draws=2).only(fixtures=season.pack.fixture_ids[:4])

    assert "shows now" not in few._repr_html_()
    with pytest.raises(StatisticsError, match="5 fixtures or more"):
        few.power(34)


def test_each_point_of_a_sweep_is_judged_with_all_trials_counted(swept):
    found, more = swept.power(34), cl.sweep(
        "season", "cumulative-drift", GRID, earlier_trials=500, progress=False
    ).power(34)  # fmt: skip

    assert found.frame.columns[:3] == ["warmup_ticks", "cooldown_s", "edge"]
    assert found.frame.select("warmup_ticks", "cooldown_s").equals(swept.frame.select("warmup_ticks", "cooldown_s"))
    assert (more.frame["more"] > found.frame["more"]).all()
    assert "counts 506 trials, is below 0.05" in more._repr_html_()
    assert repr(found).startswith("Power of the mean CLV: of 6 points, at best an edge of 34 bps shows")


def test_points_without_a_p_value_are_left_out():
    grid = {"warmup_ticks": [10, 5_000]}
    found = cl.sweep("season", "cumulative-drift", grid, progress=False).power(34)

    assert found.frame["warmup_ticks"].to_list() == [10]
    nothing = cl.sweep("season", "cumulative-drift", {"warmup_ticks": [5_000]}, progress=False).power(34)
    assert nothing.frame.is_empty()
    assert "no point has scored decisions" in repr(nothing)


def test_a_walk_forward_counts_its_fixtures_out_of_sample():
    walk = cl.walk_forward("season", "cumulative-drift", {"warmup_ticks": [10, 40]}, folds=3, objective="edge", progress=False)

    found = walk.power(1)

    assert found.frame["fixtures"][0] == walk.sheet.edge.n_clusters
    assert "an edge of 1 % shows" in found.line


@pytest.mark.parametrize("edge", [0, -1, "34", float("nan")])
def test_an_edge_that_is_none_is_refused_everywhere(season, swept, edge):
    for found in (season, season.tear_sheet(), swept):
        with pytest.raises(StatisticsError, match="an edge is"):
            found.power(edge)


def test_several_agents_need_a_name():
    both = cl.Lab().compete("starter", ["baseline", "cumulative-drift"])

    with pytest.raises(UnknownAgentError, match="name one of"):
        both.power(34)
    assert both.power(34, agent_id="baseline").frame.height == 1


def test_a_power_is_exported(season, tmp_path):
    found = season.power(34)

    assert pl.read_csv(found.to_csv(tmp_path / "power.csv")).columns == found.frame.columns
    assert "more fixtures" in found.to_html(tmp_path / "power.html").read_text("utf-8")
