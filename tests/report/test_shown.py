import re

import polars as pl
import pytest

import clvlab as cl
from clvlab.report import breakdowns
from clvlab.report.figures import MEANINGS
from clvlab.words import market_names


@pytest.fixture(scope="module")
def sheet():
    return cl.backtest("starter", "cumulative-drift").tear_sheet(resamples=50, draws=5)


@pytest.fixture(scope="module")
def shown(sheet):
    return sheet._repr_html_()


def test_every_figure_says_in_a_line_what_it_asks(sheet):
    assert sheet.frame.filter(~pl.col("figure").is_in(list(MEANINGS)))["figure"].to_list() == []
    assert max(map(len, MEANINGS.values())) < 70


def test_sentence_pictures_and_markets_come_before_tables_of_figures(shown):
    places = [shown.find(part) for part in ('class="verdict', "<svg", ">Markets<", ">Figures<", "Data quality")]

    assert places == sorted(places)
    assert places[0] > 0


def test_markets_have_names_that_people_use_and_their_key_beside(sheet, shown):
    for key, name in market_names(sheet.tables["by_market"]["market"]).items():
        assert name != key
        assert f'<abbr title="{key}">{name}</abbr>' in shown


def test_how_a_market_went_ends_at_its_total(sheet):
    walks, totals = breakdowns.market_walks(sheet.scored), sheet.scored.group_by("market_key").agg(pl.sum("clv_bps"))

    assert {key: walk[-1] for key, walk in walks.items()} == dict(totals.rows())
    assert {walk[0] for walk in walks.values()} == {0.0}


def test_numbers_never_break(shown):
    figures = shown.partition(">Figures<")[2].partition("</table>")[0]

    for cell in re.findall(r"<td[^>]*>(.*?)</td>", figures):
        if re.match(r"<span><strong>", cell):
            assert cell.startswith("<span>")
            assert cell.endswith("</span>")
    assert "td span{white-space:nowrap}" in shown
