import re

import polars as pl
import pytest

import clvlab as cl
from clvlab.lab.results.result import Result
from clvlab.lab.results.run import Run
from clvlab.proof.seal import SealedRun
from clvlab.report.headline import means_of
from clvlab.report.search import sweep_verdict
from clvlab.runs import run as runs
from clvlab.words import short_p_value


@pytest.fixture(scope="module")
def bt():
    return cl.backtest("starter", "cumulative-drift")


def _text(shown):
    return re.sub(r"<[^>]+>|&nbsp;", " ", re.sub(r"<style>.*?</style>", "", shown))


def test_a_card_says_first_what_can_be_said(bt):
    shown = bt._repr_html_()

    first = min(shown.find(part) for part in ("<svg", "<table", "<dl", "<details"))
    assert 0 < shown.find('class="verdict') < first


def test_the_mean_of_a_card_stands_beside_its_interval_and_counts_what_the_tear_sheet_counts(bt):
    clv = bt.tear_sheet().clv
    shown = _text(bt._repr_html_())

    assert f"{clv.mean:+.0f}  bps [{clv.low:+.0f}, {clv.high:+.0f}]" in shown.replace(" bps", "  bps").replace("   ", "  ")
    assert means_of(bt.scores)["clv"] == clv


def test_every_decision_is_scored_or_has_its_reason_in_words(bt):
    shown = _text(bt._repr_html_())
    counts = bt.scores["reason"].value_counts(name="n")

    assert "closing_suspended" not in shown
    assert "the market was suspended at the close" in shown
    left_out = bt.scores.height - means_of(bt.scores)["clv"].n
    assert f"Not counted: {left_out} of {counts['n'].sum()} decisions" in shown


def test_the_law_s_grade_of_a_sample_never_stands_beside_a_mean_without_its_interval(bt):
    assert "medium (129 decisions)" in bt._repr_html_()
    assert "medium" not in bt.report._repr_html_()
    assert "no interval here" in bt.report._repr_html_()


def test_a_backtest_without_a_scored_decision_claims_nothing():
    silent = cl.backtest("starter", window=cl.Window("none", market_allowlist=("NOTHING",)))

    shown = silent._repr_html_()

    assert 'class="verdict nothing"' in shown
    assert "no decision was scored" in shown
    assert "<svg" not in shown


def test_three_fixtures_are_too_few_for_a_verdict():
    few = cl.backtest("starter", "cumulative-drift", fixtures=[90000000, 90000001, 90000002])

    assert "too few for an interval" in few._repr_html_()
    assert 'class="verdict unclear"' in few._repr_html_()


def test_a_run_that_is_read_again_shows_the_same_card_without_its_pack(bt):
    read = Result(runs.Run(bt.run.source, bt.run.receipts))._repr_html_()

    sentence = re.search(r'<p class="verdict.*?</p>', bt._repr_html_())[0]
    assert sentence in read
    assert re.findall(r"<path[^>]*>", read) == re.findall(r"<path[^>]*>", bt._repr_html_())


def test_a_broken_seal_is_said_first_and_the_folded_checks_say_why(bt):
    run = bt.run.source
    broken = SealedRun(run.run_id, run.events.replace(b"BACK", b"WAIT", 1), run.scores, run.manifest)
    forged = SealedRun(run.run_id, run.events, run.scores.replace(b'"valid":true', b'"valid":false', 1), run.manifest)

    for one, sentence in ((broken, "The seal is broken: "), (forged, "a check fails: metrics recomputed")):
        shown = Run(one).proof_card()._repr_html_()
        assert 'class="verdict loses"' in shown
        assert sentence in shown
        assert "\u2717" in shown.partition("<details")[0]


def test_a_proof_card_shows_all_seven_marks_before_anything_is_unfolded(bt):
    visible = bt.run.proof_card()._repr_html_().partition("<details")[0]

    assert visible.count("<li") == 7
    assert "sha256:" not in visible


