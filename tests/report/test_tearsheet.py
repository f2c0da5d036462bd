import re

import polars as pl
import pytest

import clvlab as cl
from clvlab.errors import StatisticsError
from clvlab.statistics import cluster_mean
from tests.hostile import without_times_script


@pytest.fixture(scope="module")
def bt():
    return cl.backtest("season", agent="cumulative-drift", fixtures=list(range(90000000, 90000040)))


@pytest.fixture(scope="module")
def sheet(bt):
    return bt.tear_sheet(resamples=500, draws=50)


@pytest.fixture(scope="module")
def silent():
    """A backtest whose window allows no market."""
    return cl.backtest("starter", window=cl.Window("none", market_allowlist=("NOTHING",))).tear_sheet(resamples=50, draws=5)


def value(sheet, figure):
    return sheet.frame.row(by_predicate=pl.col("figure") == figure, named=True)


def test_the_mean_with_all_that_was_scored_is_the_law_s(bt, sheet):
    scored = bt.scores.filter(pl.col("reason") == "scored")

    assert sheet.with_at_close.mean == pytest.approx(bt.report["metrics"]["avg_clv_bps"])
    assert sheet.with_at_close == cluster_mean(scored["clv_bps"], scored["fixture_id"])
    assert value(sheet, "mean CLV with entries at the closing message")["low"] == sheet.with_at_close.low


def test_entries_at_the_closing_message_are_left_out_and_counted(bt, sheet):
    late = bt.scores.filter(pl.col("reason") == "scored", "at_close")
    counted = bt.scores.filter(pl.col("reason") == "scored", ~pl.col("at_close"))

    assert late["clv_bps"].to_list() == [0] * sheet.left_out
    assert sheet.clv == cluster_mean(counted["clv_bps"], counted["fixture_id"])
    assert sheet.clv.n == sheet.with_at_close.n - sheet.left_out
    assert value(sheet, "mean CLV")["low"] == sheet.clv.low


def test_the_naive_t_is_that_of_independent_decisions(bt, sheet):
    clv = bt.scores.filter(~pl.col("at_close"))["clv_bps"].drop_nulls()

    naive = value(sheet, "t, as if decisions were independent")["value"]

    assert naive == pytest.approx(clv.mean() / (clv.std() / clv.len() ** 0.5))
    assert abs(naive) > abs(sheet.clv.t)


def test_the_price_ratio_and_the_edge_are_in_percent(bt, sheet):
    scored = bt.scores.filter(pl.col("reason") == "scored", ~pl.col("at_close"))

    assert sheet.price_ratio.mean == pytest.approx((100 * (scored["close_prob_bps"] / scored["entry_prob_bps"] - 1)).mean())
    assert sheet.edge.mean == pytest.approx(scored["edge_bps"].mean() / 100)


def test_moved_decisions_are_observed_with_the_mean_of_the_decisions(sheet):
    assert sheet.permutation.observed == pytest.approx(sheet.clv.mean)
    assert sheet.delay.observed == pytest.approx(sheet.clv.mean)
    assert 0.8 < sheet.permutation.matched <= 1


def test_every_breakdown_holds_every_scored_decision(sheet):
    for name in ("by_time", "by_market", "by_side", "by_probability", "fixtures"):
        assert sheet.tables[name]["n"].sum() == sheet.clv.n, name
    assert sheet.tables["reasons"]["decisions"].sum() == sheet.source.scores.height


def test_time_to_the_close_is_that_of_decision_and_close():
    bt = cl.backtest("starter", agent="cumulative-drift")
    row = bt.tear_sheet().scored.row(0, named=True)
    record = bt.run.decision(row["seq"])
    close = bt.source.evidence.closes.filter(pl.col("fixture_id") == row["fixture_id"])["close_ts_ms"][0]

    decided = bt.source.evidence.decisions.row(by_predicate=pl.col("seq") == row["seq"], named=True)["ts_ms"]
    assert row["to_close_s"] == (close - decided) / 1000
    assert record["clv_bps"] == row["clv_bps"]


def test_many_markets_are_pooled():
    frame = pl.Series("market_key", [f"m{k:02}" for k in range(30) for _ in range(30 - k)])
    from clvlab.report.breakdowns import _markets

    named = _markets(frame)

    assert named.n_unique() == 12
    assert "19 other markets" in named.to_list()


def test_the_top_five_are_the_best_fixtures(bt, sheet):
    totals = (
        bt.scores.filter(~pl.col("at_close"))
        .group_by("fixture_id")
        .agg(pl.sum("clv_bps"), n=pl.col("clv_bps").count())
        .sort("clv_bps")
    )

    left = totals.head(totals.height - 5)
    assert sheet.top_five[1] == pytest.approx(left["clv_bps"].sum() / left["n"].sum())


def test_refusals_of_the_policy_are_listed():
    policy = cl.PolicyEnvelope(max_orders=3)
    sheet = cl.backtest("starter", agent="cumulative-drift", policy=policy).tear_sheet(resamples=50, draws=5)

    assert "order_cap" in sheet.tables["refusals"]["reason"]
    assert "order_cap" in sheet._repr_html_()


def test_without_a_scored_decision_the_sheet_says_so_and_still_shows(silent):
    assert "no scored decision" in repr(silent)
    assert silent.permutation is None
    assert silent.delay is None
    assert silent.frame["value"].drop_nulls().is_empty()
    assert "<svg" not in silent._repr_html_()


def test_the_same_seed_gives_the_same_figures(bt):
    one, again = (bt.tear_sheet(resamples=100, draws=10) for _ in range(2))

    assert one.frame.equals(again.frame)
    assert one.permutation.p_value == again.permutation.p_value


def test_the_page_opens_without_a_network_and_closes_its_elements(sheet, tmp_path):
    page = sheet.to_html(tmp_path / "sheet.html").read_text(encoding="utf-8")

    assert not re.search(r"https?://|<script|<link|url\((?!#)|@import|(?:src|href)=.(?!#|data:)", without_times_script(page))
    for element in ("svg", "table", "div", "style", "p", "h5"):
        assert len(re.findall(rf"<{element}[ >]", page)) == page.count(f"</{element}>"), element
    assert page.count("<svg") >= 12
    assert "currentColor" in page


@pytest.mark.parametrize(
    "settings", [{"level": 95}, {"level": 0}, {"resamples": 0}, {"draws": 2.5}, {"seed": -1}, {"seed": 0.5}]
)
def test_settings_that_make_no_sense_are_refused_by_name(bt, settings):
    with pytest.raises(StatisticsError, match=str(next(iter(settings.values())))):
        bt.tear_sheet(**settings)
