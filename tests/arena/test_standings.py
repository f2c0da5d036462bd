import threading

import polars as pl
import pytest
from sqlalchemy import delete, update

from clvlab.arena.application import Application
from clvlab.arena.report_requests import BacktestRunRequest
from clvlab.store import standings as stored
from clvlab.store.tables import agent_results, counted_fixtures, run_chunks, standings
from tests.factories import ALICE, BOB, make_competition

SUMMED = ("action_count", "valid_count", "total_clv_bps", "sim_pnl", "valid_pct", "max_drawdown", "brier")


def compete(application, fixture_id=90000000, agents=("baseline", "cumulative-drift"), **config):
    """Id of the run of a new competition."""
    competition_id = make_competition(application, *agents, fixture_id=fixture_id, **config)
    return application.competitions.start(config.get("owner", ALICE), competition_id)["run_id"]


def backtest(application, fixture_id=90000000, **fields):
    request = {"pack_id": "starter", "fixture_id": fixture_id, "window_id": "w", "market_allowlist": [""]} | fields
    return application.backtests.run(BacktestRunRequest(**request))["run_id"]


def rows_of(application):
    return {row["agent_id"]: row for row in application.leaderboard.rows()["rows"]}


@pytest.mark.long
def test_rows_pool_all_fixtures_of_an_agent(application):
    ids = [compete(application, fixture_id) for fixture_id in (90000000, 90000001, 90000002)]
    sealed = [pl.read_ndjson(application.runs.sealed_run(run_id).scores, infer_schema_length=None) for run_id in ids]

    rows = rows_of(application)

    for agent_id, row in rows.items():
        own = [frame.filter(pl.col("agent_id") == agent_id) for frame in sealed]
        everything = pl.concat(own, how="vertical_relaxed")
        scored = everything.filter(pl.col("reason") == "scored")
        assert row["runs"] == 3
        assert row["action_count"] == row["valid_count"] == scored.height
        assert row["valid_pct"] == 100 * everything["valid"].mean()
        assert row["total_clv_bps"] == scored["clv_bps"].sum()
        assert row["avg_clv_bps"] == scored["clv_bps"].sum() / scored.height
        assert row["sim_pnl"] == scored["edge_bps"].sum()
        worst = min((walk - walk.cum_max().clip(0)).min() for walk in (one["clv_bps"].fill_null(0).cum_sum() for one in own))
        assert row["max_drawdown"] == worst <= 0
    assert rows["baseline"]["brier"] is None
    drift = pl.concat(sealed, how="vertical_relaxed").filter(
        pl.col("agent_id") == "cumulative-drift", pl.col("reason") == "scored"
    )
    errors = (drift["confidence_ppm"] / 1e6 - (drift["clv_bps"] > 0).cast(pl.Int64)) ** 2
    assert rows["cumulative-drift"]["brier"] == pytest.approx(errors.mean(), abs=1e-5)


def test_what_repeats_a_fixture_adds_to_runs_and_to_nothing_else(application):
    compete(application)
    first = rows_of(application)["baseline"]

    compete(application)
    compete(application, scoring_window="PT2H")
    compete(application, agents=("baseline",), execution_mode="dry_run")

    again = rows_of(application)["baseline"]
    assert (first["runs"], again["runs"]) == (1, 4)
    assert {name: again[name] for name in SUMMED} == {name: first[name] for name in SUMMED}
    assert (again["proof_mode"], again["eligibility_badge"], again["anchor_status"]) == tuple(
        first[name] for name in ("proof_mode", "eligibility_badge", "anchor_status")
    )
    compete(application, 90000001)
    assert rows_of(application)["baseline"]["valid_count"] > first["valid_count"]


