"""Store competitions of seats.

Revision ID: 0017
Revises: 0015
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from clvlab.errors import StoreError
from clvlab.store.tables import Json, Name

revision = "0017"
down_revision = "0015"
branch_labels = None
depends_on = None

_COLUMNS = (("competition_id", Name), ("tape_ticks", sa.BigInteger()), ("scores", Json))
_INDEXES = (
    ("seats", ("competition_id", "status")),
    ("seat_competitions", ("created_ts_ms", "competition_id")),
    ("seat_competitions", ("owner",)),
)


def upgrade() -> None:
    """Add the table, which is empty; existing seats are in no competition."""
    op.create_table(
        "seat_competitions",
        *(sa.Column(name, Name, nullable=False) for name in ("competition_id", "owner", "name", "pack_id", "content_hash")),
        sa.Column("rules", Json, nullable=False),
        sa.Column("closes_ts_ms", sa.BigInteger(), nullable=True),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("created_ts_ms", "updated_ts_ms")),
        sa.PrimaryKeyConstraint("competition_id", name=op.f("pk_seat_competitions")),
    )
    for name, kind in _COLUMNS:
        op.add_column("seats", sa.Column(name, kind, nullable=True))
    for table, columns in _INDEXES:
        op.create_index(op.f(f"ix_{table}_{'_'.join(columns)}"), table, list(columns))


def downgrade() -> None:
    """Drop the table, unless a competition is in it: its seats would be left without their rules.

    Raises
    ------
    StoreError
        The database has competitions of seats.
    """
    if op.get_bind().execute(sa.text("SELECT count(*) FROM seat_competitions")).scalar():
        raise StoreError("the database has competitions of seats, which schema 0015 can't keep")
    for table, columns in _INDEXES:
        op.drop_index(op.f(f"ix_{table}_{'_'.join(columns)}"), table)
    for name, _ in reversed(_COLUMNS):
        op.drop_column("seats", name)
    op.drop_table("seat_competitions")
