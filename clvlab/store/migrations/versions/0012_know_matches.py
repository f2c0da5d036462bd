"""Store the matches of packs, so that hold-outs and trials are recognised in other files with the same odds.

Revision ID: 0012
Revises: 0011
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from clvlab.errors import StoreError
from clvlab.store.tables import Name

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table; existing plans are recognised only by the digests of their ticks."""
    op.create_table(
        "matches",
        sa.Column("name", Name, nullable=False),
        sa.Column("listing", sa.LargeBinary(), nullable=False),
        sa.Column("digest", Name, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_matches")),
    )


def downgrade() -> None:
    """Drop the table, unless a hold-out depends on it.

    Raises
    ------
    StoreError
        A plan holds out matches, which an older version would open in other files with the same odds.
    """
    query = "SELECT count(*) FROM plans JOIN matches ON matches.name = plans.plan_id WHERE NOT plans.opened"
    if op.get_bind().execute(sa.text(query)).scalar():
        raise StoreError("the database has plans whose hold-out is shut by the match, which schema 0011 would open")
    op.drop_table("matches")
