"""Deflate the lines of runs, and note what runs take up; lines that are there stay as they are.

Revision ID: 0008
Revises: 0007
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_WEIGHED = """
UPDATE runs SET stored_bytes = coalesce(length(manifest), 0)
    + (SELECT coalesce(sum(length(lines)), 0) FROM run_chunks WHERE run_chunks.run_id = runs.run_id)
    + (SELECT coalesce(sum(length(lines)), 0) FROM receipts WHERE receipts.run_id = runs.run_id)
    + (SELECT coalesce(sum(length(report)), 0) FROM reports WHERE reports.run_id = runs.run_id)
    + (SELECT coalesce(sum(length(events)), 0) FROM competition_events WHERE competition_id = runs.origin_id)
    + (SELECT coalesce(sum(length(payload)), 0) FROM runtime_events WHERE instance_id = runs.origin_id)
WHERE status = 'sealed'
"""
_USED = """
INSERT INTO usage (owner, bytes)
SELECT owner, sum(stored_bytes) FROM runs WHERE status = 'sealed' AND owner IS NOT NULL GROUP BY owner
"""


def upgrade() -> None:
    """Add the columns and the table, and weigh the runs that are there."""
    for table in ("run_chunks", "receipts"):
        op.add_column(table, sa.Column("size", sa.BigInteger()))
    op.add_column("runs", sa.Column("stored_bytes", sa.BigInteger()))
    op.create_index("ix_reports_run_id", "reports", ["run_id"])
    op.create_table(
        "usage",
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("owner", name=op.f("pk_usage")),
    )
    op.execute(_WEIGHED)
    op.execute(_USED)
