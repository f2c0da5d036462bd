"""One verdict over two figures on every face: where the line moves and the price does not pay, each says so first."""

import json
import re
from html import unescape

import numpy as np
import polars as pl
import pytest

import clvlab as cl
from clvlab.arena.runs.results import run_result
from clvlab.cli.output import show_report
from clvlab.lab.results.result import Result
from clvlab.law.schema import Reason
from clvlab.report.headline import headline_of
from clvlab.report.tearsheet import tear_sheet_page
from clvlab.runs.run import Run
from tests.factories import make_run, make_tape, message

LINE_ALONE = "Beats the closing line, but may not pay at its prices: "
SURE_LOSS = (
    "Loses at its prices, and its CLV may be luck: +27 bps [-6, +60] of CLV, and -3.56 % [-4.27, -2.85] at the prices "
    "taken, if the close is right, over 299 fixtures."
)
FACES = ("terminal", "card", "tear sheet", "page of the tear sheet", "page of the service", "JSON", "JSON of the sheet")


@cl.strategy
def first_quotes(ticks):
    """Back the first side at its first message."""
    return ticks.filter(pl.col("side") == "a").sort("tick_seq").unique("fixture_id", keep="first", maintain_order=True)


@pytest.fixture(scope="module")
def moved(tmp_path_factory):
    """A backtest whose line moves its way by 87 bps, which is what the prices cost."""
    folder, rng = tmp_path_factory.mktemp("moved"), np.random.default_rng(87)
    entry, move = rng.uniform(0.45, 0.5, 120), rng.normal(0, 0.02, 120)
    close = entry + 0.0085 + move - move.mean()
    lines = ["fixture,time,kickoff,market,side,odds"]
    for match, pair in enumerate(zip(entry, close, strict=True)):
        day = f"2026-{1 + match // 28:02d}-{1 + match % 28:02d}"
        for minute, own in zip((0, 30), pair, strict=True):
            lines += [
                f"m{match},{day}T10:{minute:02d}Z,{day}T12:00Z,WINNER||,{side},{1 / (probability * 1.0175):.3f}"
                for side, probability in (("a", own), ("b", 1 - own))
            ]
    (folder / "odds.csv").write_text("\n".join(lines) + "\n")
    pack = cl.import_odds("csv", folder / "odds.csv", folder / "pack")
    return cl.backtest(pack, first_quotes, audit=False)


@pytest.fixture(scope="module")
def drifted():
    """A backtest over real shapes of prices: no move is shown, and a sure loss at the prices."""
    return cl.backtest("season", "cumulative-drift")


def plain(html):
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", html.replace("\u00a0", " ")))).strip()


def rows_of(done):
    """The decisions as a service stores them."""
    run = done.source
    decided = run.evidence.decisions.select("seq", "ts_ms")
    return run.marked.join(decided, on="seq", maintain_order="left")


def first_words(done, face, capsys):
    """The text of a face, with what comes before the verdict cut off, and its tone."""
    found = headline_of(done.source)
    if face == "terminal":
        show_report(done.report, found)
        return capsys.readouterr().out.partition(": ")[2], found.verdict.tone
    if face == "page of the service":
        (agent,) = run_result(rows_of(done)).agents
        return agent.sentence, agent.tone
    if face.startswith("JSON"):
        facts = json.loads(json.dumps(found.facts()))
        return facts["verdict"], facts["tone"]
    html = {
        "card": done._repr_html_,
        "tear sheet": done.tear_sheet(resamples=100, draws=5)._repr_html_,
        "page of the tear sheet": lambda: tear_sheet_page(done.source),
    }[face]()
    tone, text = re.search(r'<p class="verdict (\w+)">(.*?)</p>', html, re.DOTALL).groups()
    return plain(text), tone


@pytest.mark.parametrize("face", FACES)
def test_a_line_that_moves_is_no_price_that_pays(moved, face, capsys):
    text, tone = first_words(moved, face, capsys)

    assert text.startswith(f"{LINE_ALONE}+87 bps [+")
    assert re.match(
        r".*? of CLV, and [+-]0\.\d+ % \[-\d\.\d+, \+\d\.\d+\] at the prices taken, if the close is right, over", text
    )
    assert tone == "unclear"


@pytest.mark.parametrize("face", FACES)
def test_a_sure_loss_is_said_first_and_is_never_indistinguishable(drifted, face, capsys):
    text, tone = first_words(drifted, face, capsys)

    assert text.startswith(SURE_LOSS)
    assert "istinguishable" not in text.partition("\n")[0]
    assert tone == "loses"


def test_both_figures_are_among_the_facts_with_their_intervals(drifted):
    facts = headline_of(drifted.source).facts()

    edge = drifted.tear_sheet().edge
    assert (facts["mean_edge_pct"], facts["edge_low"], facts["edge_high"]) == (edge.mean, edge.low, edge.high)
    assert facts["tone"] == "loses"


