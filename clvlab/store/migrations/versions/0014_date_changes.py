"""Store when runs and competitions last changed, and counts of log entries; index the lists that are read in pages.

Revision ID: 0014
Revises: 0013
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_OLDER = ("ix_competitions_status", "competitions", "status")
_INDEXES = (
    ("competitions", ("status", "created_ts_ms", "competition_id")),
    ("competitions", ("owner", "created_ts_ms", "competition_id")),
    ("competitions", ("pack_id", "created_ts_ms", "competition_id")),
    ("instances", ("owner", "template", "created_ts_ms")),
    ("runs", ("kind", "created_ts_ms")),
    ("runs", ("status", "created_ts_ms")),
    ("agent_results", ("agent_id", "created_ts_ms", "run_id")),
    ("standings", ("owner", "rank_key")),
    ("standings", ("owner", "hindsight_possible", "rank_key")),
)
_LEADING = (
    ("ix_standings_leading_rank_key", ("rank_key",)),
    ("ix_standings_leading_hindsight_possible", ("hindsight_possible", "rank_key")),
)
_DATED = {
    ("agent_results", "created_ts_ms"): "(SELECT created_ts_ms FROM runs WHERE runs.run_id = agent_results.run_id)",
    ("runs", "updated_ts_ms"): "coalesce((SELECT updated_ts_ms FROM anchors WHERE anchors.run_id = runs.run_id), sealed_ts_ms, "
    "created_ts_ms)",
    ("competitions", "updated_ts_ms"): "coalesce((SELECT max(ts) FROM competition_events AS log "
    "WHERE log.competition_id = competitions.competition_id), created_ts_ms)",
}


def upgrade() -> None:
    """Date existing rows by their last known event, and count the entries of the log, which stay as they are."""
    for (table, column), dated in _DATED.items():
        op.add_column(table, sa.Column(column, sa.BigInteger(), nullable=False, server_default="0"))
        op.execute(sa.text(f"UPDATE {table} SET {column} = {dated}"))  # noqa: S608  # constants
    op.create_table(
        "log_counts",
        sa.Column("idx", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("earlier", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("idx", name=op.f("pk_log_counts")),
    )
    numbered = "row_number() OVER (PARTITION BY owner, content_hash, kind ORDER BY idx)"
    op.execute(sa.text(f"INSERT INTO log_counts (idx, earlier) SELECT idx, {numbered} - 1 FROM log_entries"))  # noqa: S608
    op.drop_index(op.f(_OLDER[0]), _OLDER[1])
    for table, columns in _INDEXES:
        op.create_index(op.f(f"ix_{table}_{'_'.join(columns)}"), table, list(columns))
    leading = sa.text("first_alike = agent_id")
    for name, order in _LEADING:
        op.create_index(name, "standings", list(order), sqlite_where=leading, postgresql_where=leading)


def downgrade() -> None:
    """Drop the times of changes, the counts and the indexes; older versions count the log's entries at every reading."""
    for name, _ in _LEADING:
        op.drop_index(name, "standings")
    for table, columns in _INDEXES:
        op.drop_index(op.f(f"ix_{table}_{'_'.join(columns)}"), table)
    name, table, column = _OLDER
    op.create_index(op.f(name), table, [column])
    op.drop_table("log_counts")
    for table, column in _DATED:
        op.drop_column(table, column)
