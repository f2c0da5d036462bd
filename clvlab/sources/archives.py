"""Archives as input: a zip or tar is unpacked next to the new pack and read as a folder.

Files get names that any system can print. An archive within an archive becomes a folder of the same name. Content that can't be
unpacked is left out and reported.
"""

from __future__ import annotations

import bz2
import io
import lzma
import shutil
import tarfile
import unicodedata
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, count
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from clvlab.base.names import printable
from clvlab.base.progress import each
from clvlab.errors import SourceError
from clvlab.packs.archives import UNPACKABLE, ArchiveEntry, Readable, decompressed, tarred, zipped
from clvlab.packs.files import MAX_CONTENT_BYTES, check_size, lines_of, packed, whole
from clvlab.sources.source import ImportStats

# The first bytes of a file, unpacked and classified; the name does not matter.


_READ_BYTES = 1 << 20


class ArchiveKind(StrEnum):
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
    """Return the first bytes of a file, unpacked if it is packed, as far as they can be read.

    Raises
    ------
    SourceError
        The file can't be opened.
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


def kind_of(head: bytes) -> ArchiveKind:
    if not head.strip():
        return ArchiveKind.EMPTY
    for start, kind in (
        (b"PAR1", ArchiveKind.PARQUET),
        (b"PK\x03\x04", ArchiveKind.ZIP),
        (b"PK\x05\x06", ArchiveKind.ZIP),  # a zip without files
        (b"7z\xbc\xaf\x27\x1c", ArchiveKind.SEVEN_ZIP),
        (b"Rar!\x1a\x07", ArchiveKind.RAR),
        (b"\x28\xb5\x2f\xfd", ArchiveKind.ZSTANDARD),
        (b"\xff\xfe", ArchiveKind.UTF_16),
        (b"\xfe\xff", ArchiveKind.UTF_16),
    ):
        if head.startswith(start):
            return kind
    if _is_tar(head):
        return ArchiveKind.TAR
    if b"\x00" in head:
        return ArchiveKind.BINARY
    return ArchiveKind.JSON if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[") else ArchiveKind.TEXT


def _is_tar(head: bytes) -> bool:
    """Return whether these bytes begin with a tar header, by its checksum, as an old tar has no mark."""
    try:
        tarfile.TarInfo.frombuf(head[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def json_documents(name: str, path: Path, account: ImportStats) -> Iterator[tuple[int, Any]]:
    """Return the JSON documents of a file with their line numbers; each has a line, or a single one spans many lines.

    Raises
    ------
    SourceError
        The file can't be read to its end or is not JSON; when strict, a line is not JSON.
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
    """Return whether the first line with content is a complete JSON document."""
    first, ended, _ = head.removeprefix(b"\xef\xbb\xbf").lstrip().partition(b"\n")
    try:
        orjson.loads(first)
    except orjson.JSONDecodeError:
        return False
    return bool(ended)


MAX_FILES = 100_000
_MAX_DEPTH = 3
_MAX_NAME_BYTES = 200
_CHUNK = 1 << 18
_MAGIC_BYTES = 10
_HEAD_BYTES = 4096
_HEADERS = 1 << 30  # most bytes between the files of a tar
SHEETS = (b"[Content_Types].xml", b"mimetype")  # of Excel and OpenDocument, whose files are zips


