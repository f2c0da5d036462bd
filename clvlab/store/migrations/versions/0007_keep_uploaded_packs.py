"""Keep packs that owners upload, and note which runs count on the leaderboard; those that are there all do.

Revision ID: 0007
Revises: 0006
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from clvlab.errors import StoreError

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


def downgrade() -> None:
    """Drop the table and the column, if nothing is on record by them.

    Raises
    ------
    StoreError
        There are uploads, whose owners would lose them, or runs over these, which would count on the leaderboard.
    """
    connection = op.get_bind()
    for what, query in {
        "uploads": "SELECT 1 FROM uploads LIMIT 1",
        "runs that do not count": "SELECT 1 FROM runs WHERE NOT ranked LIMIT 1",
    }.items():
        if connection.execute(sa.text(query)).first():
            raise StoreError(f"the database has {what}, which schema 0006 has no place for")
    op.drop_table("uploads")
    op.drop_column("runs", "ranked")
