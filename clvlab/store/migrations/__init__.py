"""Versioned migrations of the tables, shipped with the package and run on opening a database."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import Connection, inspect

from clvlab.errors import StoreError
from clvlab.store.url import spoken

__all__ = ["check", "downgrade", "upgrade"]

_NONE = "None"  # revision of a database without tables of clvlab
_FIRST = "0010"  # older schemas were never released
_LAST_COMMIT = "dea3e48"  # its migrations lead from older schemas to ``_FIRST``


def upgrade(connection: Connection) -> str:
    """Bring a database to the newest schema, inside the caller's transaction; returns the schema's version.

    Raises
    ------
    StoreError
        A newer clvlab migrated the database, its schema is older than the first one that can be upgraded, or it is a file of
        another program.
    """
    found = _revision(connection)
    _require_upgradable(found)
    if found == _NONE and connection.dialect.name == "sqlite" and (others := inspect(connection).get_table_names()):
        raise StoreError(
            f"{spoken(connection.engine.url)} has tables of another program, such as {others[0]!r:.80}, and none was added: "
            "name another file"
        )
    try:
        command.upgrade(_config(connection), "head")
    except CommandError as error:
        raise StoreError(f"the database has a schema that this version does not know: {error}") from error
    return _revision(connection)


def downgrade(connection: Connection, revision: str) -> None:
    """Bring a database back to an older schema, inside the caller's transaction.

    Raises
    ------
    StoreError
        A migration on the way can't be undone; the message has the reason.
    """
    try:
        command.downgrade(_config(connection), revision)
    except CommandError as error:
        raise StoreError(f"the database can't be brought to schema {revision}: {error}") from error


def check(connection: Connection) -> str:
    """Return the schema's version of a database that can't be written; it must be the newest version.

    Raises
    ------
    StoreError
        The schema has another version.
    """
    found, newest = _revision(connection), ScriptDirectory.from_config(_config(connection)).get_current_head()
    _require_upgradable(found)
    if found != newest:
        raise StoreError(f"the database has schema {found}, not {newest}, and can't be written: open it once where it can be")
    return found


def _require_upgradable(found: str) -> None:
    if found.isdecimal() and found < _FIRST:
        raise StoreError(
            f"the database has schema {found}, and this version upgrades from schema {_FIRST}: open it once with clvlab at "
            f"commit {_LAST_COMMIT}, which brings it to schema {_FIRST}, and then with this version"
        )


def _config(connection: Connection) -> Config:
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(Path(__file__).parent))
    return config


def _revision(connection: Connection) -> str:
    return str(MigrationContext.configure(connection).get_current_revision())
