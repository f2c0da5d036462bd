import re
import sys

import polars as pl
import pytest

import clvlab as cl
from clvlab.errors import MissingLibraryError
from clvlab.report.html import Html, card, page_policy, source_hash, time_element
from clvlab.report.html import page as page_of
from clvlab.report.tearsheet import tear_sheet_page
from tests.hostile import without_times_script

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


def test_the_page_is_one_document_that_fetches_nothing_and_runs_only_the_script_of_times(page):
    assert page.startswith("<!DOCTYPE html>")
    assert page.count("<html") == page.count("</html>") == page.partition("</head>")[0].count("<title>") == 1
    assert page.count("<svg") == page.count("</svg>")
    assert page.count("<svg") > 20
    unsafe = r"https?://|<script|<link|<iframe|url\((?!#)|@import|(?:src|href)=.(?!#|data:)|\son\w+="
    assert not re.search(unsafe, without_times_script(page))


def test_the_policy_of_pages_allows_their_script_of_times_which_a_page_without_times_lacks(page):
    (script,) = re.findall("<script>(.*?)</script>", page, re.DOTALL)

    assert f"script-src {source_hash(script)};" in page_policy()
    assert page_of("Found", time_element(0, "1970 UTC")).count("<script") == 1
    assert "<script" not in page_of("Found", Html("1970 UTC"))


def test_times_of_decisions_say_utc_and_are_read_by_the_script(page):
    times = re.findall(
        r'<time datetime="(\d{4}-\d\d-\d\dT\d\d:\d\d):\d\d\.\d{3}Z">[A-Z][a-z]{2} \d+ [A-Z][a-z]{2} \d{4}, (\d\d:\d\d)\xa0UTC<',
        page,
    )

    assert len(times) == page.count("<time") == page.count('<li class="decision')
    assert all(machine.endswith(shown) for machine, shown in times)


def test_the_page_says_what_it_is_of_and_whether_that_is_sealed(page):
    report = cl.backtest("starter", "cumulative-drift").report

    assert "<title>Tear sheet of cumulative-drift on starter</title>" in page
    for name in ("backtest_id", "run_id", "content_hash", "evidence_hash", "manifest_hash"):
        assert report[name] in page
    assert page.count('class="pass"') == list(report["checks"].values()).count("pass")


def test_the_page_says_how_evenly_the_decisions_are_spread(page):
    assert "128 scored decisions in 12 fixtures, as informative as 10.7 fixtures of equal size" in page


def test_the_same_backtest_gives_the_same_bytes(page):
    assert tear_sheet_page(cl.backtest("starter", "cumulative-drift").source) == page


def test_names_that_are_markup_or_formulas_are_text(nasty_page):
    assert not re.search(r"<script|<img|<b>|<i>|on\w+=alert\(1\)>", without_times_script(nasty_page))
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
