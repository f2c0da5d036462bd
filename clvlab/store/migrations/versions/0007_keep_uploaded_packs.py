"""Keep packs that owners upload, and note which runs count on the leaderboard; those that are there all do.

Revision ID: 0007
Revises: 0006
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table and the column."""
    op.add_column("runs", sa.Column("ranked", sa.Boolean(), server_default=sa.true(), nullable=False))
    op.create_table(
        "uploads",
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("pack_id", sa.Text(), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("provenance", sa.Text(), nullable=False),
        sa.Column("is_genuine", sa.Boolean(), nullable=False),
        sa.Column("fixtures", sa.Text(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("entry", sa.Text(), nullable=False),
        sa.Column("created_ts_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "pack_id", name=op.f("pk_uploads")),
        sa.UniqueConstraint("owner", "content_hash", name=op.f("uq_uploads_owner_content_hash")),
    )
