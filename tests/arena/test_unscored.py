from html import unescape

import polars as pl
import pytest

import clvlab as cl

RESULT = "1X2_PARTICIPANT_RESULT||"


def favourites(**columns):
    @cl.strategy
    def own(ticks):
        first = ticks.filter(pl.col("prob_bps") >= 6000, ~pl.col("in_running"))
        return first.unique("series", keep="first", maintain_order=True).with_columns(**columns)

    return own


@cl.strategy
def in_play(ticks):
    return ticks.filter("in_running").unique("series", keep="first", maintain_order=True)


@cl.strategy
def never(ticks):
    return ticks.head(0)


@cl.strategy
def last(ticks):
    before = ticks.filter(~pl.col("in_running"), pl.col("market_key") == RESULT)
    return before.unique("series", keep="last", maintain_order=True)


NO_AUDIT = {"audit": False}  # what is said does not depend on it
CASES = {
    "side": (favourites(side=pl.lit("home"), market_key=pl.lit(RESULT)), NO_AUDIT,
        "'1X2_PARTICIPANT_RESULT||' has no side 'home'; it has: 'draw', 'part1', 'part2'"),
    "market": (favourites(market_key=pl.lit("FOO")), NO_AUDIT,
        "has no 'FOO'; it has: '1X2_PARTICIPANT_RESULT||', 'ASIANHANDICAP_"),
    "market's case": (favourites(market_key=pl.lit("1x2")), NO_AUDIT, "has no '1x2': did you mean '1X2_PARTICIPANT_RESULT||'?"),
    "no market": (favourites(market_key=pl.lit(None, pl.String)), NO_AUDIT, "name no market: give each a market_key"),
    "no side": (favourites(side=pl.lit(None, pl.String)), NO_AUDIT, "name no side: give each a side"),
    "transcript": ("llm", {}, "llm has no transcript, and without one it abstains from everything; give one as"),
    "bets": ("bets", {}, "no bet of bets is on the tape; clvlab.grade_bets(bets, pack) reads bets from a file"),
    "in play": (in_play, NO_AUDIT, "decide before, while in_running is false"),
    "none": (never, NO_AUDIT, "nothing is scored: the agent made no decision; loosen its conditions"),
    "pending": ("baseline", {"window": cl.Window(min_clv_horizon_s=10**8)},
        "less than 100000000 s before their close, and stay pending: decide earlier, or give a Window with a smaller"),
    "at the close": (last, {"audit": False, "window": cl.Window(min_clv_horizon_s=0)},
        "all 36 decisions that are scored were made at the closing message of their market"),
    "prefix": ("baseline", {"window": cl.Window(market_allowlist=("1x2",))},
        "no market begins with one of ['1x2']: did you mean '1X2_PARTICIPANT_RESULT||'? fixture 90000000 has: "),
    "no prefix": ("baseline", {"window": cl.Window(market_allowlist=())}, "an empty market allowlist allows no market"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_run_that_scores_nothing_says_why_and_what_would_be_scored(case):
    agent, how, said = CASES[case]

    bt = cl.backtest("starter", agent, **how)

    warnings = bt.report["warnings"]
    assert any(said in one for one in warnings), warnings
    assert all(warning in unescape(bt.report._repr_html_()) for warning in warnings)
    assert bt.run.verify().passed


def test_decisions_in_markets_that_the_window_leaves_out_are_told():
    window = cl.Window(market_allowlist=("OVERUNDER",))

    bt = cl.backtest("starter", favourites(market_key=pl.lit(RESULT), side=pl.lit("part1")), window=window, audit=False)

    assert "such as '1X2_PARTICIPANT_RESULT||': its market_allowlist is ['OVERUNDER']" in bt.report["warnings"][0]
    assert "next: .report['warnings'] says why" in repr(bt)


def test_a_run_with_a_score_says_nothing_of_the_kind():
    assert not cl.backtest("starter", "cumulative-drift").report["warnings"]
