import polars as pl
import pytest

import clvlab as cl
from clvlab.packs.manifest import PackManifest
from clvlab.packs.synthetic import Recipe, synthetic
from clvlab.packs.writer import write_pack
from clvlab.report.figures import settlement

SCHEMA = {"seq": pl.Int64, "fixture_id": pl.Int64, "market_key": pl.String, "side": pl.String, "odds_milli": pl.Int64,
          "stake": pl.Int64, "edge_pct": pl.Float64, "entry_prob_bps": pl.Int64, "close_prob_bps": pl.Int64}  # fmt: skip
RESULTS = {"fixture_id": pl.Int64, "market_key": pl.String, "side": pl.String, "result": pl.String, "detail": pl.String}


def make_scored(*rows):
    """Scored decisions of market ``m``: (fixture, side, odds_milli, stake, edge_pct)."""
    made = [(n, fixture, "m", side, odds, stake, edge, 4000, 5000) for n, (fixture, side, odds, stake, edge) in enumerate(rows)]
    return pl.DataFrame(made, schema=SCHEMA, orient="row")


def make_results(*rows):
    """Results of market ``m``: (fixture, side, result)."""
    return pl.DataFrame([(fixture, "m", side, result, None) for fixture, side, result in rows], schema=RESULTS, orient="row")


def test_a_flat_stake_is_settled_at_the_price_that_was_taken():
    scored = make_scored((1, "a", 3000, 100, 5.0), (1, "b", 2000, 300, -1.0), (2, "a", 2500, 100, 2.0))
    results = make_results((1, "a", "won"), (1, "b", "lost"), (2, "a", "half_won"))

    found = settlement(scored, results)

    assert found.frame["profit"].to_list() == [2.0, -1.0, 0.75]
    assert found.profit == 1.75
    assert found.roi.mean == pytest.approx(100 * 1.75 / 3)
    assert found.expected.mean == pytest.approx(2.0)


def test_the_stakes_asked_for_weigh():
    scored = make_scored((1, "a", 3000, 100, 5.0), (1, "b", 2000, 300, -1.0), (2, "a", 2500, 0, 2.0))
    results = make_results((1, "a", "won"), (1, "b", "lost"), (2, "a", "won"))

    found = settlement(scored, results)

    assert found.stake_profit == 2 * 100 - 300
    assert found.stake_roi.mean == pytest.approx(100 * -100 / 400)


def test_what_has_no_result_or_no_price_is_left_out_and_counted():
    scored = make_scored((1, "a", 3000, 100, 5.0), (1, "b", None, 100, -1.0), (2, "a", 2500, 100, 2.0))
    results = make_results((1, "a", "lost"), (1, "b", "won"))

    found = settlement(scored, results)

    assert found.frame.height == 2
    assert (found.roi.n, found.expected.n, found.profit) == (1, 1, -1.0)
    assert found.close.n == 2


def test_voids_and_halves_are_no_outcome_of_a_probability():
    scored = make_scored(*[(n, "a", 2000, 100, 0.0) for n in range(5)])
    results = make_results(*zip(range(5), "aaaaa", ["won", "lost", "void", "half_won", "half_lost"], strict=True))

    found = settlement(scored, results)

    assert found.close.n == found.entry.n == 2
    assert found.close.brier == pytest.approx(0.25)
    assert found.entry.brier == pytest.approx((0.6**2 + 0.4**2) / 2)


@pytest.mark.parametrize("results", [None, make_results(), make_results((9, "a", "won"))])
def test_without_a_result_of_a_decision_there_is_nothing_to_settle(results):
    assert settlement(make_scored((1, "a", 3000, 100, 5.0)), results) is None


@pytest.fixture(scope="module")
def sheet(tmp_path_factory):
    """A tear sheet over eight fixtures whose home sides win every second one, at 2.00 with a close of 1.90."""
    lines = ["fixture,time,market,side,odds,kickoff,result"]
    for n in range(8):
        won = ("won", "lost") if n % 2 else ("lost", "won")
        for time, odds in (("12:00", ("2.00", "1.90")), ("14:30", ("1.90", "2.00"))):
            for side, price, result in zip(("home", "away"), odds, won, strict=True):
                lines.append(f"m{n},2026-01-02T{time}Z,WINNER||,{side},{price},2026-01-02T15:00Z,{result}")
    folder = tmp_path_factory.mktemp("odds")
    (folder / "odds.csv").write_text("\n".join(lines))
    first = cl.strategy(agent_id="home")(
        lambda ticks: ticks.filter(pl.col("tick_seq") == 0, pl.col("side") == "home").with_columns(confidence=0.5)
    )
    with cl.Lab() as lab:
        return lab.backtest(lab.import_odds("csv", folder / "odds.csv"), first, audit=False).tear_sheet(resamples=100, draws=5)


class TestTearSheet:
    def test_stands_the_return_beside_clv_with_a_caution(self, sheet):
        row = sheet.frame.row(by_predicate=pl.col("figure") == "return on investment, flat stake", named=True)

        assert (row["value"], row["unit"]) == (0.0, "%")
        assert row["low"] < 0 < row["high"]
        assert "return on investment +0.00 %" in sheet.line
        assert "CLV is not profit. Results are one draw of luck" in sheet._repr_html_()
        assert sheet.clv.mean > 0

    def test_draws_what_was_settled_and_whether_the_close_was_right(self, sheet):
        page = sheet._repr_html_()

        assert page.count("<svg") >= 12
        for title in ("settled", "results", "calibration"):
            assert f'aria-label="{title}"' in page
        assert "Closing probability against results" in page

    def test_of_a_pack_without_results_says_nothing_of_them(self, tmp_path):
        made = synthetic(Recipe(fixtures=6, messages=200))
        write_pack(made.ticks, PackManifest(pack_id="p", provenance="unknown", fixtures=made.fixtures), tmp_path / "p")

        sheet = cl.backtest(tmp_path / "p", "cumulative-drift").tear_sheet(resamples=50, draws=5)

        assert sheet.settled is None
        assert "return on investment" not in sheet._repr_html_()
        assert sheet.plot.settled().get_title(loc="left") or sheet.plot.settled().get_title()
