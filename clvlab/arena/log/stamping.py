"""Asks time-stamp authorities for stamps over a checkpoint, and keeps them in a file."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from clvlab.base.files import file_bytes, replace_file
from clvlab.errors import LogError, MissingExtraError
from clvlab.log.bundles import note_text
from clvlab.log.note import checkpoint
from clvlab.log.stamps import part_of, query, read_part, stamp_of, time_of
from clvlab.proof.canonical import canonical

_MAX_BYTES = 64 << 10
_TIMEOUT_S = 20.0


def add_stamps(note: str, authorities: Sequence[str], place: Path) -> list[tuple[datetime, str]]:
    """Have each authority, a URL, stamp the text of a signed checkpoint; add the stamps to a file, and return their times.

    Raises
    ------
    LogError
        The note is no checkpoint, or an authority gives no stamp of it.
    """
    text = note_text(note)
    checkpoint(text)
    stamps, certificates = read_part(file_bytes(place)) if place.exists() else ([], [])
    found = []
    for url in authorities:
        request, nonce = query(text)
        stamp, chain = stamp_of(_answer(url, request), text, nonce)
        stamps, certificates = [*stamps, stamp], [*certificates, *chain]
        found.append((time_of(stamp), url))
    replace_file(place, canonical(part_of(stamps, certificates)))
    return found


def _answer(url: str, request: bytes) -> bytes:
    try:
        import httpx2
    except ImportError as error:
        raise MissingExtraError("client", error.name) from error
    try:
        headers = {"Content-Type": "application/timestamp-query"}
        with httpx2.stream("POST", url, content=request, headers=headers, timeout=_TIMEOUT_S) as response:
            response.raise_for_status()
            content = b""
            for piece in response.iter_bytes():
                content += piece
                if len(content) > _MAX_BYTES:
                    raise LogError(f"{url} answers with more than {_MAX_BYTES:,} bytes")
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        raise LogError(f"the authority {url} gives no answer: {error}") from error
    return content
