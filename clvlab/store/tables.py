"""The tables. A change here needs a migration in ``migrations/versions``; a test compares the two.

Times are UTC milliseconds.
"""

from __future__ import annotations

from typing import Any, TypedDict

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
    text,
    true,
)

# Types of columns, and the catalog of the tables. JSON is text, written by ``Json``; databases never parse it.


class Name(TypeDecorator[str]):
    """A text from callers; values that a database can't hold (NUL, lone surrogates) match no row."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else value.encode(errors="replace").decode().replace("\x00", "\ufffd")


class UnreadableValueError(ValueError):
    """A stored value is not what clvlab writes, because the database is damaged."""


class Json(TypeDecorator[Any]):
    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else orjson.dumps(value).decode()

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002
        try:
            return None if value is None else orjson.loads(value)
        except orjson.JSONDecodeError as error:
            raise UnreadableValueError(f"a value in it is no JSON: {error}") from error


# A row id: SQLite increments only a column that is exactly INTEGER.
RowId = BigInteger().with_variant(Integer, "sqlite")

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
    Column("fixture_ids", Json),  # all of them, sorted; null if at most one was asked for
    Column("content_hash", Name),
    Column("run_id", Name),  # of the sealed run; null until then
    Column("cause", Name),  # cause of the last failed start
    Column("claimed_from", Name),  # the status to return to if the start fails
    Column("started_seq", BigInteger),  # seq of the newest COMPETITION_STARTED
    Column("next_seq", BigInteger, nullable=False),
    Column("created_ts_ms", BigInteger, nullable=False),
    Column("updated_ts_ms", BigInteger, nullable=False),  # last change of status, roster or log
    Index(None, "created_ts_ms", "competition_id"),
    Index(None, "status", "created_ts_ms", "competition_id"),
    Index(None, "owner", "created_ts_ms", "competition_id"),
    Index(None, "pack_id", "created_ts_ms", "competition_id"),
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
    Column("owner", Name),  # null: without an owner, so invisible
    Column("template", Name, nullable=False),
    Column("run_id", Name, nullable=False),
    Column("record", Json, nullable=False),
    Column("next_event_id", BigInteger, nullable=False),
    Column("created_ts_ms", BigInteger, nullable=False),
    Index(None, "owner", "created_ts_ms"),
    Index(None, "owner", "template", "created_ts_ms"),
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
    Column("job_id", RowId, primary_key=True),
    Column("kind", Name, nullable=False),
    Column("run_id", Name, nullable=False),
    Column("payload", Json, nullable=False),
    Column("status", Name, nullable=False),
    Column("attempt", Integer, nullable=False),  # the fencing token: rises with every claim
    Column("postponed", Integer, nullable=False, server_default="0"),  # attempts that ended with a reason to try later
    Column("leased_ts_ms", BigInteger),
    Column("lease_until_ts_ms", BigInteger),
    Column("cause", Name),
    Column("progress", Json),  # progress of the newest attempt; written seldom
    Column("created_ts_ms", BigInteger, nullable=False),
    Index(None, "status", "job_id"),
    Index(None, "run_id"),
)

# Turns of owners in claiming jobs; the owner whose turn is longest ago is next.
turns = Table("turns", metadata, Column("owner", Name, primary_key=True), Column("turn", BigInteger, nullable=False))

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
    Column("owner", Name),  # owner of the commitment; null for runs older than the log
    Column("pack_id", Name),  # null for runs older than the column
    Column("content_hash", Name),
    Column("cause", Name),
    Column("created_ts_ms", BigInteger, nullable=False),
    Column("updated_ts_ms", BigInteger, nullable=False),  # last change of status, anchor or a verdict
    Column("sealed_ts_ms", BigInteger),
    Column("evidence_hash", Name),
    Column("manifest_hash", Name),
    Column("manifest", LargeBinary),
    Column("checks", Json),  # verdict and detail of each check, as recomputed at the seal or by the newest verification
    Column("checked_ts_ms", BigInteger),
    Column("metrics", Json),
    Column("commit_index", BigInteger),  # log entry that committed to the run; null for runs older than the log
    Column("ranked", Boolean, nullable=False, server_default=true()),  # false over an upload that the catalog lacks
    Column("stored_bytes", BigInteger),  # size of lines, events and report; null until the seal
    Index(None, "created_ts_ms", "run_id"),
    Index(None, "kind", "created_ts_ms"),
    Index(None, "status", "created_ts_ms"),
    Index(None, "owner", "created_ts_ms"),
    Index(None, "pack_id", "created_ts_ms"),
)

# Chunks of whole lines of a sealed run: reading one of a million decisions reads one chunk of each part.
run_chunks = Table(
    "run_chunks",
    metadata,
    Column("run_id", Name, ForeignKey("runs.run_id"), primary_key=True),
    Column("part", Name, primary_key=True),
    Column("first_line", BigInteger, primary_key=True),
    Column("lines", LargeBinary, nullable=False),  # deflated, as ``clvlab.store.runs`` says
    Column("size", BigInteger),  # size of the plain lines; null for older rows, which are not deflated
)

# Receipts of venues, which are not evidence and never read for a score.
receipts = Table(
    "receipts",
    metadata,
    Column("run_id", Name, ForeignKey("runs.run_id"), primary_key=True),
    Column("first_line", BigInteger, primary_key=True),
    Column("lines", LargeBinary, nullable=False),  # deflated, as ``clvlab.store.runs`` says
    Column("size", BigInteger),  # size of the plain lines; null for older rows, which are not deflated
)

# Errors of failed agents in a sealed run, which are not evidence; only the run's owner may read them.
agent_errors = Table(
    "agent_errors",
    metadata,
    Column("run_id", Name, ForeignKey("runs.run_id"), primary_key=True),
    Column("agent_id", Name, primary_key=True),
    Column("error", Name, nullable=False),
    Column("message", Name, nullable=False),
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
    Column("record", Json),  # all signed transactions, written before they were sent
)

# The run log: entries in order, and the roots of complete subtrees of the Merkle tree over them.
log_entries = Table(
    "log_entries",
    metadata,
    Column("idx", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", Name, nullable=False),
    Column("run_id", Name, nullable=False),
    Column("owner", Name, nullable=False),
    Column("commit_index", BigInteger, unique=True),  # for outcomes; a commitment has at most one
    Column("entry", LargeBinary, nullable=False),
    Column("content_hash", Name),  # pack that the commitment names; null for older commitments
    Index(None, "run_id"),
    Index(None, "owner", "kind"),
    Index(None, "owner", "content_hash", "kind", "idx"),
)

# Number of earlier entries of the same owner, pack and kind; not in ``log_entries``, whose rows never change.
log_counts = Table(
    "log_counts",
    metadata,
    Column("idx", BigInteger, primary_key=True, autoincrement=False),
    Column("earlier", BigInteger, nullable=False),
)

log_nodes = Table(
    "log_nodes",
    metadata,
    Column("level", Integer, primary_key=True, autoincrement=False),
    Column("idx", BigInteger, primary_key=True, autoincrement=False),
    Column("hash", LargeBinary, nullable=False),
)


class Sums(TypedDict):
    """The summed columns of an agent, and the worst of its runs: the same in one run and over all runs."""

    decision_count: int
    action_count: int
    valid_count: int
    invalid_count: int
    total_clv_bps: int
    sim_pnl: int
    forecasts: int
    squared_error: int
    max_drawdown: int


class CountedRuns(TypedDict):
    """Numbers of an agent's runs with a property; all but the first count only runs that added a fixture."""

    runs: int
    counted_runs: int
    verified_runs: int
    live_runs: int
    failing_runs: int
    anchored_runs: int
    pending_runs: int


