"""Store packs that are held back for seats and the fixtures dealt of them, and what live seats were shown.

Revision ID: 0016
Revises: 0015
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from clvlab.errors import StoreError
from clvlab.store.tables import Json, Name

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables, which are empty."""
    op.create_table(
        "held_packs",
        *(sa.Column(name, Name, nullable=False) for name in ("content_hash", "pack_id", "folder")),
        sa.Column("entry", Json, nullable=False),
        sa.Column("fixtures", sa.BigInteger(), nullable=False),
        sa.Column("fixture_list", sa.LargeBinary(), nullable=False),
        sa.Column("idx", sa.BigInteger(), nullable=False),
        sa.Column("released_idx", sa.BigInteger(), nullable=True),
        sa.Column("created_ts_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("content_hash", name=op.f("pk_held_packs")),
        sa.UniqueConstraint("pack_id", name=op.f("uq_held_packs_pack_id")),
    )
    op.create_table(
        "dealt_fixtures",
        sa.Column("content_hash", Name, nullable=False),
        sa.Column("fixture_id", sa.BigInteger(), autoincrement=False, nullable=False),
        *(sa.Column(name, Name, nullable=False) for name in ("seat_id", "owner")),
        sa.ForeignKeyConstraint(
            ["content_hash"], ["held_packs.content_hash"], name=op.f("fk_dealt_fixtures_content_hash_held_packs")
        ),
        sa.ForeignKeyConstraint(["seat_id"], ["seats.seat_id"], name=op.f("fk_dealt_fixtures_seat_id_seats")),
        sa.PrimaryKeyConstraint("content_hash", "fixture_id", name=op.f("pk_dealt_fixtures")),
        sa.UniqueConstraint("seat_id", name=op.f("uq_dealt_fixtures_seat_id")),
    )
    op.create_table(
        "live_ticks",
        sa.Column("seat_id", Name, nullable=False),
        sa.Column("tick", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("view", Json, nullable=False),
        sa.ForeignKeyConstraint(["seat_id"], ["seats.seat_id"], name=op.f("fk_live_ticks_seat_id_seats")),
        sa.PrimaryKeyConstraint("seat_id", "tick", name=op.f("pk_live_ticks")),
    )


def downgrade() -> None:
    """Drop the tables, unless something is in them: an older version could deal fixtures again, or not finish live seats.

    Raises
    ------
    StoreError
        The database holds a pack back, or has live seats.
    """
    if op.get_bind().execute(sa.text("SELECT count(*) FROM live_ticks")).scalar():
        raise StoreError("the database has live seats, whose ticks schema 0015 can't keep")
    if op.get_bind().execute(sa.text("SELECT count(*) FROM held_packs")).scalar():
        raise StoreError("the database holds packs back for seats, which schema 0015 can't keep")
    op.drop_table("live_ticks")
    op.drop_table("dealt_fixtures")
    op.drop_table("held_packs")
