"""Fixtures that were read from elsewhere, kept on this machine under the digest of their ticks."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

import polars as pl
import pyarrow.parquet as pq

from clvlab.errors import FileError, MissingExtraError, SettingsError
from clvlab.packs.parquet import check_parquet
from clvlab.packs.rows import UNREADABLE, stored_frame

LIMIT_BYTES = 4 << 30
_HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class Cache:
    """A folder of fixtures, the least recently used of which go once it holds more than its limit.

    Any number of processes may share it: a file appears whole, and who reads a fixture checks it against its digest, so that a
    damaged one is as good as none.
    """

    folder: Path
    limit_bytes: int = LIMIT_BYTES

    def read(self, digest: str) -> pl.DataFrame | None:
        """Return the ticks that are kept under a digest, unverified; null without any that can be read."""
        path = self._path(digest)
        try:
            check_parquet(path)
            frame = stored_frame(pq.read_table(path, partitioning=None))
            os.utime(path)
        except UNREADABLE:  # not there, gone a moment ago, or damaged: it is read anew
            return None
        return frame

    def keep(self, digest: str, ticks: pl.DataFrame) -> None:
        """Keep the ticks of a fixture.

        Raises
        ------
        FileError
            The folder can't be written to.
        """
        if not self.limit_bytes:
            return
        path = self._path(digest)
        unfinished = path.with_name(f".{token_hex(8)}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(ticks.to_arrow(), unfinished, compression="zstd")
            unfinished.replace(path)
        except OSError as error:
            raise FileError(
                f"fixtures can't be kept in {str(self.folder)!r}: {error.strerror}; name another folder in CLVLAB_CACHE, "
                "or keep none with CLVLAB_CACHE_BYTES=0"
            ) from error

    def trim(self) -> None:
        """Remove what was used least recently, until the limit holds."""
        used = sorted(self._files())
        total = sum(size for _, size, _ in used)
        for _, size, path in used:
            if total <= self.limit_bytes:
                break
            path.unlink(missing_ok=True)
            total -= size

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        """Yield when each file was used last, its size and path; what a process is just writing is let be."""
        for path in self.folder.glob("fixtures/*"):
            try:
                found = path.stat()
            except FileNotFoundError:  # another process removed it
                continue
            if not path.name.startswith(".") or found.st_mtime < time.time() - _HOUR_S:
                yield found.st_mtime, found.st_size, path

    def _path(self, digest: str) -> Path:
        return self.folder / "fixtures" / f"{digest.removeprefix('sha256:')}.parquet"


def cache_of_environment() -> Cache:
    """Return the cache that ``CLVLAB_CACHE`` and ``CLVLAB_CACHE_BYTES`` name, by default in the platform's folder for caches.

    Raises
    ------
    SettingsError
        A size that is no whole number of bytes.
    """
    size = os.environ.get("CLVLAB_CACHE_BYTES", str(LIMIT_BYTES))
    if not size.isdecimal():
        raise SettingsError(f"CLVLAB_CACHE_BYTES must be a whole number of bytes, not {size!r}")
    named = os.environ.get("CLVLAB_CACHE")
    if named:
        return Cache(Path(named), int(size))
    try:
        from platformdirs import user_cache_path
    except ModuleNotFoundError as error:
        raise MissingExtraError("remote", error.name) from error
    return Cache(user_cache_path("clvlab", appauthor=False), int(size))
