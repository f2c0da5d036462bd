"""The explorer of a part of the decisions, as a tear sheet chooses it."""

import pytest

import clvlab as cl
from clvlab.errors import ArgumentError, StatisticsError, UnknownFixtureError, UnknownMarketError

TOTALS = "OVERUNDER_PARTICIPANT_GOALS"


@pytest.fixture(scope="module")
def bt():
    return cl.backtest("starter", "cumulative-drift")


@pytest.fixture(scope="module")
def part(bt):
    return bt.tear_sheet().only(markets=[TOTALS], sides=["over"])


def test_fixtures_markets_and_marks_are_those_of_the_part(bt, part):
    explorer = bt.explore(only=part)
    seen = []
    for fixture_id in explorer.fixtures["fixture_id"]:
        explorer.show(fixture_id)
        for market_key in explorer.markets["market_key"]:
            found = explorer.show(fixture_id, market_key).frame
            seen += [(fixture_id, market_key, side) for side in found["side"]]

    decided = bt.scores.filter(bt.scores["market_key"].str.starts_with(TOTALS), side="over")
    assert sorted(seen) == sorted(decided.select("fixture_id", "market_key", "side").rows())
    assert "market " in explorer.line
    assert "only=sheet.selection" in explorer.query


def test_what_is_left_out_is_not_shown(bt, part):
    explorer = bt.explore(only=part.selection)
    with pytest.raises(UnknownMarketError):
        explorer.show(explorer.fixture_id, "1X2_PARTICIPANT_RESULT||")

    alone = bt.explore(only=bt.tear_sheet().only(fixtures=[90000005]))
    assert alone.fixtures["fixture_id"].to_list() == [90000005]
    with pytest.raises(UnknownFixtureError):
        alone.show(90000004)


def test_the_whole_is_what_it_was(bt):
    assert bt.explore(only=bt.tear_sheet()).fixtures.equals(bt.explore().fixtures)


def test_a_part_without_decisions_is_refused(bt):
    with pytest.raises(StatisticsError, match="there is no decision on side home"):
        bt.explore(only=bt.tear_sheet().only(sides=["home"]))


@pytest.mark.parametrize("given", ["1X2", {"markets": ["1X2"]}, 3])
def test_something_else_is_refused_by_value(bt, given):
    with pytest.raises(ArgumentError, match=r"sheet\.only"):
        bt.explore(only=given)


def test_the_widget_offers_the_part_alone(bt, part):
    from clvlab.lab.widgets.explorer import ExplorerWidget

    explorer = bt.explore(only=part)
    shown = ExplorerWidget(explorer)

    assert len(shown.fixture.options) == explorer.fixtures.height < bt.explore().fixtures.height + 1
    assert {value for _, value in shown.market.options} == set(explorer.markets["market_key"])
