"""How the lines of a run lie in the store: deflated in chunks, which one after the other are the body of one gzip file.

A chunk can be read without those before it, so that one decision of a million is one chunk; and the bytes of a whole part
can be sent as they lie to whoever takes gzip.

References
----------
RFC 1951, section 2; RFC 1952, section 2.3. zlib manual, ``Z_FULL_FLUSH``.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import pack
from typing import NamedTuple

HEADER = b"\x1f\x8b\x08\0\0\0\0\0\x04\xff"
"""The ten bytes before the chunks of a part: deflate, no name, no time, the fastest level, no system named."""

_CHUNK_BYTES = 128 << 10
_LEVEL = 1  # a sixth of the time of the usual one, for four fifths of its ratio
_RAW = -zlib.MAX_WBITS


class Chunk(NamedTuple):
    """Whole lines: number of the first, bytes as they are read and as they are stored."""

    first_line: int
    size: int
    stored: bytes


def chunks(text: bytes) -> Iterator[Chunk]:
    """Cut lines into chunks of about 128 kB; the last one ends the gzip file with its checksum and length."""
    first_line = start = checksum = 0
    while start < len(text):
        end = text.find(b"\n", min(start + _CHUNK_BYTES, len(text) - 1)) + 1
        lines = text[start:end]
        checksum = zlib.crc32(lines, checksum)
        deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW)
        stored = deflate.compress(lines)
        if end < len(text):
            stored += deflate.flush(zlib.Z_FULL_FLUSH)
        else:
            stored += deflate.flush() + pack("<LL", checksum, len(text) & 0xFFFFFFFF)
        yield Chunk(first_line, len(lines), stored)
        first_line += lines.count(b"\n")
        start = end


def lines_of(stored: bytes, size: int | None) -> bytes:
    """Return the lines of a chunk; one without a size is from before they were deflated.

    Of a chunk that was damaged something else is returned, as of lines that were: the hash of the part tells.
    """
    if size is None:
        return stored
    try:
        return zlib.decompressobj(_RAW).decompress(stored, size + 1)
    except zlib.error:
        return stored
