"""Versioned migrations of the tables, shipped with the package and run on opening a database."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.util.exc import CommandError
from sqlalchemy import Connection

from clvlab.errors import StoreError

__all__ = ["upgrade"]


def upgrade(connection: Connection) -> str:
    """Bring a database to the newest schema, inside the caller's transaction; returns the schema's version.

    Raises
    ------
    StoreError
        The database was migrated by a newer clvlab.
    """
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(Path(__file__).parent))
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise StoreError(f"the database has a schema that this version does not know: {error}") from error
    return str(MigrationContext.configure(connection).get_current_revision())