def test_runs_without_a_token_have_a_row_that_joins_nobodys_and_counts_a_fixture_once(application):
    compete(application, agents=("baseline",))
    own = rows_of(application)["baseline"]
    for fields in ({}, {"window_id": "w2"}, {"min_clv_horizon_s": 0}, {"market_allowlist": ["1X2"]}):
        backtest(application, **fields)

    rows = rows_of(application)

    assert rows["baseline"] | {"rank": 0} == own | {"rank": 0}
    assert rows["baseline (anonymous)"]["runs"] == 4
    assert rows["baseline (anonymous)"]["valid_count"] == own["valid_count"]


def test_another_owners_agent_of_the_same_name_has_a_row_of_its_own(application):
    compete(application, agents=("baseline",))
    compete(application, agents=("baseline",), owner=BOB)

    rows = rows_of(application)

    assert set(rows) == {"baseline", "baseline@bob"}
    assert rows["baseline"]["valid_count"] == rows["baseline@bob"]["valid_count"]


def test_a_rebuild_from_the_sealed_bytes_finds_nothing_to_change_and_repairs_what_was(application):
    for fixture_id in (90000000, 90000001, 90000000):
        compete(application, fixture_id)
    compete(application, owner=BOB)
    for window_id in ("w", "w2"):
        backtest(application, 90000001, window_id=window_id)
    before = application.leaderboard.rows()

    assert application.leaderboard.rebuild() == []
    assert application.leaderboard.rows() == before
    with application._database.write() as connection:
        own = (standings.c.agent_id == "baseline") & (standings.c.owner == ALICE)
        connection.execute(update(standings).where(own).values(total_clv_bps=10**6, runs=99))
        connection.execute(delete(counted_fixtures))

    assert application.leaderboard.rows() != before
    differences = application.leaderboard.rebuild()
    assert [line.split(" was ")[0] for line in differences] == ["baseline: total_clv_bps", "baseline: runs"]
    assert application.leaderboard.rows() == before
    compete(application)
    assert rows_of(application)["baseline"]["valid_count"] == next(
        row["valid_count"] for row in before["rows"] if row["agent_id"] == "baseline"
    )


def test_a_database_from_before_fixtures_were_counted_is_counted_when_it_is_opened(application):
    compete(application)
    before = application.leaderboard.rows()
    with application._database.write() as connection:
        for table in (agent_results, standings, counted_fixtures):
            connection.execute(delete(table))

    application.leaderboard.bring_up_to_date()

    assert application.leaderboard.rows() == before


def test_an_empty_store_has_an_empty_leaderboard(in_memory):
    assert in_memory.leaderboard.rows() == {"rows": []}


def test_a_rebuild_keeps_what_the_sealed_bytes_said_of_a_run_that_is_not_stored_as_it_was_sealed(application):
    run_id = compete(application, agents=("baseline",))
    compete(application, agents=("baseline",), owner=BOB)
    before = rows_of(application)
    with application._database.write() as connection:
        connection.execute(delete(run_chunks).where(run_chunks.c.run_id == run_id, run_chunks.c.part == "events"))

    application.leaderboard.rebuild()

    after = rows_of(application)
    assert {name: after[name]["total_clv_bps"] for name in after} == {name: before[name]["total_clv_bps"] for name in before}
    with application._database.read() as connection:
        assert [row["failing_runs"] for row in stored.all_rows(connection)] == [1, 0]
    assert application.leaderboard.rebuild() == []
    compete(application, agents=("baseline",))
    assert rows_of(application)["baseline"]["valid_count"] == before["baseline"]["valid_count"]


def test_a_seal_waits_for_a_rebuild_and_is_not_lost(postgres_url, monkeypatch):
    application = Application(postgres_url)
    compete(application)
    sealing = threading.Thread(target=compete, args=(application, 90000001))
    replace_all = stored.replace_all

    def slow(*given):
        sealing.start()
        sealing.join(0.5)
        replace_all(*given)

    monkeypatch.setattr(stored, "replace_all", slow)
    application.leaderboard.rebuild()
    sealing.join()
    monkeypatch.undo()

    assert rows_of(application)["baseline"]["runs"] == 2
    assert application.leaderboard.rebuild() == []
    application.close()
