"""Opening a database to read from it, also where nothing can be written: a read-only file or mount, an archive."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from clvlab.errors import StoreUnreachableError
from clvlab.store.database import Database
from clvlab.store.url import database_url


def database_to_read(url: str) -> Database:
    """Open a database; one of SQLite that can't be written is read as it lies there.

    Raises
    ------
    StoreUnreachableError
        It can't be read either, or has a write-ahead log that can only be brought in where it can be written.
    StoreError
        It can't be written, and has an older schema.
    """
    try:
        return Database(url)
    except StoreUnreachableError:
        place = database_url(url)
        file = Path(place.database or "")
        if place.get_backend_name() != "sqlite" or place.query or not file.is_file():
            raise
    read_only = f"sqlite:///file:{quote(quote(str(file.absolute())))}?uri=true&mode=ro"
    try:
        return Database(read_only)
    except StoreUnreachableError as error:
        log = file.with_name(f"{file.name}-wal")
        if log.is_file() and log.stat().st_size:
            detail = f"{str(file)!r} can't be read without {log.name!r} beside it: copy both to where they can be written"
            raise StoreUnreachableError(detail) from error
    return Database(f"{read_only}&immutable=1")  # SQLite makes no file beside it, not even to coordinate with writers
