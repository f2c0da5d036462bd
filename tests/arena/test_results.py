"""What pages say and draw of sealed runs."""

import re

import polars as pl
import pytest

from clvlab.arena.application import Application
from clvlab.arena.leaderboard import Forest
from clvlab.arena.report_requests import PackBacktestRequest
from clvlab.arena.runs.decisions import DecisionFilter
from clvlab.arena.runs.results import run_result
from clvlab.runs.inspector import arithmetic
from clvlab.statistics import cluster_mean


@pytest.fixture(scope="module")
def application(tables_in_memory):  # noqa: ARG001  what a store in memory begins with
    """A store with two runs over one pack, each over a part of its fixtures."""
    found = Application()
    found.start()
    fixtures = found.packs.info("starter")["fixtures"]
    found.run_ids = [run(found, fixtures[:5]), run(found, fixtures[3:])]
    yield found
    found.close()


def run(application, fixture_ids):
    asked = application.backtests.ask(
        PackBacktestRequest(pack_id="starter", fixture_ids=fixture_ids, strategy="cumulative-drift"), None
    )
    application.backtests.enter(asked)
    application.jobs.settle(asked.run_id)
    return asked.run_id


def scored(application, run_id):
    return application.decisions.rows(run_id).filter(pl.col("reason") == "scored").cast({"clv_bps": pl.Int64})


def test_a_run_says_the_mean_of_its_tear_sheet_and_how_many_decisions_that_leaves_out(application):
    for run_id in application.run_ids:
        (own,) = application.results.of(run_id).agents

        card = application.runs.card(run_id)["metrics"]
        rows = scored(application, run_id)
        kept, late = rows.filter(~pl.col("at_close")), application.results.of(run_id).at_close
        assert own.estimate == cluster_mean(kept["clv_bps"], kept["fixture_id"])
        assert own.estimate.n + late == card["action_count"]
        assert own.estimate.mean * own.estimate.n == pytest.approx(card["total_clv_bps"])  # at the close CLV is 0
        assert own.sentence.endswith(".")
        assert own.interval.startswith("<svg")
        assert own.by_date.startswith("<svg")


def test_what_a_run_says_is_kept(application):
    run_id = application.run_ids[0]

    assert application.results.of(run_id) is application.results.of(run_id)


def test_extremes_are_those_of_the_list(application):
    run_id = application.run_ids[1]
    found = application.results.of(run_id)
    rows = scored(application, run_id)

    lowest = rows.sort("clv_bps", "seq").filter(pl.col("clv_bps") < 0)["seq"][:5].to_list()
    highest = rows.sort("clv_bps", "seq", descending=[True, False]).filter(pl.col("clv_bps") > 0)["seq"][:5].to_list()
    assert [one.seq for one in found.worst] == lowest
    assert [one.seq for one in found.best] == highest


def test_a_run_without_a_scored_decision_says_nothing(application):
    rows = application.decisions.rows(application.run_ids[0])

    found = run_result(rows.clear())
    assert (found.agents, found.worst, found.best) == ((), (), ())


def test_a_row_of_the_leaderboard_has_the_interval_over_the_fixtures_that_it_counts(application):
    (found,) = application.forest.page().rows

    first, second = (scored(application, run_id) for run_id in application.run_ids)
    fresh = second.filter(~pl.col("fixture_id").is_in(first["fixture_id"].unique().to_list()))
    values, fixtures = (
        pl.concat([first[name].cast(pl.Int64), fresh[name].cast(pl.Int64)]) for name in ("clv_bps", "fixture_id")
    )
    expected = cluster_mean(values, fixtures)
    assert found.row == application.leaderboard.rows()["rows"][0]
    assert found.row["avg_clv_bps"] == pytest.approx(expected.mean)
    assert (found.low, found.high) == (pytest.approx(expected.low), pytest.approx(expected.high))
    assert found.fixtures == 12
    assert f"interval {expected.low:+,.1f} to {expected.high:+,.1f}" in found.picture


def test_a_page_reads_no_more_runs_than_it_may_and_the_next_goes_on(application, monkeypatch):
    monkeypatch.setattr("clvlab.arena.leaderboard._RUNS_AT_ONCE", 1)
    forest = Forest(application.leaderboard, application.decisions)

    bounds = [forest.page().rows[0].low for _ in range(2)]

    assert bounds[0] is None
    assert bounds[1] is not None


def test_the_arithmetic_of_every_decision_is_what_was_sealed(application):
    run_id = application.run_ids[1]
    for seq in range(1, application.decisions.page(run_id, DecisionFilter())["total"] + 1):
        record = application.runs.inspect(run_id, seq)
        law, steps = record["recompute"], {step.name: step for step in arithmetic(record)}

        if law["reason"] != "scored":
            assert steps == {}
            continue
        assert steps["CLV"].bps == law["clv_bps"]
        assert steps["Edge"].bps == law["recomputed_edge_bps"]
        for step in steps.values():
            written = re.sub(r"floor\((.*) / (.*)\) - 10000", r"(\1) // (\2) - 10000", step.numbers).replace(" x ", " * ")
            assert eval(written) == step.bps
