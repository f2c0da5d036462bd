"""Store how the agents of leaderboard rows decided and what they could know, and the rows' names, ranks and groups.

The records of stored runs show how their agents decided. Rows are pooled again when the database is opened. Until the
leaderboard is rebuilt, the knowledge of agents in runs that were not live is ``history``, and rows are not grouped.

Revision ID: 0011
Revises: 0010
"""

from __future__ import annotations

import orjson
import sqlalchemy as sa
from alembic import op

from clvlab.store.tables import Name

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_TRANSCRIBED = ("llm", "bets")
_FACTS = ("strategy", "causality", "config_hash", "knowledge", "commit_index", "sketch")
_OF_ROWS = ("hindsight_possible", "label", "rank_key", "first_alike")
_INDEXES = (
    ("agent_results", ("owner", "config_hash")),
    ("standings", ("label",)),
    ("standings", ("rank_key",)),
    ("standings", ("hindsight_possible", "rank_key")),
    ("standings", ("causality", "rank_key")),
    ("standings", ("knowledge", "rank_key")),
    ("standings", ("owner", "first_alike")),
)


def upgrade() -> None:
    """Add the columns and fill those of runs; the names of rows stay empty, because rows are pooled again."""
    for table in ("agent_results", "standings"):
        for name in ("strategy", "causality", "knowledge"):
            op.add_column(table, sa.Column(name, Name, nullable=False, server_default=""))
        op.add_column(table, sa.Column("config_hash", Name))
        op.add_column(table, sa.Column("commit_index", sa.BigInteger()))
        op.add_column(table, sa.Column("sketch", sa.LargeBinary()))
    op.add_column("standings", sa.Column("hindsight_possible", sa.Boolean(), nullable=False, server_default=sa.true()))
    for name in ("label", "first_alike"):
        op.add_column("standings", sa.Column(name, Name, nullable=False, server_default=""))
    op.add_column("standings", sa.Column("rank_key", sa.LargeBinary(), nullable=False, server_default=""))
    _tell()
    for table, columns in _INDEXES:
        op.create_index(op.f(f"ix_{table}_{'_'.join(columns)}"), table, list(columns))
    op.create_table(
        "revisions",
        sa.Column("name", Name, nullable=False),
        sa.Column("revision", Name, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_revisions")),
    )


def _tell() -> None:
    """Fill in how agents of stored runs decided, from the record of each run."""
    connection = op.get_bind()
    of_live = "CASE WHEN source_mode = 'live' THEN 'live' ELSE 'history' END"
    connection.execute(sa.text(f"UPDATE agent_results SET knowledge = {of_live}"))  # noqa: S608  # a constant
    change = sa.text(
        "UPDATE agent_results SET strategy = :strategy, causality = :causality, config_hash = :config_hash "
        "WHERE run_id = :run_id AND agent_id = :agent_id"
    )
    recorded = "SELECT run_id, lineage FROM runs WHERE run_id IN (SELECT run_id FROM agent_results)"
    for run_id, lineage in connection.execute(sa.text(recorded)).all():
        for agent in orjson.loads(lineage).get("agents", ()):
            strategy, causality = agent.get("strategy", ""), agent.get("causality", "unchecked")
            repeats = causality == "template" and strategy in _TRANSCRIBED
            values = {"strategy": strategy, "causality": "transcript" if repeats else causality}
            values |= {"run_id": run_id, "agent_id": agent["agent_id"], "config_hash": agent.get("config_hash")}
            connection.execute(change, values)


def downgrade() -> None:
    """Drop the columns of hindsight, names and likenesses; older versions make the names at every reading."""
    op.drop_table("revisions")
    for table, columns in _INDEXES:
        op.drop_index(op.f(f"ix_{table}_{'_'.join(columns)}"), table)
    for name in _FACTS:
        op.drop_column("agent_results", name)
    for name in (*_FACTS, *_OF_ROWS):
        op.drop_column("standings", name)
