"""A copy of a database to restore from: of SQLite while it is written to; of PostgreSQL its own tool makes one."""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from clvlab.errors import StoreError, StoreUnreachableError
from clvlab.files import Unfinished, file_bytes_or_none, flush, name_file, replace_file
from clvlab.store.url import database_url, require_there

CHECKPOINT = ".checkpoint"
"""What the name of a backup ends with where it is the checkpoint beside it."""
_MAX_CHECKPOINT_BYTES = 1 << 20


def back_up(url: str, out: Path, checkpoint_file: Path | None = None) -> Path | None:
    """Copy a SQLite database to a file, as of one moment, while others write to it.

    Steps: 1. the newest published checkpoint, first, so that the copy never lacks what it knows; 2. the copy under a
    temporary name; 3. its own name, once all of it is on the disk.

    Parameters
    ----------
    url
        SQLAlchemy URL of the store.
    out
        File of the copy; never written over.
    checkpoint_file
        Where the service keeps the newest published checkpoint of its log.

    Returns
    -------
    Path
        File of the checkpoint beside the copy; null if none was published.

    Raises
    ------
    StoreError
        There is no file to copy, and what to do instead; or it can't be copied.
    """
    source = _file_of(url, out, checkpoint_file)
    if os.path.lexists(out):
        raise StoreError(f"{str(out)!r} is there already: a backup is never written over")
    note = None if checkpoint_file is None else file_bytes_or_none(checkpoint_file, _MAX_CHECKPOINT_BYTES)
    with Unfinished(out.parent) as folder:  # in it, so that no other name is left by SQLite
        copy = folder / out.name
        _copied(source, copy)
        shutil.copymode(source, copy)
        flush(copy)
        beside = out.with_name(out.name + CHECKPOINT)
        if note is not None:
            replace_file(beside, note)
        name_file(copy, out)
        flush(out.parent)
    return None if note is None else beside


def _copied(source: Path, copy: Path) -> None:
    try:
        with (
            closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True, timeout=30)) as read,
            closing(sqlite3.connect(copy)) as written,
        ):
            read.backup(written)  # all pages in one step: a copy in several begins anew whenever somebody writes
            written.execute("PRAGMA journal_mode=DELETE").fetchall()  # one file, with nothing left in others beside it
    except sqlite3.Error as error:
        raise StoreUnreachableError(f"{str(source)!r} can't be copied: {error}") from error


def _file_of(url: str, out: Path, checkpoint_file: Path | None) -> Path:
    found = database_url(url)
    if found.get_backend_name() == "postgresql":
        named = found.set(drivername="postgresql")._replace(password=None).render_as_string()
        recipe = f"pg_dump --format=custom --no-owner --file={shlex.quote(str(out))} --dbname={shlex.quote(named)}"
        if checkpoint_file is not None:
            recipe = f"cp {shlex.quote(str(checkpoint_file))} {shlex.quote(str(out) + CHECKPOINT)} && {recipe}"
        raise StoreError(f"PostgreSQL is backed up by its own tool, with the password in PGPASSWORD or ~/.pgpass: {recipe}")
    if found.database in (None, "", ":memory:"):
        raise StoreError("a database in memory has no file to back up")
    require_there(url)
    return Path(str(found.database))
