import polars as pl
import pytest
from sqlalchemy import update

from clvlab.application.competitions.requests import BacktestRunRequest
from clvlab.store.tables import standings
from tests.factories import ALICE, make_competition

pytestmark = pytest.mark.long


def run_some(application):
    """Three competitions and two backtests; gives the ids of their runs."""
    ids = []
    for fixture_id in (90000000, 90000001, 90000002):
        competition_id = make_competition(application, "baseline", "cumulative-drift", fixture_id=fixture_id)
        ids.append(application.competitions.start(ALICE, competition_id)["run_id"])
    for fixture_id in (90000001, 90000003):
        request = {"pack_id": "starter", "fixture_id": fixture_id, "window_id": "w", "market_allowlist": [""]}
        ids.append(application.backtests.run(BacktestRunRequest(**request))["run_id"])
    return ids


def test_rows_pool_all_sealed_runs_of_an_agent(application):
    ids = run_some(application)
    sealed = [pl.read_ndjson(application.runs.sealed(run_id).scores, infer_schema_length=None) for run_id in ids]

    rows = {row["agent_id"]: row for row in application.leaderboard.rows()["rows"]}

    for agent_id, row in rows.items():
        own = [frame.filter(pl.col("agent_id") == agent_id) for frame in sealed]
        scored = pl.concat(own, how="vertical_relaxed").filter(pl.col("reason") == "scored")
        assert row["runs"] == sum(frame.height > 0 for frame in own)
        assert row["action_count"] == row["valid_count"] == scored.height
        assert row["total_clv_bps"] == scored["clv_bps"].sum()
        assert row["avg_clv_bps"] == scored["clv_bps"].sum() / scored.height
        assert row["sim_pnl"] == scored["edge_bps"].sum()
        worst = min(
            (walk - walk.cum_max().clip(0)).min()
            for walk in (frame["clv_bps"].fill_null(0).cum_sum() for frame in own if frame.height)
        )
        assert row["max_drawdown"] == worst <= 0
    assert rows["baseline"]["brier"] is None
    drift = pl.concat(sealed, how="vertical_relaxed").filter(
        pl.col("agent_id") == "cumulative-drift", pl.col("reason") == "scored"
    )
    errors = (drift["confidence_ppm"] / 1e6 - (drift["clv_bps"] > 0).cast(pl.Int64)) ** 2
    assert rows["cumulative-drift"]["brier"] == pytest.approx(errors.mean(), abs=1e-5)


def test_rank_is_by_pooled_mean_and_nothing_else(application):
    run_some(application)

    rows = application.leaderboard.rows()["rows"]

    assert [row["rank"] for row in rows] == [1, 2]
    assert rows[0]["avg_clv_bps"] > rows[1]["avg_clv_bps"]


def test_a_rebuild_from_the_sealed_bytes_finds_nothing_to_change_and_repairs_what_was(application):
    run_some(application)
    before = application.leaderboard.rows()

    assert application.leaderboard.rebuild() == []
    with application._database.write() as connection:
        connection.execute(update(standings).where(standings.c.agent_id == "baseline").values(total_clv_bps=10**6, runs=99))

    assert application.leaderboard.rows() != before
    differences = application.leaderboard.rebuild()
    assert [line.split(" was ")[0] for line in differences] == ["baseline: total_clv_bps", "baseline: runs"]
    assert application.leaderboard.rows() == before


def test_an_empty_store_has_an_empty_leaderboard(in_memory):
    assert in_memory.leaderboard.rows() == {"rows": []}
