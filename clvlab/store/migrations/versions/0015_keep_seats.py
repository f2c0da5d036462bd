"""Store seats, and the chains of their decisions.

Revision ID: 0015
Revises: 0014
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from clvlab.errors import StoreError
from clvlab.store.tables import Json, Name

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_INDEXES = (("owner", "created_ts_ms", "seat_id"), ("status", "served_ts_ms"))


def upgrade() -> None:
    """Add the tables, which are empty."""
    op.create_table(
        "seats",
        *(sa.Column(name, Name, nullable=False) for name in ("seat_id", "owner", "agent_id", "run_id", "pack_id")),
        sa.Column("content_hash", Name, nullable=False),
        sa.Column("fixture_ids", Json, nullable=False),
        sa.Column("ranked", sa.Boolean(), nullable=False),
        sa.Column("request", Json, nullable=False),
        sa.Column("secret", sa.LargeBinary(), nullable=False),
        sa.Column("commit_index", sa.BigInteger(), nullable=False),
        sa.Column("status", Name, nullable=False),
        sa.Column("cause", Name, nullable=True),
        sa.Column("ticks", sa.BigInteger(), nullable=False),
        sa.Column("head", Name, nullable=False),
        *(
            sa.Column(name, sa.BigInteger(), nullable=False)
            for name in ("served_ts_ms", "tick_s", "seat_s", "logged_ticks", "logged_ts_ms", "decision_bytes")
        ),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("created_ts_ms", "updated_ts_ms")),
        sa.PrimaryKeyConstraint("seat_id", name=op.f("pk_seats")),
        sa.UniqueConstraint("run_id", name=op.f("uq_seats_run_id")),
    )
    for columns in _INDEXES:
        op.create_index(op.f(f"ix_seats_{'_'.join(columns)}"), "seats", list(columns))
    op.create_table(
        "seat_decisions",
        sa.Column("seat_id", Name, nullable=False),
        sa.Column("tick", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("digest", Name, nullable=False),
        sa.Column("decisions", Json, nullable=False),
        sa.Column("missed", sa.Boolean(), nullable=False),
        sa.Column("head", Name, nullable=False),
        sa.Column("ts_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["seat_id"], ["seats.seat_id"], name=op.f("fk_seat_decisions_seat_id_seats")),
        sa.PrimaryKeyConstraint("seat_id", "tick", name=op.f("pk_seat_decisions")),
    )


def downgrade() -> None:
    """Drop the tables, unless a seat is in them: its decisions would be lost, and an older version could not finish it.

    Raises
    ------
    StoreError
        The database has seats.
    """
    if op.get_bind().execute(sa.text("SELECT count(*) FROM seats")).scalar():
        raise StoreError("the database has seats, whose chains schema 0014 can't keep")
    op.drop_table("seat_decisions")
    for columns in _INDEXES:
        op.drop_index(op.f(f"ix_seats_{'_'.join(columns)}"), "seats")
    op.drop_table("seats")
