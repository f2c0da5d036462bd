"""The tear sheet as a story: its order, its anchors, its names, its pictures of decisions, and what it never does."""

import re
from html.parser import HTMLParser

import polars as pl
import pytest

import clvlab as cl
from clvlab.report import breakdowns
from clvlab.report.extremes import EACH, MOST_UPDATES, extremes
from clvlab.report.figures import MEANINGS, QUESTIONS
from clvlab.report.tearsheet import tear_sheet_page
from clvlab.words import market_names, side_name
from tests.hostile import without_times_script

VOID = {"meta", "link", "img", "br", "hr", "input"}


class Outside(HTMLParser):
    """The text of a page outside of details, pictures and styles, and the anchors of all of it."""

    def __init__(self, html):
        super().__init__()
        self.open, self.texts, self.ids, self.links = [], [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.open += [] if tag in VOID else [tag]
        self.ids += [found["id"]] if "id" in found and "svg" not in self.open else []
        self.links += [found["href"]] if tag == "a" else []

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, text):
        if not {"details", "svg", "style", "title"} & {*self.open}:
            self.texts.append(text)


@pytest.fixture(scope="module")
def sheet():
    return cl.backtest("starter", "cumulative-drift").tear_sheet(resamples=50, draws=5)


@pytest.fixture(scope="module")
def shown(sheet):
    return sheet._repr_html_()


@pytest.fixture(scope="module")
def page(sheet):
    return tear_sheet_page(sheet.source)


def test_every_figure_answers_one_question_and_says_so_in_a_line(sheet):
    asked = [name for names in QUESTIONS.values() for name in names]

    assert sheet.frame.filter(~pl.col("figure").is_in(list(MEANINGS)))["figure"].to_list() == []
    assert sorted(asked) == sorted(MEANINGS)
    assert max(map(len, MEANINGS.values())) < 70


def test_the_story_goes_from_the_verdict_to_the_run(page):
    story = ["verdict", "curve", "money", "agent", "when", "where", "decisions", "questions", "run"]

    assert re.findall(r'<section id="(\w+)"', page) == story
    assert page.find('class="verdict') < page.find("<svg")


def test_every_anchor_of_the_contents_leads_to_a_part_and_ids_are_of_one_part(page, shown):
    for html in (page, shown):
        found = Outside(html)
        assert len(found.ids) == len({*found.ids}) > 9
        assert {link.removeprefix("#") for link in found.links} <= {*found.ids}
        rail = re.search(r"<nav.*?</nav>", html, re.DOTALL)[0]
        assert re.findall(r'href="#([^"]+)"', rail) == re.findall(r'<section id="([^"]+)"', html)


def test_two_sheets_in_one_notebook_share_no_id(sheet, shown):
    other = sheet.only(sides=["over"])._repr_html_()

    assert not {*Outside(shown).ids} & {*Outside(other).ids}


def test_keys_and_ids_stand_only_in_details(sheet, page):
    text = " ".join(Outside(page).texts)
    keys = [*sheet.scored["market_key"].unique(), *map(str, sheet.scored["fixture_id"].unique()), "part1", "part2", "sha256:"]

    assert [key for key in keys if key in text] == []
    assert sheet.source.run_id not in text
    for name in market_names(sheet.tables["by_market"]["market"]).values():
        assert name in text
    best = extremes(sheet.source, sheet.scored)[0][0].row["fixture_id"]
    assert next(" – ".join(one.names) for one in sheet.source.pack.manifest.fixtures if one.fixture_id == best) in text


def test_the_sum_of_a_group_ends_at_its_total(sheet):
    groups = breakdowns.groups_of(sheet.source, sheet.scored)
    for name in ("by_time", "by_market"):
        walks = breakdowns.group_walks(sheet.scored, groups[name])
        totals = sheet.scored.group_by(groups[name]).agg(pl.sum("clv_bps"))
        assert {key: walk[-1][1] for key, walk in walks.items()} == dict(totals.rows())
        assert {walk[0][1] for walk in walks.values()} == {0}
        assert dict(sheet.tables[name].select(pl.first(), "n").rows()) == dict(groups[name].value_counts().rows())


def by_hand(sheet, row):
    """The course of a decision's side by its own reading of the tape: open updates after the entry and before the close."""
    run = sheet.source
    ticks = run.pack.tape([row["fixture_id"]])
    own = ticks.rows.join(ticks.series.with_row_index("series").select("series", "market_key", "side"), on="series")
    end = run.evidence.closes.filter(pl.col("fixture_id") == row["fixture_id"])["end_seq"][0]
    inside = own.filter(
        pl.col("market_key") == row["market_key"], pl.col("side") == row["side"], ~pl.col("suspended"),
        pl.col("tick_seq") > row["tick_seq"], pl.col("tick_seq") < end,
    ).sort("tick_seq")  # fmt: skip
    return inside.select("ts_ms", "prob_bps").rows()


def test_the_best_and_worst_decisions_are_drawn_from_entry_to_close(sheet, page):
    best, worst = extremes(sheet.source, sheet.scored)
    clv = sheet.scored["clv_bps"].sort(descending=True).to_list()

    assert [one.row["clv_bps"] for one in best] == clv[:EACH]
    assert [one.row["clv_bps"] for one in worst] == clv[: -EACH - 1 : -1]
    decided = dict(sheet.source.evidence.decisions.select("seq", "ts_ms").rows())
    for one in (*best, *worst):
        row, course = one.row, by_hand(sheet, one.row)
        assert one.is_whole
        assert one.path[0] == (decided[row["seq"]], row["entry_prob_bps"])
        assert one.path[-1] == (row["close_ts_ms"], row["close_prob_bps"])
        assert {*one.path[1:-1]} <= {*course}
        assert len(one.path) <= 162
        assert one.path[-2][1] == (course or [one.path[0]])[-1][1] == row["close_prob_bps"] or not course
        label = f"{row['entry_prob_bps'] / 100:.2f} % at the entry to {row['close_prob_bps'] / 100:.2f} % at the close"
        assert label in page
    assert page.count("at the entry to") == 2 * EACH


