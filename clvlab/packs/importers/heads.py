"""The first bytes of a file, whatever it is named: unpacked, and told apart by what they are."""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson

from clvlab.errors import SourceError
from clvlab.packs.files import lines_of, packed, whole
from clvlab.packs.importers.source import Account

_READ_BYTES = 1 << 20


class Kind(StrEnum):
    """What a file holds."""

    EMPTY = "nothing"
    PARQUET = "Parquet"
    TAR = "a tar archive"
    ZIP = "a zip archive"
    UTF_16 = "text in UTF-16"
    BINARY = "bytes that are no text"
    JSON = "JSON"
    TEXT = "text"


def head_of(path: Path) -> bytes:
    """Return the first bytes of a file, as many as a mebibyte of it holds, unpacked if it is packed; those that can be read.

    Raises
    ------
    SourceError
        It can't be opened.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(_READ_BYTES)
    except OSError as error:
        raise SourceError(f"{path.name}: can't be opened: {error.strerror}") from error
    try:
        match packed(raw):
            case "gzip":
                return zlib.decompressobj(wbits=31).decompress(raw, _READ_BYTES)
            case "bzip2":
                return bz2.BZ2Decompressor().decompress(raw, _READ_BYTES)
    except (zlib.error, OSError):
        return b""
    return raw


def kind_of(head: bytes) -> Kind:
    """Tell what a file holds by its first bytes."""
    if not head.strip():
        return Kind.EMPTY
    for start, kind in (
        (b"PAR1", Kind.PARQUET),
        (b"PK\x03\x04", Kind.ZIP),
        (b"\xff\xfe", Kind.UTF_16),
        (b"\xfe\xff", Kind.UTF_16),
    ):
        if head.startswith(start):
            return kind
    if head[257:262] == b"ustar":
        return Kind.TAR
    if b"\x00" in head:
        return Kind.BINARY
    return Kind.JSON if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[") else Kind.TEXT


def json_documents(name: str, path: Path, account: Account) -> Iterator[tuple[int, Any]]:
    """Return the JSON documents of a file, numbered by their lines: one a line, or one over many lines.

    Raises
    ------
    SourceError
        It can't be read to its end, or is no JSON; when strict, a line that is none.
    """
    if not is_a_line(head_of(path)):
        try:
            yield 1, orjson.loads(whole(path).removeprefix(b"\xef\xbb\xbf"))
        except orjson.JSONDecodeError as error:
            raise SourceError(f"{name}:{error.lineno}: no JSON: {error.msg}") from error
        return
    for line, text in lines_of(path):
        try:
            yield line, orjson.loads(text.removeprefix(b"\xef\xbb\xbf"))
        except orjson.JSONDecodeError as error:
            account.refuse(name, line, f"no JSON: {error.msg}", "no JSON")


def is_a_line(head: bytes) -> bool:
    """Whether the first line that holds anything is a JSON document by itself, and ends within these bytes."""
    first, ended, _ = head.removeprefix(b"\xef\xbb\xbf").lstrip().partition(b"\n")
    try:
        orjson.loads(first)
    except orjson.JSONDecodeError:
        return False
    return bool(ended)
