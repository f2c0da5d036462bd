"""Bytes of files: hashes, and raw sources with their compression taken off."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from clvlab.errors import SourceError

__all__ = ["content_digest", "file_sha256", "lines_of", "opened"]

MAX_LINE_BYTES = 16 << 20
MAX_CONTENT_BYTES = 4 << 30  # of one decompressed source: a small archive must not fill a disk or a day


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()


def opened(path: Path) -> BinaryIO:
    """Open a source for reading, decompressed by its ending."""
    match path.suffix:
        case ".gz":
            return cast("BinaryIO", gzip.open(path, "rb"))
        case ".bz2":
            return cast("BinaryIO", bz2.open(path, "rb"))
        case _:
            return path.open("rb")


def content_digest(path: Path) -> str:
    """SHA-256 of a source's decompressed content: compressing it anew changes nothing."""
    hasher = hashlib.sha256()
    with _readable(path) as file:
        for chunk in _chunks(file, path):
            hasher.update(chunk)
    return "sha256:" + hasher.hexdigest()


def lines_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """Give numbered non-blank lines of a source, from 1.

    Raises
    ------
    SourceError
        The file can't be read, is cut off, or is larger than a source may be.
    """
    size = 0
    with _readable(path) as file:
        try:
            for number, line in enumerate(iter(partial(file.readline, MAX_LINE_BYTES + 1), b""), 1):
                size += len(line)
                if size > MAX_CONTENT_BYTES:
                    raise SourceError(f"{path.name}: more than {MAX_CONTENT_BYTES} bytes when decompressed")
                if len(line) > MAX_LINE_BYTES:
                    raise SourceError(f"{path.name}:{number}: a line of more than {MAX_LINE_BYTES} bytes")
                if line.strip():
                    yield number, line
        except (OSError, EOFError, zlib.error) as error:
            raise SourceError(f"{path.name}: can't be read to its end: {error}") from error


def _readable(path: Path) -> BinaryIO:
    try:
        return opened(path)
    except OSError as error:
        raise SourceError(f"{path.name}: can't be opened: {error.strerror}") from error


def _chunks(file: BinaryIO, path: Path) -> Iterator[bytes]:
    size = 0
    try:
        while chunk := file.read(1 << 20):
            size += len(chunk)
            if size > MAX_CONTENT_BYTES:
                raise SourceError(f"{path.name}: more than {MAX_CONTENT_BYTES} bytes when decompressed")
            yield chunk
    except (OSError, EOFError, zlib.error) as error:
        raise SourceError(f"{path.name}: can't be read to its end: {error}") from error
