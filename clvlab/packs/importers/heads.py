"""The first bytes of a file, whatever it is named: unpacked, and told apart by what they are."""

from __future__ import annotations

import bz2
import io
import lzma
import tarfile
import zlib
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson

from clvlab.errors import SourceError
from clvlab.packs.archives import decompressed
from clvlab.packs.files import lines_of, packed, whole
from clvlab.packs.importers.source import Account

_READ_BYTES = 1 << 20


class Kind(StrEnum):
    """What a file holds."""

    EMPTY = "nothing"
    PARQUET = "Parquet"
    TAR = "a tar archive"
    ZIP = "a zip archive"
    SEVEN_ZIP = "a 7z archive"
    RAR = "a RAR archive"
    ZSTANDARD = "bytes compressed with Zstandard"
    UTF_16 = "text in UTF-16"
    BINARY = "bytes that are no text"
    JSON = "JSON"
    TEXT = "text"


def head_of(path: Path, size: int = _READ_BYTES) -> bytes:
    """Return the first bytes of a file, as many as so many of it hold, unpacked if it is packed; those that can be read.

    Raises
    ------
    SourceError
        It can't be opened.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(size)
            if packed(raw) is not None:
                raw += file.read(_READ_BYTES - size)
    except OSError as error:
        raise SourceError(f"{path.name}: can't be opened: {error.strerror}") from error
    try:
        match packed(raw):
            case "gzip":
                return zlib.decompressobj(wbits=31).decompress(raw, size)
            case "bzip2":
                return bz2.BZ2Decompressor().decompress(raw, size)
            case "xz":
                return decompressed(io.BytesIO(raw), "xz").read(size)
    except (zlib.error, lzma.LZMAError, EOFError, OSError):
        return b""
    return raw[:size]


def kind_of(head: bytes) -> Kind:
    """Tell what a file holds by its first bytes."""
    if not head.strip():
        return Kind.EMPTY
    for start, kind in (
        (b"PAR1", Kind.PARQUET),
        (b"PK\x03\x04", Kind.ZIP),
        (b"PK\x05\x06", Kind.ZIP),  # of no file
        (b"7z\xbc\xaf\x27\x1c", Kind.SEVEN_ZIP),
        (b"Rar!\x1a\x07", Kind.RAR),
        (b"\x28\xb5\x2f\xfd", Kind.ZSTANDARD),
        (b"\xff\xfe", Kind.UTF_16),
        (b"\xfe\xff", Kind.UTF_16),
    ):
        if head.startswith(start):
            return kind
    if _is_tar(head):
        return Kind.TAR
    if b"\x00" in head:
        return Kind.BINARY
    return Kind.JSON if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[") else Kind.TEXT


def _is_tar(head: bytes) -> bool:
    """Whether a header begins it; that of an old tar has no mark, but a checksum, as all have."""
    try:
        tarfile.TarInfo.frombuf(head[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


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