def run_with_prices(priced=()):
    """A run over six fixtures, of which some have prices."""
    messages, kickoffs = [], {}
    for fixture_id, move in enumerate((40, 60, 80, 100, 90, 70), start=1):
        kickoffs[fixture_id] = 7_200.0
        for tick, prob in enumerate((5_000, 5_000 + move)):
            quotes = {"part1": prob, "part2": 10_000 - prob}
            if fixture_id in priced:
                quotes = {side: (own, 9_800_000 // own) for side, own in quotes.items()}
            messages.append(message(tick, 60.0 + 3_600 * tick, quotes, fixture_id=fixture_id))
    made = make_run(make_tape(messages, kickoffs), *({"fixture_id": fixture_id} for fixture_id in kickoffs))
    return Run(made.sealed)


def test_a_result_says_of_how_many_decisions_the_edge_is():
    part, whole = (Result(run_with_prices(priced)) for priced in ((2, 3), range(1, 7)))

    assert "at the prices of 2 of 6 decisions (too few fixtures for an interval)" in repr(part)
    assert "at the prices taken, if the close is right, over 6 fixtures" in repr(whole)


def test_a_run_without_prices_says_only_the_line():
    run = run_with_prices()

    said = headline_of(run).verdict
    card = plain(Result(run)._repr_html_())

    assert said.sentence.startswith("Beats the closing line: +73 bps [")
    assert "] over 6 fixtures, which are few; no price is in the evidence; " in said.sentence
    assert "%" not in said.sentence
    assert said.tone == "beats"
    assert headline_of(run).facts()["mean_edge_pct"] is None
    assert said.sentence in card
    assert "edge at the price taken none" in card


def test_what_a_leaderboard_a_comparison_and_a_search_say_first_has_both(drifted):
    baseline = cl.backtest("season", "baseline")

    board = plain(cl.leaderboard([drifted, baseline])._repr_html_())
    versus = cl.compare([baseline, drifted]).verdict.sentence
    three = cl.compare([baseline, drifted, drifted]).verdict.sentence

    assert "cumulative-drift is first, loses at its prices, and its CLV may be luck: +27 bps [-6, +60] of CLV" in board
    assert versus.startswith("cumulative-drift and baseline can't be told apart, by the line or at the prices: ")
    assert three.startswith("Versus baseline: by the line 0 better, 0 worse, 2 undecided; at the prices taken")


def test_every_mean_of_a_breakdown_has_its_edge_and_its_return(drifted):
    sheet = drifted.tear_sheet()
    scored, results = sheet.scored, sheet.source.pack.results
    known = scored.join(results, on=["fixture_id", "market_key", "side"], how="left", maintain_order="left")
    gain = pl.col("odds_milli") / 1000 - 1
    share = {"won": gain, "half_won": gain / 2, "void": pl.lit(0.0), "half_lost": pl.lit(-0.5), "lost": pl.lit(-1.0)}
    profit = pl.coalesce(pl.when(pl.col("result") == name).then(value) for name, value in share.items())

    for row in sheet.tables["by_market"].iter_rows(named=True):
        own = known.filter(pl.col("market_key") == row["market"])
        assert row["mean_edge_pct"] == pytest.approx(own["edge_bps"].mean() / 100)
        assert row["return_pct"] == pytest.approx(100 * own.select(profit).to_series().mean())
        assert row["edge_low"] < row["mean_edge_pct"] < row["edge_high"]
        assert row["return_low"] < row["return_pct"] < row["return_high"]
    for name in ("by_time", "by_side", "by_probability"):
        table = sheet.tables[name]
        weighted = (table["mean_edge_pct"] * table["n"]).sum() / table["n"].sum()
        assert weighted == pytest.approx(sheet.edge.mean)
    frame = cl.leaderboard([drifted]).frame.row(0, named=True)
    roi = sheet.settled.roi
    assert (frame["return_pct"], frame["return_low"], frame["return_high"]) == pytest.approx((roi.mean, roi.low, roi.high))
    assert (frame["mean_edge_pct"], frame["edge_low"]) == pytest.approx((sheet.edge.mean, sheet.edge.low))


def test_a_league_has_its_own_means(tmp_path):
    lines = ["fixture,league,time,kickoff,market,side,odds"]
    for match in range(12):
        league = ("Ash Cup", "Elm Cup")[match % 2]
        for minute, odds in ((0, 2.0), (30, 1.9 if match % 2 else 2.1)):
            other = 1 / (1.04 - 1 / odds)
            at = f"2026-01-{match + 1:02d}"
            lines += [
                f"m{match},{league},{at}T10:{minute:02d}Z,{at}T12:00Z,WINNER||,{side},{price:.3f}"
                for side, price in (("a", odds), ("b", other))
            ]
    (tmp_path / "odds.csv").write_text("\n".join(lines) + "\n")
    pack = cl.import_odds("csv", tmp_path / "odds.csv", tmp_path / "pack")

    sheet = cl.backtest(pack, first_quotes, audit=False).tear_sheet(resamples=100, draws=5)
    table = sheet.tables["by_league"]

    assert table["league"].to_list() == ["Ash Cup", "Elm Cup"]
    assert table["n"].to_list() == [6, 6]
    assert table["mean_clv_bps"][1] > 0 > table["mean_clv_bps"][0]
    assert table["mean_edge_pct"][1] > table["mean_edge_pct"][0]
    assert "return_pct" not in table.columns
    shown = plain(sheet._repr_html_())
    assert "Leagues" in shown
    assert "Ash Cup" in shown
    assert all(row["reason"] == Reason.SCORED for row in sheet.source.scores.iter_rows(named=True))
