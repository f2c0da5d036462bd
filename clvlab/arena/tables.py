"""Tables as answers: in pages, or as bytes in Arrow."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO

import polars as pl

from clvlab.errors import PageError

PAGE = 100
MAX_PAGE = 1000


@dataclass(frozen=True, slots=True)
class ArrowTable:
    """A table or one page of it as an Arrow IPC stream, and the cursor of the next page; ``None`` at the end."""

    content: bytes
    next_cursor: str | None


def arrow_stream(frame: pl.DataFrame) -> bytes:
    """Return a frame as an Arrow IPC stream, with types that every implementation of Arrow knows."""
    text = BytesIO()
    frame.write_ipc_stream(text, compat_level=pl.CompatLevel.oldest())
    return text.getvalue()


def first_rows(frame: pl.DataFrame, limit: int | None) -> tuple[pl.DataFrame, bool]:
    """Return the first rows, all without a limit, and whether others follow; ``PageError`` for a limit outside 1..1000."""
    if limit is None:
        return frame, False
    if not 1 <= limit <= MAX_PAGE:
        raise PageError(f"limit must be 1 to {MAX_PAGE}, not {limit}")
    return frame.head(limit), frame.height > limit
