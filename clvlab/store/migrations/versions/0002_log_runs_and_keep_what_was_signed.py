"""Log every run, keep what was signed for an anchor, and let a job be tried later."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the run log, and columns of anchors, jobs and runs."""
    op.create_table(
        "log_entries",
        sa.Column("idx", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("commit_index", sa.BigInteger(), nullable=True),
        sa.Column("entry", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("idx", name=op.f("pk_log_entries")),
        sa.UniqueConstraint("commit_index", name=op.f("uq_log_entries_commit_index")),
    )
    op.create_index(op.f("ix_log_entries_run_id"), "log_entries", ["run_id"], unique=False)
    op.create_index(op.f("ix_log_entries_owner_kind"), "log_entries", ["owner", "kind"], unique=False)
    op.create_table(
        "log_nodes",
        sa.Column("level", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("idx", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("level", "idx", name=op.f("pk_log_nodes")),
    )
    for statement in _append_only(op.get_bind().dialect.name):
        op.execute(statement)
    op.add_column("anchors", sa.Column("record", sa.Text(), nullable=True))
    op.add_column("jobs", sa.Column("postponed", sa.Integer(), server_default="0", nullable=False))
    op.add_column("runs", sa.Column("commit_index", sa.BigInteger(), nullable=True))


def _append_only(dialect: str) -> list[str]:
    """Make the database itself refuse to change or drop an entry."""
    if dialect == "postgresql":
        return [
            "CREATE FUNCTION log_is_append_only() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'the run log is append-only'; END $$",
            "CREATE TRIGGER log_entries_stay BEFORE UPDATE OR DELETE ON log_entries "
            "FOR EACH ROW EXECUTE FUNCTION log_is_append_only()",
        ]
    return [
        f"CREATE TRIGGER log_entries_no_{act.lower()} BEFORE {act} ON log_entries "
        "BEGIN SELECT RAISE(ABORT, 'the run log is append-only'); END"
        for act in ("UPDATE", "DELETE")
    ]
