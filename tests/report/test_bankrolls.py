import matplotlib as mpl
import numpy as np
import polars as pl
import pytest

import clvlab as cl
from clvlab.errors import StatisticsError
from clvlab.statistics import Staking

mpl.use("Agg")

N = 40


def write_odds(folder):
    """Forty fixtures on as many days, at 2.10 on both sides: home wins three of five."""
    lines = ["fixture,time,market,side,odds,kickoff,result"]
    won = np.random.default_rng(0).permutation(np.arange(N) % 5 < 3)
    for n in range(N):
        results = ("won", "lost") if won[n] else ("lost", "won")
        day = f"2026-{1 + n // 20:02}-{1 + n % 20:02}"
        for time, odds in (("12:00", ("2.10", "1.80")), ("14:30", (f"{2.0 - 0.002 * n:.3f}", "1.90"))):
            for side, price, result in zip(("home", "away"), odds, results, strict=True):
                lines.append(f"m{n},{day}T{time}Z,WINNER||,{side},{price},{day}T15:00Z,{result}")
    (folder / "odds.csv").write_text("\n".join(lines))
    return folder / "odds.csv"


@pytest.fixture(scope="module")
def bt(tmp_path_factory):
    """A backtest that backs the home side of each at 2.10."""
    home = cl.strategy(agent_id="home")(lambda ticks: ticks.filter(pl.col("tick_seq") == 0, pl.col("side") == "home"))
    with cl.Lab() as lab:
        yield lab.backtest(lab.import_odds("csv", write_odds(tmp_path_factory.mktemp("odds"))), home, audit=False)


def in_time(sheet):
    closes = sheet.source.evidence.closes.select("fixture_id", "close_ts_ms").unique()
    return closes.sort("close_ts_ms")["fixture_id"].to_list()


@pytest.fixture(scope="module")
def sheet(bt):
    return bt.tear_sheet(resamples=100, draws=5)


def test_a_path_is_that_of_the_stakes_and_results(bt, sheet):
    found = sheet.bankroll(0.05, staking=Staking(fraction=1, most=1), paths=50)

    share = 0.05 / 1.1
    won = sheet.settled.frame["result"] == "won"
    assert found.source.path[-1] == pytest.approx((1 + 1.1 * share) ** won.sum() * (1 - share) ** (N - won.sum()))
    assert found.frame.columns == ["fixtures", "bankroll", "q05", "q25", "q50", "q75", "q95"]
    assert found.frame.height == N + 1
    assert bt.bankroll(0.05).line.startswith("0.5 x Kelly, at most 5% on a side for an edge of +5.00 %, as stated")


def test_an_edge_is_taken_from_fixtures_that_are_not_bet_on(sheet):
    fold = in_time(sheet)[:10]

    found = sheet.bankroll(training=fold, paths=50)

    other = sheet.scored.filter(pl.col("fixture_id").is_in(fold))["edge_pct"].mean() / 100
    assert found.edge == pytest.approx(other)
    assert (found.training, found.source.n, found.early) == (10, 30, 0)
    assert "the mean of 10 other fixtures" in found.line


def test_bets_made_before_the_training_had_closed_are_left_out(sheet):
    fixtures = in_time(sheet)

    last, middle = (sheet.bankroll(training=[*fixtures[:9], fixtures[place]], paths=50) for place in (30, 20))

    assert (last.source.n, last.early, last.unsettled) == (9, 21, 0)
    assert (middle.source.n, middle.early) == (19, 11)
    with pytest.raises(StatisticsError, match="after its last close"):
        sheet.bankroll(training=fixtures[-1:], paths=50)


@pytest.mark.parametrize("times", [0.01, 0.01 + 1e-11])
def test_the_edge_at_the_close_of_the_fixtures_that_are_bet_on_is_refused(sheet, times):
    with pytest.raises(StatisticsError, match="mean edge at the close of the very fixtures"):
        sheet.bankroll(sheet.edge.mean * times)


def test_what_kelly_can_not_be_staked_on_is_refused(sheet):
    everywhere = sheet.scored["fixture_id"].unique().to_list()

    for options, said in (
        ({}, "one of the two"),
        ({"edge": 0.02, "training": everywhere[:3]}, "one of the two"),
        ({"edge": sheet.edge}, "share of the stake"),
        ({"training": everywhere}, "nothing is settled"),
        ({"training": [12]}, "fixture 12 of the training fold was not replayed"),
    ):
        with pytest.raises(StatisticsError, match=said):
            sheet.bankroll(**options)


def test_flat_stakes_need_no_edge(sheet):
    found = sheet.bankroll(staking=Staking("flat", flat=0.02), paths=50)

    assert found.edge is None
    assert found.source.path[-1] == pytest.approx(1 + 0.02 * sheet.settled.profit)
    assert found.source.turnover == pytest.approx(0.02 * N)


def test_bets_of_one_day_share_the_bankroll(sheet):
    one_day = sheet.bankroll(staking=Staking("flat", flat=0.5), open_s=90 * 86_400, paths=5)

    assert one_day.source.cut == N - 2
    assert one_day.source.turnover == pytest.approx(1)


@pytest.mark.parametrize("edge", [0.0, -0.04])
def test_without_an_edge_nothing_is_staked_and_the_line_says_so(sheet, edge):
    found = sheet.bankroll(edge, paths=5)

    assert found.line.endswith("no bet gets a stake, so the bankroll stays as it is")
    assert (found.source.fan == 1).all()
    assert "<svg" in found._repr_html_()


def test_it_says_that_it_is_no_score_and_changes_none(sheet, tmp_path):
    before = sheet.frame

    found = sheet.bankroll(0.05, paths=50)
    page = found.to_html(tmp_path / "bankroll.html").read_text("utf-8")

    assert "not a score and does not rank" in page
    assert "no score" in found.line
    assert page.count("<svg") == 1
    assert repr(found).endswith("next: .frame, .figures, .chart()")
    assert sheet.frame.equals(before)
    assert "bankroll" not in sheet._repr_html_().lower()


def test_a_bankroll_that_is_lost_can_be_drawn(sheet):
    lost = sheet.bankroll(0.5, staking=Staking(fraction=10, most=1), paths=20)

    assert lost.chart().get_yscale() in ("linear", "log")
    assert lost.source.ruin > 0.9


def test_a_pack_without_results_has_no_bankroll(monkeypatch):
    monkeypatch.setattr("clvlab.packs.reader.Pack.results", None)

    with pytest.raises(StatisticsError, match="'starter' has no results"):
        cl.backtest("starter", "cumulative-drift").bankroll(0.02)
