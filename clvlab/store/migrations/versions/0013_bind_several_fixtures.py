"""Store all fixtures of a competition, and the owner of a requested backtest.

Revision ID: 0013
Revises: 0012
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from clvlab.errors import StoreError
from clvlab.store.tables import Json, Name

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; existing competitions have one fixture, and existing requests no owner."""
    op.add_column("competitions", sa.Column("fixture_ids", Json, nullable=True))
    op.add_column("backtest_requests", sa.Column("owner", Name, nullable=True))


def downgrade() -> None:
    """Drop the columns, unless a competition that is not over needs them.

    Raises
    ------
    StoreError
        A competition is bound to several fixtures, of which an older version would run the first.
    """
    query = (
        "SELECT count(*) FROM competitions WHERE status IN ('draft', 'open', 'running') "
        "AND (fixture_ids IS NOT NULL OR config LIKE '%fixture_ids%')"
    )
    if op.get_bind().execute(sa.text(query)).scalar():
        raise StoreError("the database has competitions over several fixtures, of which schema 0012 would run only the first")
    op.drop_column("competitions", "fixture_ids")
    op.drop_column("backtest_requests", "owner")
