"""Create the tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from clvlab.errors import StoreError

revision = "0003"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "competitions",
        sa.Column("competition_id", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("roster_size", sa.Integer(), nullable=False),
        sa.Column("pack_id", sa.Text(), nullable=True),
        sa.Column("fixture_id", sa.BigInteger(), nullable=True),
        sa.Column("content_hash", sa.Text(), nullable=True),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("cause", sa.Text(), nullable=True),
        sa.Column("claimed_from", sa.Text(), nullable=True),
        sa.Column("started_seq", sa.BigInteger(), nullable=True),
        sa.Column("next_seq", sa.BigInteger(), nullable=False),
        sa.Column("created_ts_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("competition_id", name=op.f("pk_competitions")),
    )
    op.create_index(op.f("ix_competitions_status"), "competitions", ["status"], unique=False)
    op.create_table(
        "instances",
        sa.Column("instance_id", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("template", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("record", sa.Text(), nullable=False),
        sa.Column("next_event_id", sa.BigInteger(), nullable=False),
        sa.Column("created_ts_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("instance_id", name=op.f("pk_instances")),
    )
    op.create_table(
        "jobs",
        sa.Column("job_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("leased_ts_ms", sa.BigInteger(), nullable=True),
        sa.Column("lease_until_ts_ms", sa.BigInteger(), nullable=True),
        sa.Column("cause", sa.Text(), nullable=True),
        sa.Column("created_ts_ms", sa.BigInteger(), nullable=False),
        sa.Column("postponed", sa.Integer(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_jobs")),
    )
    op.create_index(op.f("ix_jobs_run_id"), "jobs", ["run_id"], unique=False)
    op.create_index(op.f("ix_jobs_status_job_id"), "jobs", ["status", "job_id"], unique=False)
    op.create_table(
        "runs",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("origin_id", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("source_mode", sa.Text(), nullable=False),
        sa.Column("mode_label", sa.Text(), nullable=False),
        sa.Column("lineage", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=True),
        sa.Column("created_ts_ms", sa.BigInteger(), nullable=False),
        sa.Column("sealed_ts_ms", sa.BigInteger(), nullable=True),
        sa.Column("evidence_hash", sa.Text(), nullable=True),
        sa.Column("manifest_hash", sa.Text(), nullable=True),
        sa.Column("manifest", sa.LargeBinary(), nullable=True),
        sa.Column("checks", sa.Text(), nullable=True),
        sa.Column("metrics", sa.Text(), nullable=True),
        sa.Column("commit_index", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_runs")),
    )
    op.create_index(op.f("ix_runs_created_ts_ms_run_id"), "runs", ["created_ts_ms", "run_id"], unique=False)
    op.create_table(
        "standings",
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("action_count", sa.BigInteger(), nullable=False),
        sa.Column("valid_count", sa.BigInteger(), nullable=False),
        sa.Column("invalid_count", sa.BigInteger(), nullable=False),
        sa.Column("total_clv_bps", sa.BigInteger(), nullable=False),
        sa.Column("sim_pnl", sa.BigInteger(), nullable=False),
        sa.Column("forecasts", sa.BigInteger(), nullable=False),
        sa.Column("squared_error", sa.BigInteger(), nullable=False),
        sa.Column("max_drawdown", sa.BigInteger(), nullable=False),
        sa.Column("runs", sa.BigInteger(), nullable=False),
        sa.Column("verified_runs", sa.BigInteger(), nullable=False),
        sa.Column("live_runs", sa.BigInteger(), nullable=False),
        sa.Column("failing_runs", sa.BigInteger(), nullable=False),
        sa.Column("anchored_runs", sa.BigInteger(), nullable=False),
        sa.Column("pending_runs", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("agent_id", name=op.f("pk_standings")),
    )
    op.create_table(
        "agent_results",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("action_count", sa.BigInteger(), nullable=False),
        sa.Column("valid_count", sa.BigInteger(), nullable=False),
        sa.Column("invalid_count", sa.BigInteger(), nullable=False),
        sa.Column("total_clv_bps", sa.BigInteger(), nullable=False),
        sa.Column("sim_pnl", sa.BigInteger(), nullable=False),
        sa.Column("forecasts", sa.BigInteger(), nullable=False),
        sa.Column("squared_error", sa.BigInteger(), nullable=False),
        sa.Column("max_drawdown", sa.BigInteger(), nullable=False),
        sa.Column("proof_mode", sa.Text(), nullable=False),
        sa.Column("source_mode", sa.Text(), nullable=False),
        sa.Column("failing", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_agent_results_run_id")),
        sa.PrimaryKeyConstraint("run_id", "agent_id", name=op.f("pk_agent_results")),
    )
    op.create_table(
        "anchors",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("signature", sa.Text(), nullable=True),
        sa.Column("explorer_url", sa.Text(), nullable=True),
        sa.Column("updated_ts_ms", sa.BigInteger(), nullable=False),
        sa.Column("record", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_anchors_run_id")),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_anchors")),
    )
    op.create_table(
        "competition_events",
        sa.Column("competition_id", sa.Text(), nullable=False),
        sa.Column("first_seq", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=True),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("ts", sa.BigInteger(), nullable=False),
        sa.Column("events", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["competition_id"], ["competitions.competition_id"], name=op.f("fk_competition_events_competition_id")
        ),
        sa.PrimaryKeyConstraint("competition_id", "first_seq", name=op.f("pk_competition_events")),
    )
    op.create_index(
        op.f("ix_competition_events_competition_id_kind_first_seq"),
        "competition_events",
        ["competition_id", "kind", "first_seq"],
        unique=False,
    )
    op.create_table(
        "idempotency",
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("instance_id", sa.Text(), nullable=False),
        sa.Column("created_ts_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["instance_id"], ["instances.instance_id"], name=op.f("fk_idempotency_instance_id")),
        sa.PrimaryKeyConstraint("owner", "key", name=op.f("pk_idempotency")),
    )
    op.create_table(
        "receipts",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("first_line", sa.BigInteger(), nullable=False),
        sa.Column("lines", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_receipts_run_id")),
        sa.PrimaryKeyConstraint("run_id", "first_line", name=op.f("pk_receipts")),
    )
    op.create_table(
        "reports",
        sa.Column("backtest_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("pack_id", sa.Text(), nullable=False),
        sa.Column("fixture_id", sa.BigInteger(), nullable=False),
        sa.Column("created_ts_ms", sa.BigInteger(), nullable=False),
        sa.Column("report", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_reports_run_id")),
        sa.PrimaryKeyConstraint("backtest_id", name=op.f("pk_reports")),
    )
    op.create_index(op.f("ix_reports_created_ts_ms_backtest_id"), "reports", ["created_ts_ms", "backtest_id"], unique=False)
    op.create_table(
        "roster",
        sa.Column("competition_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("roster_size", sa.Integer(), nullable=False),
        sa.Column("strategy", sa.Text(), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("config_hash", sa.Text(), nullable=False),
        sa.Column("proof_mode", sa.Text(), nullable=False),
        sa.Column("instance_id", sa.Text(), nullable=True),
        sa.CheckConstraint("position < roster_size", name=op.f("ck_roster_within_size")),
        sa.ForeignKeyConstraint(["competition_id"], ["competitions.competition_id"], name=op.f("fk_roster_competition_id")),
        sa.PrimaryKeyConstraint("competition_id", "agent_id", name=op.f("pk_roster")),
        sa.UniqueConstraint("competition_id", "position", name=op.f("uq_roster_competition_id_position")),
    )
    op.create_table(
        "run_chunks",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("part", sa.Text(), nullable=False),
        sa.Column("first_line", sa.BigInteger(), nullable=False),
        sa.Column("lines", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_run_chunks_run_id")),
        sa.PrimaryKeyConstraint("run_id", "part", "first_line", name=op.f("pk_run_chunks")),
    )
    op.create_table(
        "runtime_events",
        sa.Column("instance_id", sa.Text(), nullable=False),
        sa.Column("id", sa.BigInteger(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("ts", sa.BigInteger(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["instance_id"], ["instances.instance_id"], name=op.f("fk_runtime_events_instance_id")),
        sa.PrimaryKeyConstraint("instance_id", "id", name=op.f("pk_runtime_events")),
    )
    op.create_table(
        "log_entries",
        sa.Column("idx", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("commit_index", sa.BigInteger(), nullable=True),
        sa.Column("entry", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("idx", name=op.f("pk_log_entries")),
        sa.UniqueConstraint("commit_index", name=op.f("uq_log_entries_commit_index")),
    )
    op.create_index(op.f("ix_log_entries_run_id"), "log_entries", ["run_id"], unique=False)
    op.create_index(op.f("ix_log_entries_owner_kind"), "log_entries", ["owner", "kind"], unique=False)
    op.create_table(
        "log_nodes",
        sa.Column("level", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("idx", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("level", "idx", name=op.f("pk_log_nodes")),
    )
    for statement in _append_only(op.get_bind().dialect.name):
        op.execute(statement)
    op.create_table(
        "trials",
        sa.Column("trial_id", sa.Text(), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("created_ts_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("trial_id", name=op.f("pk_trials")),
    )
    op.create_index(op.f("ix_trials_content_hash"), "trials", ["content_hash"])


def _append_only(dialect: str) -> list[str]:
    """Make the database itself refuse to change or drop an entry."""
    if dialect == "postgresql":
        return [
            "CREATE FUNCTION log_is_append_only() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'the run log is append-only'; END $$",
            "CREATE TRIGGER log_entries_stay BEFORE UPDATE OR DELETE ON log_entries "
            "FOR EACH ROW EXECUTE FUNCTION log_is_append_only()",
        ]
    return [
        f"CREATE TRIGGER log_entries_no_{act.lower()} BEFORE {act} ON log_entries "
        "BEGIN SELECT RAISE(ABORT, 'the run log is append-only'); END"
        for act in ("UPDATE", "DELETE")
    ]


def downgrade() -> None:
    """Refuse: before this there were no tables, and the log of all runs must not be dropped."""
    raise StoreError("there is no older schema to go back to")