def test_few_decisions_are_all_shown_the_best_first(sheet):
    few = sheet.only(fixtures=[90000005])

    best, worst = extremes(few.source, few.scored)

    assert 0 < len(best) == few.clv.n <= 2 * EACH
    assert worst == []
    assert [one.row["clv_bps"] for one in best] == few.scored["clv_bps"].sort(descending=True).to_list()
    assert f"All {len(best)} decisions, the best first" in few._repr_html_()


def test_a_fixture_with_too_many_price_updates_is_not_read(sheet, monkeypatch):
    monkeypatch.setattr("clvlab.report.extremes.MOST_UPDATES", 10)
    monkeypatch.setattr(type(sheet.source.pack), "tape", lambda *_: pytest.fail("it was read"))

    best, worst = extremes(sheet.source, sheet.scored)

    assert MOST_UPDATES == 1_000_000
    assert {(len(one.path), one.is_whole) for one in (*best, *worst)} == {(2, False)}


def test_a_side_has_the_name_of_its_team(sheet, page):
    fixtures = {one.fixture_id: one for one in sheet.source.pack.manifest.fixtures}
    for one in extremes(sheet.source, sheet.scored)[0]:
        row = one.row
        side = side_name(row["market_key"], row["side"], fixtures[row["fixture_id"]].names)
        assert f": {side}</p>" in page


def test_the_waterfall_leads_from_the_line_to_the_settled_profit(sheet, page):
    text = re.sub(r"<[^>]+>", " ", re.search(r'<table class="waterfall">.*?</table>', page, re.DOTALL)[0])
    places = [text.find(name) for name in ("CLV at the fair price", "margin and spread", "expected profit", "settled profit")]
    paid = sheet.executable()
    line, taken = (paid.means[step, "ordered"][1].mean for step in ("line", "taken"))

    assert -1 < places[0] < places[1] < places[2] < places[3]
    assert f"{taken - line:+.2f}" in text


def test_numbers_never_break_and_figures_are_folded_by_question(page):
    folded = page.partition('<section id="questions"')[2]

    for question in QUESTIONS:
        assert f"<summary>{question}</summary>" in folded
    for cell in re.findall(r"<td[^>]*>(.*?)</td>", folded.partition("</table>")[0]):
        if re.match(r"<span><strong>", cell):
            assert cell.startswith("<span>")
            assert cell.endswith("</span>")
    assert "td span{white-space:nowrap}" in page


def test_a_page_runs_only_the_script_of_times_and_says_how_it_is_printed(page):
    assert not re.search(r"<script|\son\w+=|javascript:", without_times_script(page))
    printed = page.partition("@media print{")[2]
    for rule in ("@page{size:A4", "details::details-content{content-visibility:visible", "break-inside:avoid", ".rail"):
        assert rule in printed, rule


def test_a_mark_of_a_group_is_shared_by_panel_curve_and_decisions(page):
    for mark in ("m0", "t4"):
        assert f'<li class="panel g-{mark}" id="{mark}">' in page
        assert f'class="part g-{mark}"' in page
        assert f".sheet:has(.g-{mark}:is(:hover,:focus-within,:target)) .g-{mark}" in page
    marked = re.findall(r'<li class="decision((?: g-\w+)*)"', page)
    assert len(marked) == 2 * EACH
    assert all(re.fullmatch(r" g-t\d+ g-m\d+", one) for one in marked)


def test_what_a_researcher_sees_of_a_sheet(sheet):
    seen = [name for name in dir(sheet) if not name.startswith("_")]

    assert seen == [
        "agent_id", "all_scored", "bankroll", "beat", "calibration", "cautions", "clv", "concentration", "delay", "draws",
        "edge", "executable", "frame", "left_out", "level", "line", "means", "median", "moved_lines", "only", "permutation",
        "plot", "power", "price_ratio", "regress", "resamples", "scored", "seed", "selection", "settled", "sign_flips",
        "source", "tables", "to_csv", "to_html", "to_pandas", "to_parquet", "top_five", "with_at_close",
    ]  # fmt: skip
    pictures = [name for name in dir(sheet.plot) if not name.startswith("_")]
    assert pictures == [
        "by_market", "by_probability", "by_side", "by_time", "calibration", "clv", "cumulative", "entry_and_close", "fixtures",
        "permutation", "results", "settled",
    ]  # fmt: skip


def test_other_agents_of_the_run_stand_next_to_the_agent(shown):
    both = cl.Lab().compete("starter", ["baseline", "cumulative-drift"])

    html = both.tear_sheet("cumulative-drift", resamples=50, draws=5)._repr_html_()

    other = both.tear_sheet("baseline").clv
    row = re.search(r"<tr><td>baseline<br>.*?</tr>", html, re.DOTALL)[0]
    assert "another agent of the run" in row
    assert f"<strong>{other.mean:+,.0f}</strong>" in row
    assert "another agent of the run" not in shown