SUMS = tuple(name for name in Sums.__annotations__ if name != "max_drawdown")
RUN_COUNTS = tuple(CountedRuns.__annotations__)


def _facts() -> list[Column[Any]]:
    return [
        Column("strategy", Name, nullable=False),
        Column("causality", Name, nullable=False),  # the displayed label
        Column("config_hash", Name),  # null for a row whose runs have several
        Column("knowledge", Name, nullable=False),
        Column("commit_index", BigInteger),  # the log's entry that committed to the agent before its prices were known
        Column("sketch", LargeBinary),  # sketch of its decisions; null for older runs, which are never grouped
    ]


# The contribution of a run to an owner's agent: sums over the fixtures that it was the first to add.
agent_results = Table(
    "agent_results",
    metadata,
    Column("run_id", Name, ForeignKey("runs.run_id"), primary_key=True),
    Column("agent_id", Name, primary_key=True),
    Column("owner", Name, nullable=False),
    Column("created_ts_ms", BigInteger, nullable=False),  # of the run, for lists of an agent's runs
    *(Column(name, BigInteger, nullable=False) for name in Sums.__annotations__),
    Column("fixtures", BigInteger, nullable=False),  # number of fixtures that the run added first
    Column("proof_mode", Name, nullable=False),
    Column("source_mode", Name, nullable=False),
    Column("failing", Boolean, nullable=False),  # a blocking check of the run failed
    *_facts(),
    Index(None, "owner", "config_hash"),
    Index(None, "agent_id", "created_ts_ms", "run_id"),
)

