"""The URL of a database, parsed by a strict rule, so that messages never contain a part of a password.

Lenient parsers take the part of a password after an ``@`` for a host, and show it in errors and logs.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from urllib.parse import unquote

from sqlalchemy.engine import URL

from clvlab.errors import DatabaseUrlError, MissingExtraError, StoreUnreachableError

_ESCAPE = r"%(?!00)[0-9A-Fa-f]{2}"
_WORD = rf"(?:[^\s\x00-\x1f\x7f%@:/?\#\[\]]|{_ESCAPE})*"
_SCHEME = re.compile(r"(sqlite|postgres|postgresql)(?:\+\w+)?://(.*)", re.DOTALL)
_SQLITE = re.compile(rf"(?:/(?P<path>[^\x00?]*))?(?:\?(?P<query>(?:[^\s\#%]|{_ESCAPE})*))?")
_POSTGRESQL = re.compile(
    rf"""
    (?:(?P<user>{_WORD})(?::(?P<password>{_WORD}))?@)?
    (?P<host>[A-Za-z0-9._~,-]+|\[[0-9A-Za-z:.%]+\])?(?::(?P<port>[0-9]{{1,5}}))?
    (?:/(?P<database>{_WORD}))?
    (?:\?(?P<query>(?:[^\s\x00-\x1f\x7f@\#%]|{_ESCAPE})*))?
    """,
    re.VERBOSE,
)
_SQLITE_OPTIONS = ("uri", "mode", "cache", "immutable", "nolock", "psow", "vfs")
_FORM = (
    "it is postgresql://USER:PASSWORD@HOST:PORT/DATABASE, where in each part the characters "
    "@ : / ? # [ ] % and spaces are percent-encoded (@ is %40), or sqlite:///FILE"
)


def is_database_url(text: str) -> bool:
    """Whether a text is meant as the URL of a database, valid or not."""
    return "://" in text or re.match(r"(?i)(sqlite|postgres)\w*(\+\w+)?:", text) is not None


def require_there(text: str) -> None:
    """Require that a file of SQLite exists, because opening would create it; other databases report this themselves.

    Raises
    ------
    StoreUnreachableError
        The file does not exist, or the database would be in memory.
    """
    place = database_url(text)
    if place.get_backend_name() == "sqlite" and not place.query and not Path(place.database or "").is_file():
        raise StoreUnreachableError(f"no database at {place.database or 'memory'!r}")


def spoken(place: URL) -> str:
    """Return the name of a database in a message: with the path of a file, and without anything of a server."""
    is_file = place.get_backend_name() == "sqlite" and place.database not in (None, "", ":memory:")
    return f"the database {place.database!r}" if is_file else "the database"


def public_text(place: URL) -> str:
    """Return the public form of the URL: without user, password and options, except a socket's folder."""
    query = {"host": place.query["host"]} if "host" in place.query else {}
    return URL.create(place.get_backend_name(), None, None, place.host, place.port, place.database, query).render_as_string()


def database_url(text: str) -> URL:
    """Parse the URL of a database.

    A character that could end a part of the URL must be percent-encoded. So a URL has at most one ``@``, after user and
    password, and no part of a password can be taken for a host, a port, a database or an option.

    Raises
    ------
    DatabaseUrlError
        The text is not such a URL; the message states the rule and contains no part of the URL.
    MissingExtraError
        The driver is not installed.
    """
    found = _SCHEME.fullmatch(text)
    if found is None:
        raise DatabaseUrlError("the database URL can't be read: " + _FORM)
    try:
        return _sqlite(found[2]) if found[1] == "sqlite" else _postgresql(found[2])
    except UnicodeError:
        raise DatabaseUrlError("the database URL is not UTF-8: " + _FORM) from None  # the cause would show the unreadable text


def _sqlite(rest: str) -> URL:
    found = _SQLITE.fullmatch(rest)
    if found is None:
        raise DatabaseUrlError("the URL of an SQLite database can't be read: it is sqlite:///FILE")
    path = found["path"]
    return URL.create(
        "sqlite+pysqlite", database=_text(path) if path else None, query=_options(found["query"], _SQLITE_OPTIONS)
    )


def _postgresql(rest: str) -> URL:
    found = _POSTGRESQL.fullmatch(rest)
    if found is None or int(found["port"] or 0) > 65_535:
        raise DatabaseUrlError("the database URL can't be read: " + _FORM)
    options = _options(found["query"], _libpq_options())
    password = options.pop("password", None)  # moved to a place that every library treats as a password
    if password is None and found["password"] is not None:
        password = _text(found["password"])
    return URL.create(
        "postgresql+psycopg",
        username=_text(found["user"]) if found["user"] else None,
        password=password or None,
        host=found["host"].strip("[]") if found["host"] else None,
        port=int(found["port"]) if found["port"] else None,
        database=_text(found["database"]) if found["database"] else None,
        query=options,
    )


def _options(query: str | None, known: Collection[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for number, pair in enumerate(query.split("&") if query else (), 1):
        name, equals, value = pair.partition("=")
        if not equals or name not in known:  # it may be the rest of a password with an &
            raise DatabaseUrlError(
                f"option {number} of the database URL is not NAME=VALUE with a known name; in a value & is %26"
            )
        if name in options:
            raise DatabaseUrlError(f"option {number} of the database URL is given twice")
        options[name] = _text(value)
    return options


def _text(part: str) -> str:
    text = unquote(part, errors="strict")
    text.encode()  # refuses bytes of the environment that are not UTF-8
    return text


def _libpq_options() -> frozenset[str]:
    try:
        from psycopg.pq import Conninfo
    except ImportError as error:
        raise MissingExtraError("service", error.name) from error
    return frozenset(option.keyword.decode() for option in Conninfo.get_defaults())
