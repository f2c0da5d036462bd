"""Where the files of a pack are: in a folder here, or wherever else something with these methods reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import polars as pl

from clvlab.errors import PackTamperedError
from clvlab.packs.files import file_sha256
from clvlab.packs.manifest import TICKS_FILE, Fixture
from clvlab.packs.rows import read_rows


class PackFiles(Protocol):
    """The files of one pack.

    Attributes
    ----------
    verification
        How the ticks are verified, in words, where that is not all of them before the pack is opened; else empty.
    """

    @property
    def verification(self) -> str: ...

    @property
    def folder(self) -> Path:
        """The folder that holds the files; ``UnsupportedError`` where they are not on this machine."""

    def ticks(self, fixtures: Sequence[Fixture] | None) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Read ``ROWS`` and ``SERIES`` of some fixtures, all by default."""

    def content(self, name: str, expected: str, what: str) -> bytes:
        """Read a file beside the ticks, which must have this SHA-256; errors call it ``what``."""


@dataclass(frozen=True)
class PackFolder:
    """The files of a pack in a folder, whose ticks were hashed when it was opened."""

    folder: Path
    verification: str = ""

    def ticks(self, fixtures: Sequence[Fixture] | None) -> tuple[pl.DataFrame, pl.DataFrame]:
        path = self.folder / TICKS_FILE
        file = pl.scan_parquet(path, glob=False)
        if fixtures is not None:
            ids = [
                fixture.fixture_id for fixture in fixtures
            ]  # by the range, row groups are passed over; by the list, they are not
            file = file.filter(pl.col("fixture_id").is_between(ids[0], ids[-1]) & pl.col("fixture_id").is_in(ids))
        return read_rows(file, str(path))

    def content(self, name: str, expected: str, what: str) -> bytes:
        self.check(name, expected, what)
        return (self.folder / name).read_bytes()

    def check(self, name: str, expected: str, what: str) -> None:
        """Raise ``PackTamperedError`` unless the file has that SHA-256."""
        path = self.folder / name
        found = file_sha256(path) if path.is_file() else "no file"
        if found != expected:
            raise PackTamperedError(what, expected, found)
