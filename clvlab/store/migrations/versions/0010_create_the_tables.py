"""Create the tables.

Revision ID: 0010
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    true,
)

from clvlab.errors import StoreError
from clvlab.store.tables import metadata

revision = "0010"
down_revision = None
branch_labels = None
depends_on = None

_schema = MetaData(naming_convention=metadata.naming_convention)

Table(
    "backtest_requests",
    _schema,
    Column("key", Text, primary_key=True),
    Column("run_id", Text, nullable=False),
    Column("given", Boolean, nullable=False),
    Column("active", Boolean, nullable=False),
    Column("created_ts_ms", BigInteger, nullable=False),
    Index(None, "run_id"),
)
Table(
    "competitions",
    _schema,
    Column("competition_id", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("roster_size", Integer, nullable=False),
    Column("pack_id", Text),
    Column("fixture_id", BigInteger),
    Column("content_hash", Text),
    Column("run_id", Text),
    Column("cause", Text),
    Column("claimed_from", Text),
    Column("started_seq", BigInteger),
    Column("next_seq", BigInteger, nullable=False),
    Column("created_ts_ms", BigInteger, nullable=False),
    Index(None, "created_ts_ms", "competition_id"),
    Index(None, "status"),
)
Table(
    "counted_fixtures",
    _schema,
    Column("owner", Text, primary_key=True),
    Column("agent_id", Text, primary_key=True),
    Column("content_hash", Text, primary_key=True),
    Column("fixture_id", BigInteger, primary_key=True),
    Column("run_id", Text, nullable=False),
    Index(None, "run_id"),
)
Table(
    "held_out",
    _schema,
    Column("plan_id", Text, primary_key=True),
    Column("digest", Text, primary_key=True),
    Index(None, "digest"),
)
Table(
    "instances",
    _schema,
    Column("instance_id", Text, primary_key=True),
    Column("owner", Text),
    Column("template", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("record", Text, nullable=False),
    Column("next_event_id", BigInteger, nullable=False),
    Column("created_ts_ms", BigInteger, nullable=False),
    Index(None, "owner", "created_ts_ms"),
)
Table(
    "jobs",
    _schema,
    Column("job_id", BigInteger().with_variant(Integer(), "sqlite"), primary_key=True),
    Column("kind", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("payload", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("leased_ts_ms", BigInteger),
    Column("lease_until_ts_ms", BigInteger),
    Column("cause", Text),
    Column("created_ts_ms", BigInteger, nullable=False),
    Column("postponed", Integer, nullable=False, server_default="0"),
    Column("progress", Text),
    Index(None, "run_id"),
    Index(None, "status", "job_id"),
)
Table(
    "log_entries",
    _schema,
    Column("idx", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("commit_index", BigInteger),
    Column("entry", LargeBinary, nullable=False),
    Column("content_hash", Text),
    UniqueConstraint("commit_index"),
    Index(None, "owner", "content_hash", "kind", "idx"),
    Index(None, "owner", "kind"),
    Index(None, "run_id"),
)
Table(
    "log_nodes",
    _schema,
    Column("level", Integer, primary_key=True),
    Column("idx", BigInteger, primary_key=True),
    Column("hash", LargeBinary, nullable=False),
)
Table(
    "plans",
    _schema,
    Column("plan_id", Text, primary_key=True),
    Column("content_hash", Text, nullable=False),
    Column("idx", BigInteger, nullable=False),
    Column("opened", Boolean, nullable=False),
    Column("trials_before", BigInteger, nullable=False),
    Column("payload", Text, nullable=False),
    Column("created_ts_ms", BigInteger, nullable=False),
)
Table(
    "runs",
    _schema,
    Column("run_id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("origin_id", Text),
    Column("status", Text, nullable=False),
    Column("source_mode", Text, nullable=False),
    Column("mode_label", Text, nullable=False),
    Column("lineage", Text, nullable=False),
    Column("cause", Text),
    Column("created_ts_ms", BigInteger, nullable=False),
    Column("sealed_ts_ms", BigInteger),
    Column("evidence_hash", Text),
    Column("manifest_hash", Text),
    Column("manifest", LargeBinary),
    Column("checks", Text),
    Column("metrics", Text),
    Column("commit_index", BigInteger),
    Column("owner", Text),
    Column("pack_id", Text),
    Column("content_hash", Text),
    Column("checked_ts_ms", BigInteger),
    Column("ranked", Boolean, nullable=False, server_default=true()),
    Column("stored_bytes", BigInteger),
    Index(None, "created_ts_ms", "run_id"),
    Index(None, "owner", "created_ts_ms"),
    Index(None, "pack_id", "created_ts_ms"),
)
Table(
    "standings",
    _schema,
    Column("owner", Text, primary_key=True),
    Column("agent_id", Text, primary_key=True),
    Column("position", BigInteger, nullable=False),
    Column("decision_count", BigInteger, nullable=False),
    Column("action_count", BigInteger, nullable=False),
    Column("valid_count", BigInteger, nullable=False),
    Column("invalid_count", BigInteger, nullable=False),
    Column("total_clv_bps", BigInteger, nullable=False),
    Column("sim_pnl", BigInteger, nullable=False),
    Column("forecasts", BigInteger, nullable=False),
    Column("squared_error", BigInteger, nullable=False),
    Column("max_drawdown", BigInteger, nullable=False),
    Column("runs", BigInteger, nullable=False),
    Column("counted_runs", BigInteger, nullable=False),
    Column("verified_runs", BigInteger, nullable=False),
    Column("live_runs", BigInteger, nullable=False),
    Column("failing_runs", BigInteger, nullable=False),
    Column("anchored_runs", BigInteger, nullable=False),
    Column("pending_runs", BigInteger, nullable=False),
)
Table(
    "trials",
    _schema,
    Column("trial_id", Text, primary_key=True),
    Column("content_hash", Text, nullable=False),
    Column("created_ts_ms", BigInteger, nullable=False),
    Index(None, "content_hash"),
)
Table(
    "turns",
    _schema,
    Column("owner", Text, primary_key=True),
    Column("turn", BigInteger, nullable=False),
)
Table(
    "uploads",
    _schema,
    Column("owner", Text, primary_key=True),
    Column("pack_id", Text, primary_key=True),
    Column("content_hash", Text, nullable=False),
    Column("provenance", Text, nullable=False),
    Column("is_genuine", Boolean, nullable=False),
    Column("fixtures", Text, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("entry", Text, nullable=False),
    Column("created_ts_ms", BigInteger, nullable=False),
    UniqueConstraint("owner", "content_hash"),
)
Table(
    "usage",
    _schema,
    Column("owner", Text, primary_key=True),
    Column("bytes", BigInteger, nullable=False),
)
Table(
    "agent_errors",
    _schema,
    Column("run_id", Text, ForeignKey("runs.run_id"), primary_key=True),
    Column("agent_id", Text, primary_key=True),
    Column("error", Text, nullable=False),
    Column("message", Text, nullable=False),
)
Table(
    "agent_results",
    _schema,
    Column("run_id", Text, ForeignKey("runs.run_id"), primary_key=True),
    Column("agent_id", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("decision_count", BigInteger, nullable=False),
    Column("action_count", BigInteger, nullable=False),
    Column("valid_count", BigInteger, nullable=False),
    Column("invalid_count", BigInteger, nullable=False),
    Column("total_clv_bps", BigInteger, nullable=False),
    Column("sim_pnl", BigInteger, nullable=False),
    Column("forecasts", BigInteger, nullable=False),
    Column("squared_error", BigInteger, nullable=False),
    Column("max_drawdown", BigInteger, nullable=False),
    Column("fixtures", BigInteger, nullable=False),
    Column("proof_mode", Text, nullable=False),
    Column("source_mode", Text, nullable=False),
    Column("failing", Boolean, nullable=False),
)
Table(
    "anchors",
    _schema,
    Column("run_id", Text, ForeignKey("runs.run_id"), primary_key=True),
    Column("status", Text, nullable=False),
    Column("cluster", Text, nullable=False),
    Column("signature", Text),
    Column("explorer_url", Text),
    Column("updated_ts_ms", BigInteger, nullable=False),
    Column("record", Text),
)
Table(
    "competition_events",
    _schema,
    Column("competition_id", Text, ForeignKey("competitions.competition_id"), primary_key=True),
    Column("first_seq", BigInteger, primary_key=True),
    Column("count", BigInteger, nullable=False),
    Column("kind", Text),
    Column("run_id", Text, nullable=False),
    Column("ts", BigInteger, nullable=False),
    Column("events", Text, nullable=False),
    Index(None, "competition_id", "kind", "first_seq"),
)
Table(
    "idempotency",
    _schema,
    Column("owner", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("fingerprint", Text, nullable=False),
    Column("instance_id", Text, ForeignKey("instances.instance_id"), nullable=False),
    Column("created_ts_ms", BigInteger, nullable=False),
)
Table(
    "receipts",
    _schema,
    Column("run_id", Text, ForeignKey("runs.run_id"), primary_key=True),
    Column("first_line", BigInteger, primary_key=True),
    Column("lines", LargeBinary, nullable=False),
    Column("size", BigInteger),
)
Table(
    "reports",
    _schema,
    Column("backtest_id", Text, primary_key=True),
    Column("run_id", Text, ForeignKey("runs.run_id"), nullable=False),
    Column("pack_id", Text, nullable=False),
    Column("fixture_id", BigInteger),
    Column("created_ts_ms", BigInteger, nullable=False),
    Column("report", Text, nullable=False),
    Index(None, "created_ts_ms", "backtest_id"),
    Index(None, "run_id"),
)
Table(
    "roster",
    _schema,
    Column("competition_id", Text, ForeignKey("competitions.competition_id"), primary_key=True),
    Column("agent_id", Text, primary_key=True),
    Column("position", Integer, nullable=False),
    Column("roster_size", Integer, nullable=False),
    Column("strategy", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("config_hash", Text, nullable=False),
    Column("proof_mode", Text, nullable=False),
    Column("instance_id", Text),
    UniqueConstraint("competition_id", "position"),
    CheckConstraint("position < roster_size", name="within_size"),
)
Table(
    "run_chunks",
    _schema,
    Column("run_id", Text, ForeignKey("runs.run_id"), primary_key=True),
    Column("part", Text, primary_key=True),
    Column("first_line", BigInteger, primary_key=True),
    Column("lines", LargeBinary, nullable=False),
    Column("size", BigInteger),
)
Table(
    "runtime_events",
    _schema,
    Column("instance_id", Text, ForeignKey("instances.instance_id"), primary_key=True),
    Column("id", BigInteger, primary_key=True),
    Column("type", Text, nullable=False),
    Column("agent_id", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("ts", BigInteger, nullable=False),
    Column("payload", Text, nullable=False),
)


def upgrade() -> None:
    """Create the tables, and make the database itself refuse to change or drop an entry of the log."""
    _schema.create_all(op.get_bind(), checkfirst=False)
    for statement in _append_only(op.get_bind().dialect.name):
        op.execute(statement)


def _append_only(dialect: str) -> list[str]:
    """Return statements that make the database itself refuse to change or drop an entry."""
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
    """Refuse, because without the tables the log of all runs would be lost."""
    raise StoreError("there is no older schema to go back to")
