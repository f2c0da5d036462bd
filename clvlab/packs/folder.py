"""Access to a pack's files: in a local folder, or elsewhere by an object with the same methods."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import polars as pl

from clvlab.base.cache import BoundedCache
from clvlab.base.files import file_bytes
from clvlab.errors import FileError, PackFormatError, PackTamperedError
from clvlab.law.schema import BOOK_ROWS, Schema
from clvlab.packs.files import file_sha256
from clvlab.packs.manifest import BOOKS_FILE, LADDERS_FILE, TICKS_FILE, Fixture, PackManifest
from clvlab.packs.parquet import check_parquet
from clvlab.packs.rows import read_rows, unreadable

# Stamps of files show, without reading them, that they are unchanged.


_MOMENT_NS = 2_000_000_000  # coarser than any file system's clock

Stamps = tuple[tuple[int, ...], ...]


def stamps_of(paths: Sequence[Path]) -> Stamps | None:
    """Return stamps that change when files are written or replaced; ``None`` where a file is too new or can't be read.

    A change advances a file's ``ctime``, which can't be set back. Two changes in one moment share a ``ctime``, so a recent one
    proves nothing.
    """
    try:
        found = [path.stat() for path in paths]
    except OSError:  # opening the file raises the right error
        return None
    if time.time_ns() - max(one.st_ctime_ns for one in found) < _MOMENT_NS:
        return None
    return tuple((one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns) for one in found)


MAX_WHOLE_BYTES = 256 << 20  # limit of any other file of a pack, which is read at once
_SMALL_ROWS = 100_000  # up to this size rows are kept, as small selections are read again and again
_Ticks = tuple[pl.DataFrame, pl.DataFrame]


def _read(path: Path, ids: tuple[int, ...] | None) -> _Ticks:
    file = pl.scan_parquet(path, glob=False)
    return read_rows(file if ids is None else file.filter(_among(ids)), str(path))


def _among(ids: Sequence[int]) -> pl.Expr:
    """Select rows of some fixtures: by their range, so that row groups are skipped, and by the list."""
    known = pl.col("fixture_id")
    return known.is_between(ids[0], ids[-1]) & known.is_in(ids) if ids else pl.lit(value=False)


_KEPT: BoundedCache[_Ticks] = BoundedCache(32 << 20, lambda ticks: int(sum(frame.estimated_size() for frame in ticks)))


class PackFiles(Protocol):
    """The files of one pack; ``verification`` says how ticks are verified, and is empty if opening verifies them all."""

    @property
    def verification(self) -> str: ...

    @property
    def folder(self) -> Path:
        """The folder of the files; ``UnsupportedError`` where they are not on this machine."""

    def ticks(self, fixtures: Sequence[Fixture] | None) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Read ``ROWS`` and ``SERIES`` of some fixtures, all by default."""

    def books(self, fixtures: Sequence[Fixture] | None) -> pl.LazyFrame:
        """Return lazy ``BOOK_ROWS`` of some fixtures, all by default, of a pack that keeps them."""

    def ladders(self, fixtures: Sequence[Fixture] | None) -> pl.LazyFrame:
        """Return lazy ``LADDERS`` of some fixtures, all by default, of a pack that keeps them."""

    def content(self, name: str, expected: str, what: str) -> bytes:
        """Read any other file, which must have this SHA-256; errors call it ``what``."""


@dataclass(frozen=True)
class PackFolder:
    """The files of a pack in a folder; ticks, books and ladders are hashed before they are read, if they may have changed."""

    folder: Path
    manifest: PackManifest = field(repr=False, compare=False)
    verification: str = ""
    _hashed: dict[str, Stamps] = field(default_factory=dict, repr=False, compare=False)

    def ticks(self, fixtures: Sequence[Fixture] | None) -> tuple[pl.DataFrame, pl.DataFrame]:
        path, stamps = self.hashed(TICKS_FILE)
        ids = None if fixtures is None else tuple(fixture.fixture_id for fixture in fixtures)
        if fixtures is None or sum(fixture.rows for fixture in fixtures) > _SMALL_ROWS:
            return _read(path, ids)
        return _read(path, ids) if stamps is None else _KEPT.get((path, stamps, ids), lambda: _read(path, ids))

    def books(self, fixtures: Sequence[Fixture] | None) -> pl.LazyFrame:
        return self._layer(BOOKS_FILE, BOOK_ROWS, fixtures)

    def ladders(self, fixtures: Sequence[Fixture] | None) -> pl.LazyFrame:
        from clvlab.packs.ladders import LADDERS  # only a pack that keeps ladders loads them

        return self._layer(LADDERS_FILE, LADDERS, fixtures)

    def _layer(self, name: str, schema: Schema, fixtures: Sequence[Fixture] | None) -> pl.LazyFrame:
        path, _ = self.hashed(name)
        file = pl.scan_parquet(path, glob=False).select(*schema)
        return file if fixtures is None else file.filter(_among([fixture.fixture_id for fixture in fixtures]))

    def content(self, name: str, expected: str, what: str) -> bytes:
        self._check(name, expected, what)
        try:
            return file_bytes(self.folder / name, MAX_WHOLE_BYTES)
        except FileError as error:
            raise PackFormatError(str(error)) from error

    def hashed(self, name: str) -> tuple[Path, Stamps | None]:
        """Return the path and stamps of the file of ticks, books or ladders.

        Raises
        ------
        PackTamperedError
            The SHA-256 is not that of the manifest.
        PackFormatError
            The file is no Parquet, or unpacks to too much.
        """
        own = self.manifest
        expected = {TICKS_FILE: own.ticks_sha256, BOOKS_FILE: own.books_sha256, LADDERS_FILE: own.ladders_sha256}
        path = self.folder / name
        stamps = stamps_of([path])
        if stamps is None or self._hashed.get(name) != stamps:
            self._check(name, str(expected[name]), f"{name} of {self.manifest.pack_id!r}")
            try:
                check_parquet(path)
            except unreadable() as error:
                raise PackFormatError(f"{str(path)!r} can't be read as {path.stem}: {str(error).splitlines()[0]}") from error
            if stamps is not None:
                self._hashed[name] = stamps
        return path, stamps

    def _check(self, name: str, expected: str, what: str) -> None:
        path = self.folder / name
        found = file_sha256(path) if path.is_file() else "no file"
        if found != expected:
            raise PackTamperedError(what, expected, found)
