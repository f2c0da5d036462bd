"""Note the pack of a commitment beside its entry in the run log; entries that are there keep none.

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from clvlab.errors import StoreError

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, and the index by which an owner's runs over a pack are counted."""
    op.add_column("log_entries", sa.Column("content_hash", sa.Text(), nullable=True))
    op.create_index(
        op.f("ix_log_entries_owner_content_hash_kind_idx"),
        "log_entries",
        ["owner", "content_hash", "kind", "idx"],
        unique=False,
    )


def downgrade() -> None:
    """Refuse: entries would lose their packs, and the log what it has claimed of them under signed checkpoints."""
    raise StoreError("schema 0003 has no place for the packs of commitments, which the log's claims are counted by")