def test_a_pack_shows_when_its_fixtures_are_and_how_they_are_covered():
    shown = cl.open_pack("starter")._repr_html_()

    assert "<rect" in shown
    for said in ("made by a generator", "markets with an open close", "overround", "longest silence", "gaps of the capture"):
        assert said in shown


def test_a_comparison_says_who_is_ahead_only_where_the_interval_does(bt):
    same = cl.compare([bt, cl.backtest("starter", "baseline")])

    row = same.differences.row(0, named=True)
    assert same.verdict.tone == ("unclear" if row["low"] <= 0 <= row["high"] else "beats" if row["low"] > 0 else "loses")
    assert same._repr_html_().count("<svg") == 3


def test_the_first_of_a_leaderboard_is_no_proof(bt):
    shown = cl.leaderboard([bt, cl.backtest("starter", "baseline")])._repr_html_()

    assert "baseline is first, loses at its prices, and its CLV may be luck: " in shown
    assert 'class="verdict loses"' in shown


@pytest.mark.parametrize(
    ("p_family", "tone", "begins"),
    [
        ([0.01, 0.5], "beats", "1 of 2 settings stays above zero after correction for 9 trials (1 uncorrected, best p .010)"),
        ([0.05, 0.5], "unclear", "No setting stays above zero after correction for 9 trials (1 uncorrected, best p .050)"),
        ([None, None], "nothing", "Nothing to judge"),
    ],
)
def test_a_sweep_says_what_is_left_when_all_trials_count(p_family, tone, begins):
    none = pl.lit(None, pl.Float64)
    points = pl.DataFrame({"p_alone": [0.01, 0.2], "p_family": pl.Series(p_family, dtype=pl.Float64)})
    points = points.with_columns(mean_edge_pct=none, edge_low=none, edge_high=none)

    said = sweep_verdict(points, 9, 0.05)

    assert said.tone == tone
    assert said.sentence.startswith(begins)
    assert tone == "nothing" or said.sentence.endswith("; no price is in the evidence.")


@pytest.mark.parametrize(
    ("edges", "p_family", "tone", "ends"),
    [
        ([(1, 3), (-9, -7)], [0.01, 0.5], "beats", "1 of 1 pays and 0 lose"),
        ([(-1, 3), (1, 2)], [0.01, 0.5], "unclear", "0 of 1 pay and 0 lose"),
        ([(-3, -1), (1, 2)], [0.01, 0.5], "loses", "0 of 1 pay and 1 loses"),
        ([(-3, -1), (1, 2)], [0.5, 0.5], "unclear", "1 of 2 pays and 1 loses"),
        ([(-3, -1), (-4, -2)], [0.5, 0.5], "loses", "0 of 2 pay and 2 lose"),
    ],
)
def test_a_sweep_says_which_of_its_points_pay(edges, p_family, tone, ends):
    low, high = (pl.Series(own, dtype=pl.Float64) for own in zip(*edges, strict=True))
    points = pl.DataFrame({"p_alone": [0.01, 0.2], "p_family": p_family, "edge_low": low, "edge_high": high})

    said = sweep_verdict(points.with_columns(mean_edge_pct=(low + high) / 2), 9, 0.05)

    assert said.tone == tone
    assert said.sentence.endswith(f"; at the prices taken, {ends}, if the close is right.")


def test_a_sweep_frames_the_points_that_are_left():
    sweep = cl.sweep(
        "starter", "baseline", {"warmup_ticks": [0, 20], "min_prob_bps": [500, 3000]}, resamples=1_000, progress=False
    )

    shown = sweep._repr_html_()
    left = sweep.frame.filter(pl.col("p_family") < 0.05).height
    assert shown.count('stroke-width="2"') == left
    assert all(short_p_value(p).replace("<", "&lt;") in shown for p in sweep.frame["p_family"])


def test_small_cards_do_without_matplotlib(bt, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)

    for result in (bt, bt.run.proof_card(), cl.open_pack("starter"), cl.leaderboard([bt]), cl.compare([bt, bt])):
        assert 'class="verdict' in result._repr_html_()
