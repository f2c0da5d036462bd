"""Entries of zip and tar archives, read one after another; this module writes no file."""

from __future__ import annotations

import bz2
import gzip
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import IO, BinaryIO, Protocol, cast

from clvlab.errors import SourceError

UNPACKABLE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    OSError,
    NotImplementedError,
    UnicodeDecodeError,
)
_CHUNK = 1 << 18
_LISTED = b"PK\x01\x02"  # starts each entry of a zip's directory (APPNOTE.TXT 4.3.12)
_XZ_MEMORY = 256 << 20  # the largest preset of xz needs 65 MiB; a header may ask for 4 GiB
_KINDS = {
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.LNKTYPE: "a hard link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a pipe",
    tarfile.GNUTYPE_SPARSE: "a sparse file",
}


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    """An entry as its archive describes it; ``oddity`` names the type of an entry that is neither a file nor a folder."""

    name: str
    is_folder: bool
    oddity: str | None
    opened: Callable[[], IO[bytes] | None]


def zipped(file: BinaryIO, max_entries: int) -> Iterator[ArchiveEntry]:
    """Return the entries of a zip.

    Raises
    ------
    SourceError
        The zip lists more than ``max_entries``, or its list can't be read.
    """
    listed = sum(chunk.count(_LISTED) for chunk in iter(partial(file.read, _CHUNK), b""))
    if listed > 2 * max_entries:  # a quick check: the library would read a list of millions before it counts them
        raise SourceError(f"the archive has more than {max_entries:,} entries")
    file.seek(0)
    try:
        archive = zipfile.ZipFile(file)
    except (UnicodeDecodeError, ValueError) as error:
        raise SourceError(f"the zip's directory can't be read: {error!s:.200}") from error
    with archive:
        for info in archive.infolist():
            yield ArchiveEntry(info.orig_filename, info.is_dir(), _oddity(info), partial(archive.open, info))


def _oddity(info: zipfile.ZipInfo) -> str | None:
    kind = stat.S_IFMT(info.external_attr >> 16)
    if info.flag_bits & 1:
        return "encrypted"
    if kind == stat.S_IFLNK:
        return "a symbolic link"
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "no plain file"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "compressed in another way than by deflate"
    return None


def tarred(file: BinaryIO, packing: str | None, max_bytes: int) -> Iterator[ArchiveEntry]:
    """Return the entries of a tar, in order and without seeking; ``packing`` is ``gzip``, ``bzip2``, ``xz`` or ``None``.

    Raises
    ------
    SourceError
        More than ``max_bytes`` were decompressed, skipped content included.
    """
    bounded = cast("BinaryIO", _BoundedFile(decompressed(file, packing), max_bytes))
    with tarfile.open(fileobj=bounded, mode="r|") as archive:
        for member in archive:
            kind = None if member.type in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE) else "no plain file"
            oddity = "a sparse file" if member.issparse() else _KINDS.get(member.type, kind)
            yield ArchiveEntry(member.name, member.isdir(), oddity, partial(archive.extractfile, member))


def decompressed(file: BinaryIO, packing: str | None) -> Readable:
    match packing:
        case "gzip":
            return gzip.GzipFile(fileobj=file)
        case "bzip2":
            return bz2.BZ2File(file)
        case "xz":
            return _Xz(file)
        case _:
            return file


@dataclass(slots=True)
class _Xz:
    """The content of an xz file, read with limited memory; ``lzma.LZMAFile`` takes as much as the file's header asks for."""

    file: BinaryIO
    _decompressor: lzma.LZMADecompressor = field(default_factory=lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY))

    def read(self, size: int) -> bytes:
        while not self._decompressor.eof:
            chunk = self.file.read(_CHUNK) if self._decompressor.needs_input else b""
            if self._decompressor.needs_input and not chunk:
                raise EOFError("the compressed file ended before the end of its stream")
            if found := self._decompressor.decompress(chunk, size):
                return found
        rest = self._decompressor.unused_data.lstrip(b"\x00") or self.file.read(_CHUNK).lstrip(b"\x00")
        if not rest:
            return b""
        self._decompressor = lzma.LZMADecompressor(memlimit=_XZ_MEMORY)  # several streams may follow each other
        return self._decompressor.decompress(rest, size) or self.read(size)


@dataclass(slots=True)
class _BoundedFile:
    """A file that fails once more than a set number of bytes was read."""

    file: Readable
    left: int

    def read(self, size: int) -> bytes:
        data = self.file.read(size)
        self.left -= len(data)
        if self.left < 0:
            raise SourceError("the archive unpacks to more bytes than are read of it")
        return data
