import re
import sys

import polars as pl
import pytest

import clvlab as cl
from clvlab.errors import MissingLibraryError
from clvlab.report.html import Html, card
from clvlab.report.html import page as page_of
from clvlab.report.tearsheet import tear_sheet_page

NASTY = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</style><b>", "$\\frac$", "勝者 & Söhne", "{0} %s")


def first(agent_id):
    return cl.strategy(agent_id=agent_id)(lambda ticks: ticks.filter(pl.col("tick_seq") == 0).with_columns(confidence=0.5))


@pytest.fixture(scope="module")
def nasty_page(tmp_path_factory):
    """The page of a backtest whose market keys and agent are written to break out of it."""
    lines = ["fixture,time,market,side,odds,kickoff,result"]
    for n, market in enumerate(NASTY):
        quoted = '"' + market.replace('"', '""') + '"'
        for time, odds in (("12:00", ("2.00", "1.90")), ("14:30", ("1.90", "2.00"))):
            for side, price, result in zip(("home", "<i>away"), odds, ("won", "lost"), strict=True):
                lines.append(f"m{n},2026-01-02T{time}Z,{quoted},{side},{price},2026-01-02T15:00Z,{result}")
    folder = tmp_path_factory.mktemp("odds")
    (folder / "odds.csv").write_text("\n".join(lines), encoding="utf-8")
    with cl.Lab() as lab:
        return tear_sheet_page(
            lab.backtest(lab.import_odds("csv", folder / "odds.csv"), first("<script>agent"), audit=False).source
        )


@pytest.fixture(scope="module")
def page():
    return tear_sheet_page(cl.backtest("starter", "cumulative-drift").source)


def test_the_page_is_one_document_that_fetches_and_runs_nothing(page):
    assert page.startswith("<!DOCTYPE html>")
    assert page.count("<html") == page.count("</html>") == page.partition("</head>")[0].count("<title>") == 1
    assert page.count("<svg") == page.count("</svg>")
    assert page.count("<svg") > 20
    assert not re.search(r"https?://|<script|<link|<iframe|url\((?!#)|@import|(?:src|href)=.(?!#|data:)|\son\w+=", page)


def test_the_page_says_what_it_is_of_and_whether_that_is_sealed(page):
    report = cl.backtest("starter", "cumulative-drift").report

    assert "<title>Tear sheet of cumulative-drift on starter</title>" in page
    for name in ("backtest_id", "run_id", "content_hash", "evidence_hash", "manifest_hash"):
        assert report[name] in page
    assert page.count('class="pass"') == list(report["checks"].values()).count("pass")


def test_the_page_says_how_evenly_the_decisions_are_spread(page):
    assert "128 scored decisions in 12 fixtures are spread as evenly as over 10.7 fixtures of one size" in page


def test_the_same_backtest_gives_the_same_bytes(page):
    assert tear_sheet_page(cl.backtest("starter", "cumulative-drift").source) == page


def test_names_that_are_markup_or_formulas_are_text(nasty_page):
    assert not re.search(r"<script|<img|<b>|<i>|on\w+=alert\(1\)>", nasty_page)
    assert "&lt;script&gt;agent" in nasty_page
    assert nasty_page.count("</style>") == nasty_page.count("<style>")
    for text in ("&lt;script&gt;alert(1)&lt;/script&gt;", "$\\frac$", "勝者 &amp; Söhne", "{0} %s"):
        assert nasty_page.count(text) >= 2, text  # in a table and in a picture


def test_a_backtest_without_a_scored_decision_has_a_page_too():
    silent = cl.backtest("starter", window=cl.Window("none", market_allowlist=("NOTHING",)))

    shown = tear_sheet_page(silent.source)

    assert "no scored decision" in shown
    assert "matches no market" in shown
    assert "<svg" not in shown


def test_without_matplotlib_the_page_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    with pytest.raises(MissingLibraryError, match="pip install matplotlib"):
        tear_sheet_page(cl.backtest("starter", "cumulative-drift").source)


def test_a_page_has_one_main_and_one_first_heading_and_skips_no_level():
    text = page_of("t", Html(f"{card('bar.html', 'First', text='', state=None)}<h4>Second</h4><h5>Part</h5>"))

    assert text.count("<main>") == text.count("</main>") == 1
    assert re.findall(r"<(h\d)", text) == ["h1", "h2", "h3"]
