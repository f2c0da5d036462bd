"""Unpacking an archive of a pack: plain files with the names of a pack's files, each once.

Each entry must have one of these names, and its bytes are written to the file of that name. So an entry can't leave the
folder, and no links or devices are made.
"""

from __future__ import annotations

import tarfile
import unicodedata
from contextlib import closing
from pathlib import Path
from typing import IO, BinaryIO

from clvlab.errors import SourceError, UploadRefusedError
from clvlab.packs.archives import UNPACKABLE, ArchiveEntry, tarred, zipped
from clvlab.packs.manifest import DATA_FILES, DESCRIPTOR

EMPTY = "the body is empty: send an archive of a pack, or a source file with its source"
MAX_ENTRIES = 10_000
MAX_DESCRIPTOR_BYTES = 4 << 20
_SMALL_BYTES = 16 << 20
_MAX_RATIO = 200  # ticks are compressed already, and messages as text compress 5 to 50 times
_CHUNK = 1 << 18
_FILES = (DESCRIPTOR, *DATA_FILES)
_RAW = "raw"


def unpack(archive: Path, folder: Path, max_bytes: int) -> None:
    """Unpack a zip, a tar or a tar.gz into a new folder; ``UploadRefusedError`` for anything else."""
    packed_bytes = archive.stat().st_size
    with archive.open("rb") as file:
        magic = file.read(4)
        file.seek(0)
        if not magic:
            raise UploadRefusedError(EMPTY)
        folder.mkdir(parents=True)
        unpacked = _Unpacker(folder, max_bytes, packed_bytes)
        packing = "gzip" if magic[:2] == b"\x1f\x8b" else None
        bytes_read = max_bytes + 2 * tarfile.BLOCKSIZE * MAX_ENTRIES
        entries = zipped(file, MAX_ENTRIES) if magic[:2] == b"PK" else tarred(file, packing, bytes_read)
        try:
            for entry in entries:
                unpacked.take(entry)
        except SourceError as error:
            raise UploadRefusedError(f"{error}: an owner may keep {max_bytes:,} bytes") from error
        except UNPACKABLE as error:
            if isinstance(error, tarfile.ReadError) and not unpacked.entries:
                raise UploadRefusedError(
                    "the body is not an archive of a pack (zip, tar or tar.gz); a source file needs a source, as ?source=csv"
                ) from error
            raise UploadRefusedError(f"the archive can't be read to its end: {error!s:.200}") from error


class _Unpacker:
    def __init__(self, folder: Path, max_bytes: int, packed_bytes: int) -> None:
        self._folder, self._max_bytes, self._packed_bytes = folder, max_bytes, packed_bytes
        self._names: dict[str, str] = {}
        self.entries = self._bytes = 0

    def take(self, entry: ArchiveEntry) -> None:
        self.entries += 1
        if self.entries > MAX_ENTRIES:
            raise UploadRefusedError(f"the archive has more than {MAX_ENTRIES:,} entries")
        quoted = f"{entry.name!r:.120}"
        if entry.oddity:
            raise UploadRefusedError(f"the archive's entry {quoted} is {entry.oddity}; packs are plain files")
        name = entry.name.removeprefix("./")
        if entry.is_folder and name.rstrip("/") in ("", ".", _RAW):
            return
        _check_name(name, quoted)
        folded = unicodedata.normalize("NFC", name).casefold()
        if folded in self._names:
            known = self._names[folded]
            how = "twice" if known == name else f"and {known!r:.120}, and some systems take the two for one file"
            raise UploadRefusedError(f"the archive has {quoted} {how}")
        self._names[folded] = name
        source = entry.opened()
        if source is None:
            raise UploadRefusedError(f"the archive's entry {quoted} is not a plain file")
        path = self._folder / name
        path.parent.mkdir(exist_ok=True)
        with closing(source), path.open("xb") as file:
            self._copy(source, file, name)

    def _copy(self, source: IO[bytes], file: BinaryIO, name: str) -> None:
        size = 0
        while chunk := source.read(_CHUNK):
            size += len(chunk)
            self._bytes += len(chunk)
            if name == DESCRIPTOR and size > MAX_DESCRIPTOR_BYTES:
                raise UploadRefusedError(f"{DESCRIPTOR} has more than {MAX_DESCRIPTOR_BYTES:,} bytes")
            if self._bytes > self._max_bytes:
                raise UploadRefusedError(f"the archive unpacks to more than the {self._max_bytes:,} bytes an owner may keep")
            if self._bytes > _SMALL_BYTES and self._bytes > _MAX_RATIO * self._packed_bytes:
                raise UploadRefusedError(
                    f"the archive's {self._packed_bytes:,} bytes unpack to more than {self._bytes:,}: no pack shrinks like that"
                )
            file.write(chunk)


def _check_name(name: str, quoted: str) -> None:
    """Refuse a name that is not a name of a pack's files; common mistakes get their own reason."""
    first, *rest = parts = name.split("/")
    if name in _FILES:
        return
    if not first or ".." in parts or "\\" in name or ":" in first:
        raise UploadRefusedError(f"the archive's entry {quoted} leads out of the archive")
    if len(rest) == 1 and first == _RAW and _is_raw(rest[0]):
        return
    if parts[-1] in _FILES or (len(parts) > 1 and _RAW in parts[1:]) or not parts[-1]:
        files = ", ".join(_FILES[:2])
        raise UploadRefusedError(f"the archive's entry {quoted} is in a folder: {files} and similar files must be at its top")
    raise UploadRefusedError(f"the archive's entry {quoted} is not a file of a pack: {', '.join(_FILES)} and raw/* are")


def _is_raw(name: str) -> bool:
    return 0 < len(name.encode(errors="replace")) <= 255 and name.isprintable() and not name.startswith(".")