# Fixtures that a row of the leaderboard already counts; a repetition does not add them again.
counted_fixtures = Table(
    "counted_fixtures",
    metadata,
    Column("owner", Name, primary_key=True),
    Column("agent_id", Name, primary_key=True),
    Column("content_hash", Name, primary_key=True),
    Column("fixture_id", BigInteger, primary_key=True, autoincrement=False),
    Column("run_id", Name, nullable=False),  # first run that added it
    Index(None, "run_id"),
)

_LEADING = text("first_alike = agent_id")

standings = Table(
    "standings",
    metadata,
    Column("owner", Name, primary_key=True),
    Column("agent_id", Name, primary_key=True),
    Column("position", BigInteger, nullable=False),  # order of creation
    *(Column(name, BigInteger, nullable=False) for name in Sums.__annotations__),
    *(Column(name, BigInteger, nullable=False) for name in RUN_COUNTS),
    *_facts(),
    Column("hindsight_possible", Boolean, nullable=False),
    Column("label", Name, nullable=False),  # unique, and empty until the rows of an older database are pooled again
    Column("rank_key", LargeBinary, nullable=False),  # sorts in rank order
    Column("first_alike", Name, nullable=False),  # agent id of the owner's first row with the same decisions
    Index(None, "label"),
    Index(None, "rank_key"),
    Index(None, "hindsight_possible", "rank_key"),
    Index(None, "causality", "rank_key"),
    Index(None, "knowledge", "rank_key"),
    Index(None, "owner", "first_alike"),
    Index(None, "owner", "rank_key"),
    Index(None, "owner", "hindsight_possible", "rank_key"),
    # Rows that a grouped list shows: it never reads the others.
    *(
        Index(f"ix_standings_leading_{name}", *order, sqlite_where=_LEADING, postgresql_where=_LEADING)
        for name, order in (("rank_key", ("rank_key",)), ("hindsight_possible", ("hindsight_possible", "rank_key")))
    ),
)

# Seats: agents elsewhere that answer a past tape tick by tick. ``ticks`` of them are answered, and ``head`` is after these.
seats = Table(
    "seats",
    metadata,
    Column("seat_id", Name, primary_key=True),
    Column("owner", Name, nullable=False),
    Column("agent_id", Name, nullable=False),
    Column("run_id", Name, nullable=False, unique=True),
    Column("pack_id", Name, nullable=False),
    Column("content_hash", Name, nullable=False),  # of a live seat empty until its pack is captured
    Column("fixture_ids", Json, nullable=False),
    Column("ranked", Boolean, nullable=False),
    Column("request", Json, nullable=False),
    Column("secret", LargeBinary, nullable=False),  # opened at the seal
    Column("commit_index", BigInteger, nullable=False),
    Column("status", Name, nullable=False),
    Column("cause", Name),  # why it was abandoned
    Column("ticks", BigInteger, nullable=False),
    Column("head", Name, nullable=False),
    Column("served_ts_ms", BigInteger, nullable=False),  # when the open tick left
    Column("tick_s", BigInteger, nullable=False),
    Column("seat_s", BigInteger, nullable=False),
    Column("logged_ticks", BigInteger, nullable=False),  # of the newest head in the run log
    Column("logged_ts_ms", BigInteger, nullable=False),
    Column("decision_bytes", BigInteger, nullable=False),  # of all decisions as recorded
    Column("created_ts_ms", BigInteger, nullable=False),
    Column("updated_ts_ms", BigInteger, nullable=False),
    Column("competition_id", Name),  # null for a seat on its own
    Column("tape_ticks", BigInteger),  # messages of its fixtures; null for seats of older versions
    Column("scores", Json),  # of its fixtures, at the seal; null without one, and outside of competitions
    Index(None, "owner", "created_ts_ms", "seat_id"),
    Index(None, "status", "served_ts_ms"),
    Index(None, "competition_id", "status"),
)

seat_competitions = Table(
    "seat_competitions",
    metadata,
    Column("competition_id", Name, primary_key=True),
    Column("owner", Name, nullable=False),
    Column("name", Name, nullable=False),
    Column("pack_id", Name, nullable=False),
    Column("content_hash", Name, nullable=False),
    Column("rules", Json, nullable=False),
    Column("closes_ts_ms", BigInteger),  # null until the organiser closes it
    Column("created_ts_ms", BigInteger, nullable=False),
    Column("updated_ts_ms", BigInteger, nullable=False),
    Index(None, "created_ts_ms", "competition_id"),
    Index(None, "owner"),
)

