"""Record owner and pack of a run and when its checks were recomputed, and count each fixture of a leaderboard's row once.

What runs added to the leaderboard is dropped: it is made anew from the sealed bytes when the database is opened.

Revision ID: 0005
Revises: 0004
"""

from __future__ import annotations

import orjson
import sqlalchemy as sa
from alembic import op

from clvlab.errors import StoreError

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_SUMS = (
    "decision_count", "action_count", "valid_count", "invalid_count", "total_clv_bps", "sim_pnl", "forecasts", "squared_error",
    "max_drawdown",
)  # fmt: skip
_RUN_COUNTS = ("runs", "counted_runs", "verified_runs", "live_runs", "failing_runs", "anchored_runs", "pending_runs")


def upgrade() -> None:
    """Add what is recorded of runs, jobs and requests, and make the tables of the leaderboard anew."""
    for name in ("owner", "pack_id", "content_hash"):
        op.add_column("runs", sa.Column(name, sa.Text(), nullable=True))
    op.execute("UPDATE runs SET owner = (SELECT owner FROM log_entries WHERE idx = runs.commit_index)")
    op.execute("UPDATE runs SET content_hash = (SELECT content_hash FROM log_entries WHERE idx = runs.commit_index)")
    _name_packs()
    op.add_column("runs", sa.Column("checked_ts_ms", sa.BigInteger(), nullable=True))
    op.execute("UPDATE runs SET checked_ts_ms = sealed_ts_ms")
    op.create_index(op.f("ix_runs_owner_created_ts_ms"), "runs", ["owner", "created_ts_ms"])
    op.create_index(op.f("ix_runs_pack_id_created_ts_ms"), "runs", ["pack_id", "created_ts_ms"])
    op.create_index(op.f("ix_instances_owner_created_ts_ms"), "instances", ["owner", "created_ts_ms"])
    op.add_column("jobs", sa.Column("progress", sa.Text(), nullable=True))
    with op.batch_alter_table("reports") as reports:
        reports.alter_column("fixture_id", existing_type=sa.BigInteger(), nullable=True)
    op.drop_table("standings")
    op.drop_table("agent_results")
    _create_results()


def _name_packs() -> None:
    """Note the packs of runs by what asked for them."""
    op.execute("UPDATE runs SET pack_id = (SELECT pack_id FROM reports WHERE reports.run_id = runs.run_id)")
    bound = "SELECT pack_id FROM competitions WHERE competition_id = runs.origin_id"
    op.execute(f"UPDATE runs SET pack_id = ({bound}) WHERE kind = 'competition'")  # noqa: S608  # no value but ours
    connection = op.get_bind()
    for run_id, record in connection.execute(sa.text("SELECT run_id, record FROM instances")).all():
        binding = orjson.loads(record).get("replay_binding") or {}
        named = {"pack_id": binding.get("pack_id"), "run_id": run_id}
        connection.execute(sa.text("UPDATE runs SET pack_id = :pack_id WHERE run_id = :run_id"), named)


def _create_results() -> None:
    sums = [sa.Column(name, sa.BigInteger(), nullable=False) for name in _SUMS]
    op.create_table(
        "agent_results",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        *sums,
        sa.Column("fixtures", sa.BigInteger(), nullable=False),
        sa.Column("proof_mode", sa.Text(), nullable=False),
        sa.Column("source_mode", sa.Text(), nullable=False),
        sa.Column("failing", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_agent_results_run_id")),
        sa.PrimaryKeyConstraint("run_id", "agent_id", name=op.f("pk_agent_results")),
    )
    op.create_table(
        "counted_fixtures",
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("fixture_id", sa.BigInteger(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "agent_id", "content_hash", "fixture_id", name=op.f("pk_counted_fixtures")),
    )
    op.create_index(op.f("ix_counted_fixtures_run_id"), "counted_fixtures", ["run_id"])
    op.create_table(
        "standings",
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in (*_SUMS, *_RUN_COUNTS)),
        sa.PrimaryKeyConstraint("owner", "agent_id", name=op.f("pk_standings")),
    )
    op.create_table(
        "backtest_requests",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("given", sa.Boolean(), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("created_ts_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_backtest_requests")),
    )
    op.create_index(op.f("ix_backtest_requests_run_id"), "backtest_requests", ["run_id"])


def downgrade() -> None:
    """Refuse: versions of schema 0004 never make the sums of the leaderboard anew, and take no report without a fixture."""
    raise StoreError("schema 0004 has no place for reports of several fixtures, nor for fixtures that are counted once")
