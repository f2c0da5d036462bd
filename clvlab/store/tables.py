"""The tables. A change here goes with a migration in ``migrations/versions``; a test compares the two.

Times are UTC milliseconds. JSON is text, written by ``Json``: databases store it and never look inside.
"""

from __future__ import annotations

from typing import Any

import orjson
from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Dialect,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    true,
)


class Name(TypeDecorator[str]):
    """A text that callers choose or ask for: what a database can't hold (NUL, lone surrogates) is found nowhere."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else value.encode(errors="replace").decode().replace("\x00", "\ufffd")


class Json(TypeDecorator[Any]):
    """A JSON value as text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else orjson.dumps(value).decode()

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002
        return None if value is None else orjson.loads(value)


# A row id: SQLite counts up by itself only in a column that is exactly INTEGER.
_RowId = BigInteger().with_variant(Integer, "sqlite")

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

competitions = Table(
    "competitions",
    metadata,
    Column("competition_id", Name, primary_key=True),
    Column("owner", Name, nullable=False),
    Column("status", Name, nullable=False),
    Column("config", Json, nullable=False),
    Column("roster_size", Integer, nullable=False),
    Column("pack_id", Name),
    Column("fixture_id", BigInteger),
    Column("content_hash", Name),
    Column("run_id", Name),  # of the sealed run; null until then
    Column("cause", Name),  # why the last start failed
    Column("claimed_from", Name),  # the status to go back to if the start fails
    Column("started_seq", BigInteger),  # seq of the newest COMPETITION_STARTED
    Column("next_seq", BigInteger, nullable=False),
    Column("created_ts_ms", BigInteger, nullable=False),
    Index(None, "status"),
)

roster = Table(
    "roster",
    metadata,
    Column("competition_id", Name, ForeignKey("competitions.competition_id"), primary_key=True),
    Column("agent_id", Name, primary_key=True),
    Column("position", Integer, nullable=False),
    Column("roster_size", Integer, nullable=False),
    Column("strategy", Name, nullable=False),
    Column("config", Json, nullable=False),
    Column("config_hash", Name, nullable=False),
    Column("proof_mode", Name, nullable=False),
    Column("instance_id", Name),
    UniqueConstraint("competition_id", "position"),
    CheckConstraint("position < roster_size", name="within_size"),
)

# The log of a competition: a row is one event, or a pack of consecutive events of one run.
competition_events = Table(
    "competition_events",
    metadata,
    Column("competition_id", Name, ForeignKey("competitions.competition_id"), primary_key=True),
    Column("first_seq", BigInteger, primary_key=True),
    Column("count", BigInteger, nullable=False),
    Column("kind", Name),  # null for a pack
    Column("run_id", Name, nullable=False),
    Column("ts", BigInteger, nullable=False),
    Column("events", Json, nullable=False),  # [[kind, evidence, payload], ...]
    Index(None, "competition_id", "kind", "first_seq"),
)

instances = Table(
    "instances",
    metadata,
    Column("instance_id", Name, primary_key=True),
    Column("owner", Name),  # null: nobody's, and so invisible
    Column("template", Name, nullable=False),
    Column("run_id", Name, nullable=False),
    Column("record", Json, nullable=False),
    Column("next_event_id", BigInteger, nullable=False),
    Column("created_ts_ms", BigInteger, nullable=False),
)

runtime_events = Table(
    "runtime_events",
    metadata,
    Column("instance_id", Name, ForeignKey("instances.instance_id"), primary_key=True),
    Column("id", BigInteger, primary_key=True),
    Column("type", Name, nullable=False),
    Column("agent_id", Name, nullable=False),
    Column("run_id", Name, nullable=False),
    Column("session_id", Name, nullable=False),
    Column("ts", BigInteger, nullable=False),
    Column("payload", Json, nullable=False),
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("owner", Name, primary_key=True),
    Column("key", Name, primary_key=True),
    Column("fingerprint", Name, nullable=False),
    Column("instance_id", Name, ForeignKey("instances.instance_id"), nullable=False),
    Column("created_ts_ms", BigInteger, nullable=False),
)

jobs = Table(
    "jobs",
    metadata,
    Column("job_id", _RowId, primary_key=True),
    Column("kind", Name, nullable=False),
    Column("run_id", Name, nullable=False),
    Column("payload", Json, nullable=False),
    Column("status", Name, nullable=False),
    Column("attempt", Integer, nullable=False),  # the fencing token: rises with every claim
    Column("postponed", Integer, nullable=False, server_default="0"),  # attempts that ended with a reason to try later
    Column("leased_ts_ms", BigInteger),
    Column("lease_until_ts_ms", BigInteger),
    Column("cause", Name),
    Column("created_ts_ms", BigInteger, nullable=False),
    Index(None, "status", "job_id"),
    Index(None, "run_id"),
)