# The answered ticks of a seat: a row is one link of its chain.
seat_decisions = Table(
    "seat_decisions",
    metadata,
    Column("seat_id", Name, ForeignKey("seats.seat_id"), primary_key=True),
    Column("tick", BigInteger, primary_key=True, autoincrement=False),
    Column("digest", Name, nullable=False),
    Column("decisions", Json, nullable=False),
    Column("missed", Boolean, nullable=False),
    Column("head", Name, nullable=False),
    Column("ts_ms", BigInteger, nullable=False),
)

# What a live seat was shown so far: a row for each message.
live_ticks = Table(
    "live_ticks",
    metadata,
    Column("seat_id", Name, ForeignKey("seats.seat_id"), primary_key=True),
    Column("tick", BigInteger, primary_key=True, autoincrement=False),
    Column("view", Json, nullable=False),
)

# Packs that are held back for seats, which no catalog lists, and to which seat each of their fixtures was dealt.
held_packs = Table(
    "held_packs",
    metadata,
    Column("content_hash", Name, primary_key=True),
    Column("pack_id", Name, nullable=False, unique=True),
    Column("folder", Name, nullable=False),
    Column("entry", Json, nullable=False),  # the hashes of its files
    Column("fixtures", BigInteger, nullable=False),
    Column("fixture_list", LargeBinary, nullable=False),  # salted; its hash is in the run log
    Column("idx", BigInteger, nullable=False),  # of the log entry that holds it back
    Column("released_idx", BigInteger),  # of the log entry that opens its list; null until then
    Column("created_ts_ms", BigInteger, nullable=False),
)

dealt_fixtures = Table(
    "dealt_fixtures",
    metadata,
    Column("content_hash", Name, ForeignKey("held_packs.content_hash"), primary_key=True),
    Column("fixture_id", BigInteger, primary_key=True, autoincrement=False),
    Column("seat_id", Name, ForeignKey("seats.seat_id"), nullable=False, unique=True),
    Column("owner", Name, nullable=False),
)

# A token that changes with any row.
revisions = Table("revisions", metadata, Column("name", Name, primary_key=True), Column("revision", Name, nullable=False))

reports = Table(
    "reports",
    metadata,
    Column("backtest_id", Name, primary_key=True),
    Column("run_id", Name, nullable=False),
    Column("pack_id", Name, nullable=False),
    Column("fixture_id", BigInteger),  # null for a report on several fixtures
    Column("created_ts_ms", BigInteger, nullable=False),
    Column("report", Json, nullable=False),
    ForeignKeyConstraint(["run_id"], ["runs.run_id"]),
    Index(None, "created_ts_ms", "backtest_id"),
    Index(None, "run_id"),
)

# Bytes of the runs of each owner, and of runs without a token.
usage = Table("usage", metadata, Column("owner", Name, primary_key=True), Column("bytes", BigInteger, nullable=False))

# Requests for a backtest by key; the key may cancel its request.
backtest_requests = Table(
    "backtest_requests",
    metadata,
    Column("key", Name, primary_key=True),
    Column("run_id", Name, nullable=False),
    Column("given", Boolean, nullable=False),  # the caller chose the key, which is then kept after the run
    Column("active", Boolean, nullable=False),  # its holder waits for the run
    Column("owner", Name),  # DID of a token; null without one
    Column("created_ts_ms", BigInteger, nullable=False),
    Index(None, "run_id"),
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

# Planned searches, and the fixtures that each holds out until ``opened``.
plans = Table(
    "plans",
    metadata,
    Column("plan_id", Name, primary_key=True),
    Column("content_hash", Name, nullable=False),
    Column("idx", BigInteger, nullable=False),  # index of its log entry
    Column("opened", Boolean, nullable=False),
    Column("trials_before", BigInteger, nullable=False),  # trials over its pack
    Column("payload", Json, nullable=False),
    Column("created_ts_ms", BigInteger, nullable=False),
)

held_out = Table(
    "held_out",
    metadata,
    Column("plan_id", Name, primary_key=True),
    Column("digest", Name, primary_key=True),
    Index(None, "digest"),
)

# Matches of a pack by its content hash, and of a plan's hold-out by its id; deflated JSON with its digest.
matches = Table(
    "matches",
    metadata,
    Column("name", Name, primary_key=True),
    Column("listing", LargeBinary, nullable=False),
    Column("digest", Name, nullable=False),
)

# Uploaded packs: the same content once per owner. ``entry`` has the hashes of the files.
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