def archives_in(paths: Sequence[Path], is_kept: Callable[[Path], bool]) -> list[Path]:
    """Return the archives among the paths and in their folders, except those that an importer reads itself."""
    found = [file for path in paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    return [file for file in found if file.is_file() and is_archive(file) and not is_kept(file)]


@dataclass(slots=True)
class Archives:
    """Unpacks archives into a folder, within limits on their total; ``left`` lists what stayed packed, each with its reason."""

    folder: Path
    left: list[tuple[str, str]] = field(default_factory=list)
    _files: int = 0
    _bytes: int = 0
    _packed_bytes: int = 0

    def extract(self, paths: Sequence[Path], archives: Sequence[Path]) -> list[Path]:
        """Return the paths, each archive replaced by the folder of its content.

        Raises
        ------
        SourceError
            Together they hold more than may be unpacked.
        """
        self._packed_bytes = sum(archive.stat().st_size for archive in archives)
        for archive in each("unpacking archives", archives, len(archives)):
            label = printable(archive.name)
            self._unpack(archive, _free(self._place(label, self.folder)), label, 1)
        rest = [path for path in paths if path not in archives]
        return [*rest, self.folder if rest or len(archives) > 1 else _innermost(self.folder)]

    def _unpack(self, archive: Path, folder: Path, label: str, depth: int) -> None:
        with archive.open("rb") as file:
            packing = packed(file.read(_MAGIC_BYTES))
            file.seek(0)
            try:
                if kind_of(head_of(archive, _HEAD_BYTES)) not in (
                    ArchiveKind.ZIP,
                    ArchiveKind.TAR,
                ):  # a single file in xz, which the readers do not unpack
                    self._write(decompressed(file, packing), _free(folder.with_name(folder.name.removesuffix(".xz"))), label)
                    return
                for entry in self._entries(file, packing):
                    self._take(entry, folder, label, depth)
            except UNPACKABLE as error:
                self.left.append((label, f"an archive can't be read to its end: {printable(str(error))}"))

    def _entries(self, file: BinaryIO, packing: str | None) -> Iterator[ArchiveEntry]:
        if packing is None and file.read(2) == b"PK":
            return zipped(file, MAX_FILES)
        file.seek(0)
        return tarred(file, packing, MAX_CONTENT_BYTES + _HEADERS)

    def _take(self, entry: ArchiveEntry, folder: Path, archive: str, depth: int) -> None:
        label = f"{archive}/{printable(entry.name)}"
        self._files += 1
        if self._files > MAX_FILES:
            raise SourceError(f"{archive}: the archives hold more than {MAX_FILES:,} files: import them in parts")
        if entry.is_folder:
            return
        source = None if entry.oddity else entry.opened()
        if source is None:
            self.left.append((label, f"a file of an archive is {entry.oddity or 'no plain file'}"))
            return
        parts = [part for part in printable(entry.name).replace("\\", "/").split("/") if part not in ("", ".", "..")]
        if not parts:
            self.left.append((label, "a file of an archive has no name"))
            return
        place = folder
        for part in parts:
            place = self._place(part, place)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch(exist_ok=False)
        except OSError as error:  # the name is taken (maybe in other case), a folder is a file, or the path is too deep
            self.left.append((label, f"a file of an archive has no place: {error.strerror}"))
            return
        with closing(source):
            self._write(source, place, label)
        if is_archive(place):
            if depth == _MAX_DEPTH:
                self.left.append((label, f"an archive lies in {_MAX_DEPTH} others"))
                place.unlink()
                return
            inner = place.rename(place.with_name(f"{place.name}~"))
            self._unpack(inner, place, label, depth + 1)
            inner.unlink()

    def _place(self, name: str, folder: Path) -> Path:
        """Return the path for a name, cut if it is too long for a file."""
        plain = unicodedata.normalize("NFC", name.replace(":", "_"))
        ending = "".join(Path(plain).suffixes[-2:])[-20:]
        cut = plain.encode()[: _MAX_NAME_BYTES - len(ending.encode())].decode(errors="ignore")
        return folder / (plain if len(plain.encode()) <= _MAX_NAME_BYTES else cut + ending)

    def _write(self, source: Readable, place: Path, label: str) -> None:
        with place.open("wb") as file:
            while chunk := source.read(_CHUNK):
                self._bytes += len(chunk)
                check_size(label, self._bytes, self._packed_bytes)
                if self._bytes % (_CHUNK << 6) < len(chunk) and shutil.disk_usage(self.folder).free < _CHUNK << 8:
                    raise SourceError(f"{label}: there is no room on the disk to unpack it")
                file.write(chunk)


def is_archive(path: Path) -> bool:
    """Return whether a file is a zip, a tar (also compressed) or an xz file, but not a spreadsheet."""
    with path.open("rb") as file:
        first = file.read(_MAGIC_BYTES)
    if packed(first) == "xz":
        return True
    head = head_of(path, _HEAD_BYTES)
    kind = kind_of(head)
    if kind is ArchiveKind.ZIP:
        return packed(first) is None and not any(head[30 : 30 + len(name)] == name for name in SHEETS)
    return kind is ArchiveKind.TAR


def _free(place: Path) -> Path:
    """Return a path that does not exist yet, with a number before the name if needed."""
    places = (place.with_name(f"{n}-{place.name}") for n in count(2))
    return next(one for one in chain([place], places) if not one.exists())


def _innermost(folder: Path) -> Path:
    """Return the innermost folder that holds everything: archives often hold a single folder."""
    while len(inside := list(folder.iterdir())) == 1 and inside[0].is_dir():
        folder = inside[0]
    return folder
