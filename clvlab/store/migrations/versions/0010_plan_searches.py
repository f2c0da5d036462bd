"""Keep searches that were planned, and what they hold out.

Revision ID: 0010
Revises: 0009
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from clvlab.errors import StoreError
from clvlab.store.tables import Json, Name

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "plans",
        sa.Column("plan_id", Name, nullable=False),
        sa.Column("content_hash", Name, nullable=False),
        sa.Column("idx", sa.BigInteger(), nullable=False),
        sa.Column("opened", sa.Boolean(), nullable=False),
        sa.Column("trials_before", sa.BigInteger(), nullable=False),
        sa.Column("payload", Json, nullable=False),
        sa.Column("created_ts_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("plan_id", name=op.f("pk_plans")),
    )
    op.create_table(
        "held_out",
        sa.Column("plan_id", Name, nullable=False),
        sa.Column("digest", Name, nullable=False),
        sa.PrimaryKeyConstraint("plan_id", "digest", name=op.f("pk_held_out")),
    )
    op.create_index(op.f("ix_held_out_digest"), "held_out", ["digest"])


def downgrade() -> None:
    """Drop the tables, if no hold-out is shut.

    Raises
    ------
    StoreError
        An older version would open what a plan holds out.
    """
    if op.get_bind().execute(sa.text("SELECT count(*) FROM plans WHERE NOT opened")).scalar():
        raise StoreError("the database has plans whose hold-out is shut, which schema 0009 would open")
    op.drop_table("held_out")
    op.drop_table("plans")
