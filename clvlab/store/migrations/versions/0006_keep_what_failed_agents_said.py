"""Keep what the errors of failed agents said beside their run, and find a page of competitions by an index.

Revision ID: 0006
Revises: 0005
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table and the index."""
    op.create_table(
        "agent_errors",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_agent_errors_run_id")),
        sa.PrimaryKeyConstraint("run_id", "agent_id", name=op.f("pk_agent_errors")),
    )
    op.create_index(
        op.f("ix_competitions_created_ts_ms_competition_id"), "competitions", ["created_ts_ms", "competition_id"], unique=False
    )


def downgrade() -> None:
    """Drop the index and the table, and with it what failed agents said; evidence has the class of each error."""
    op.drop_index(op.f("ix_competitions_created_ts_ms_competition_id"), "competitions")
    op.drop_table("agent_errors")
