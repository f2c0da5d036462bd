"""Lists in pages; a cursor names the last row of the previous page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from clvlab.errors import PageError
from clvlab.store import runs
from clvlab.store.database import Connection

_T = TypeVar("_T", bound=Mapping[str, Any])
PAGE, MAX_PAGE = 100, 200


def page_of(
    connection: Connection,
    table: Any,
    kind: type[_T],
    key: str,
    cursor: str | None,
    limit: int,
    where: Sequence[Any] = (),
    along: Any = None,
) -> tuple[list[_T], str | None]:
    """Return a page of a table's rows that meet the conditions, newest first, and the cursor of the next page or None."""
    if not 1 <= limit <= MAX_PAGE:
        raise PageError(f"limit must be 1 to {MAX_PAGE}, not {limit}")
    found = runs.page(connection, table, kind, key, position_of(cursor), limit + 1, where, along)
    return found[:limit], cursor_of(found[limit - 1], key) if len(found) > limit else None


def cursor_of(row: Mapping[str, Any], key: str) -> str:
    return f"{row['created_ts_ms']}.{row[key]}"


def position_of(cursor: str | None) -> tuple[int, str] | None:
    """Return creation time and key of a cursor's row, ``None`` without a cursor; ``PageError`` if no page has this cursor."""
    if cursor is None:
        return None
    ts_ms, _, key = cursor.partition(".")
    if not (cursor.isascii() and ts_ms.isdecimal() and len(ts_ms) <= 18 and key.isprintable() and key):
        raise PageError(f"cursor {cursor!r:.80} was not given by a page of this list")
    return int(ts_ms), key
