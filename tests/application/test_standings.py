import polars as pl
import pytest
from sqlalchemy import update

from clvlab.application.anchoring import recorded_check
from clvlab.application.application import Application
from clvlab.application.requests import BacktestRunRequest
from clvlab.proof.verify import Anchor
from clvlab.store.tables import standings
from tests.factories import ALICE, make_competition


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


class Chain:
    """An anchor that answers as it was told."""

    cluster, enabled = "testnet", True

    def __init__(self, *answers):
        self.answers = list(answers)
        self.committed = []

    def commit(self, manifest_hash):
        self.committed.append(manifest_hash)
        status = self.answers.pop(0)
        if status == "breaks":
            raise RuntimeError("no such network")
        return Anchor(status, "sig", "testnet", "https://explorer.example/sig")

    def check(self, anchor, manifest_hash):
        assert manifest_hash in self.committed or anchor.status == "pending"
        return recorded_check(anchor)


def test_anchors_come_later_and_reach_the_log_the_card_and_the_leaderboard(database_url):
    chain = Chain("anchored", "failed", "breaks")
    application = Application(database_url, anchorer=chain)
    ids = [make_competition(application, "baseline", fixture_id=90000000 + n) for n in range(3)]
    started = [application.competitions.start(ALICE, competition_id) for competition_id in ids]

    def badges():
        row = application.leaderboard.rows()["rows"][0]
        return row["anchor_status"], row["eligibility_badge"]

    pending = badges(), application.competitions.state(ids[0])["anchor_status"]
    card_before = application.runs.card(started[0]["run_id"])
    assert application.jobs.run_one()
    one = badges()
    while application.jobs.run_one():
        pass

    assert pending == (("some-pending", "unproven"), "pending")
    assert card_before["checks"]["anchor"] == "pending"
    assert one == ("some-pending", "partially-proven")
    assert badges() == ("some-pending", "partially-proven")
    states = [application.competitions.state(competition_id)["anchor_status"] for competition_id in ids]
    assert states == ["anchored", "failed", "failed"]
    assert [application.runs.verify(s["run_id"])["checks"]["anchor"] for s in started[:2]] == ["pass", "fail"]
    assert application.runs.verify(started[0]["run_id"])["manifest_hash"] == chain.committed[0]
    log = application.competitions.events(ids[0], -1)
    assert [event["kind"] for event in log[-3:]] == ["PROOF_ANCHOR", "COMPETITION_FINALIZED", "PROOF_ANCHOR"]
    assert application.leaderboard.rebuild() == []
    application.close()