runs = Table(
    "runs",
    metadata,
    Column("run_id", Name, primary_key=True),
    Column("kind", Name, nullable=False),
    Column("origin_id", Name),
    Column("status", Name, nullable=False),
    Column("source_mode", Name, nullable=False),
    Column("mode_label", Name, nullable=False),
    Column("lineage", Json, nullable=False),
    Column("cause", Name),
    Column("created_ts_ms", BigInteger, nullable=False),
    Column("sealed_ts_ms", BigInteger),
    Column("evidence_hash", Name),
    Column("manifest_hash", Name),
    Column("manifest", LargeBinary),
    Column("checks", Json),  # verdict and detail of each check, as recomputed when the run was sealed
    Column("metrics", Json),
    Column("commit_index", BigInteger),  # the log's entry that committed to the run; null before there was a log
    Column("ranked", Boolean, nullable=False, server_default=true()),  # false over an upload that the catalog does not have
    Index(None, "created_ts_ms", "run_id"),
)

# Lines of a sealed run, cut at lines: one decision of a million reads one chunk of each part.
run_chunks = Table(
    "run_chunks",
    metadata,
    Column("run_id", Name, ForeignKey("runs.run_id"), primary_key=True),
    Column("part", Name, primary_key=True),
    Column("first_line", BigInteger, primary_key=True),
    Column("lines", LargeBinary, nullable=False),
)

# What venues said of a run: apart from the evidence, and never read for a score.
receipts = Table(
    "receipts",
    metadata,
    Column("run_id", Name, ForeignKey("runs.run_id"), primary_key=True),
    Column("first_line", BigInteger, primary_key=True),
    Column("lines", LargeBinary, nullable=False),
)

anchors = Table(
    "anchors",
    metadata,
    Column("run_id", Name, ForeignKey("runs.run_id"), primary_key=True),
    Column("status", Name, nullable=False),
    Column("cluster", Name, nullable=False),
    Column("signature", Name),
    Column("explorer_url", Name),
    Column("updated_ts_ms", BigInteger, nullable=False),
    Column("record", Json),  # all that was signed, written down before it was sent
)

# The run log: entries in order, and the roots of complete subtrees of the Merkle tree over them.
log_entries = Table(
    "log_entries",
    metadata,
    Column("idx", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", Name, nullable=False),
    Column("run_id", Name, nullable=False),
    Column("owner", Name, nullable=False),
    Column("commit_index", BigInteger, unique=True),  # of outcomes: a commitment has at most one
    Column("entry", LargeBinary, nullable=False),
    Column("content_hash", Name),  # of the pack that the commitment names; null of older ones, which name none
    Index(None, "run_id"),
    Index(None, "owner", "kind"),
    Index(None, "owner", "content_hash", "kind", "idx"),
)

log_nodes = Table(
    "log_nodes",
    metadata,
    Column("level", Integer, primary_key=True, autoincrement=False),
    Column("idx", BigInteger, primary_key=True, autoincrement=False),
    Column("hash", LargeBinary, nullable=False),
)

# The summed columns of an agent: the same in one run and over all runs.
SUMS = ("action_count", "valid_count", "invalid_count", "total_clv_bps", "sim_pnl", "forecasts", "squared_error")

# Over how many runs of an agent something holds.
RUN_COUNTS = ("runs", "verified_runs", "live_runs", "failing_runs", "anchored_runs", "pending_runs")

agent_results = Table(
    "agent_results",
    metadata,
    Column("run_id", Name, ForeignKey("runs.run_id"), primary_key=True),
    Column("agent_id", Name, primary_key=True),
    *(Column(name, BigInteger, nullable=False) for name in SUMS),
    Column("max_drawdown", BigInteger, nullable=False),
    Column("proof_mode", Name, nullable=False),
    Column("source_mode", Name, nullable=False),
    Column("failing", Boolean, nullable=False),  # a blocking check of the run failed
)

standings = Table(
    "standings",
    metadata,
    Column("agent_id", Name, primary_key=True),
    *(Column(name, BigInteger, nullable=False) for name in SUMS),
    Column("max_drawdown", BigInteger, nullable=False),
    *(Column(name, BigInteger, nullable=False) for name in RUN_COUNTS),
)

reports = Table(
    "reports",
    metadata,
    Column("backtest_id", Name, primary_key=True),
    Column("run_id", Name, nullable=False),
    Column("pack_id", Name, nullable=False),
    Column("fixture_id", BigInteger, nullable=False),
    Column("created_ts_ms", BigInteger, nullable=False),
    Column("report", Json, nullable=False),
    ForeignKeyConstraint(["run_id"], ["runs.run_id"]),
    Index(None, "created_ts_ms", "backtest_id"),
)

# Every configuration that was tried over a pack, sealed or not.
trials = Table(
    "trials",
    metadata,
    Column("trial_id", Name, primary_key=True),
    Column("content_hash", Name, nullable=False),
    Column("created_ts_ms", BigInteger, nullable=False),
    Index(None, "content_hash"),
)

# Packs that owners uploaded: the same content once per owner. ``entry`` is by what the files are known again.
uploads = Table(
    "uploads",
    metadata,
    Column("owner", Name, primary_key=True),
    Column("pack_id", Name, primary_key=True),
    Column("content_hash", Name, nullable=False),
    Column("provenance", Name, nullable=False),
    Column("is_genuine", Boolean, nullable=False),
    Column("fixtures", Json, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("entry", Json, nullable=False),
    Column("created_ts_ms", BigInteger, nullable=False),
    UniqueConstraint("owner", "content_hash"),
)
