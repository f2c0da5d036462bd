"""What taking offers would have paid, over HTTP."""

import pytest

import clvlab as cl
from tests.service.serving import BACKTEST, FIXTURE, assert_problem


@pytest.fixture(scope="module")
def run_id(api):
    return api.post("/backtests", BACKTEST, by=api.nobody)["run_id"]


def test_it_says_what_a_notebook_says(api, run_id):
    found = api.get(f"/runs/{run_id}/executable", stake=25, delay_s=3, commission="betfair")

    here = cl.backtest("starter", "baseline", fixtures=[FIXTURE], window=cl.Window("full", market_allowlist=("",)))
    expected = here.executable(stake=25, delay_s=3, commission="betfair").facts()
    assert {name: found[name] for name in expected} == expected
    assert (found["run_id"], found["agent_id"], found["basis"]) == (run_id, "baseline", "quoted price, size unknown")


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("stake=0", 422), ("stake=nan", 422), ("stake=1e9", 422), ("delay_s=-1", 422), ("delay_s=3601", 422),
        ("max_age_s=0", 422), ("stake=x", 422), ("commission=123456789012345678901", 422), ("colour=1", 422),
        ("commission=1", 400), ("commission=betfare", 400), ("commission=nan", 400), ("agent_id=nobody", 400),
    ],
)  # fmt: skip
def test_what_is_out_of_range_is_refused(api, run_id, query, status):
    assert_problem(api.nobody.get(f"/runs/{run_id}/executable?{query}"), status)


def test_of_an_unknown_run_there_is_nothing(api):
    assert_problem(api.nobody.get("/runs/absent/executable"), 404)


def test_one_agent_of_a_competition_is_named(api):
    created = api.competition()
    api.post(f"/competitions/{created}/start")
    run_id = api.get(f"/competitions/{created}")["run_id"]

    assert_problem(api.nobody.get(f"/runs/{run_id}/executable"), 400)
    names = [row["agent_id"] for row in api.get(f"/competitions/{created}")["leaderboard"]]
    assert api.get(f"/runs/{run_id}/executable", agent_id=names[0])["agent_id"] == names[0]
