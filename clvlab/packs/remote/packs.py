"""Opening, listing and downloading remote packs."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from secrets import token_hex

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from clvlab.base.files import StagingPath, flush, flush_all
from clvlab.base.invocation import command
from clvlab.base.progress import each
from clvlab.errors import (
    FileError,
    MissingExtraError,
    PackError,
    PackFormatError,
    PackTamperedError,
    RemoteConflictError,
    RemoteMissingError,
    SettingsError,
    UnknownPackError,
    UnsupportedError,
)
from clvlab.law.schema import BOOK_ROWS, FIXTURES, Schema, conform
from clvlab.law.tape import Binding, Tape
from clvlab.packs import invariants
from clvlab.packs.files import fixture_digests
from clvlab.packs.folder import MAX_WHOLE_BYTES, PackFolder
from clvlab.packs.ladders import LADDERS
from clvlab.packs.manifest import (
    BOOKS_FILE,
    DESCRIPTOR,
    LADDERS_FILE,
    TICKS_FILE,
    Fixture,
    PackManifest,
    pack_files,
    parse_manifest,
)
from clvlab.packs.parquet import MAX_FOOTER_BYTES, Chunk, check_chunks, check_parquet, row_groups
from clvlab.packs.reader import Pack
from clvlab.packs.remote.bucket import Address, Bucket, Version
from clvlab.packs.rows import STORED, read_rows, stored_frame, unreadable
from clvlab.packs.verification import verify_pack
from clvlab.proof.canonical import sha256

# Ticks of single fixtures of a remote pack, each verified by its digest as it is read. 1. The cache gives the fixtures that it
# has. 2. The footer of the Parquet file locates the row groups of the others, as fixtures are stored in order. 3. A fixture
# without its stated digest is refused; sound fixtures of the row groups are cached.


# Cached fixtures, stored under the digest of their ticks.


LIMIT_BYTES = 4 << 30
_HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class Cache:
    """A folder of fixtures; the least recently used are removed once it exceeds its limit.

    Any number of processes may share it: a file appears whole, and readers check a fixture against its digest, so a damaged one
    counts as missing.
    """

    folder: Path
    limit_bytes: int = LIMIT_BYTES

    def read(self, digest: str) -> pl.DataFrame | None:
        path = self._path(digest)
        try:
            check_parquet(path)
            frame = stored_frame(pq.read_table(path, partitioning=None))
            os.utime(path)
        except unreadable():  # missing, just removed, or damaged: it is read again
            return None
        return frame

    def keep(self, digest: str, ticks: pl.DataFrame) -> None:
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
        used = sorted(self._files())
        total = sum(size for _, size, _ in used)
        for _, size, path in used:
            if total <= self.limit_bytes:
                break
            path.unlink(missing_ok=True)
            total -= size

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        """Yield last use, size and path of each file, except files that are being written."""
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
    """Return the cache of ``CLVLAB_CACHE`` and ``CLVLAB_CACHE_BYTES``, by default in the platform's cache folder.

    Raises
    ------
    SettingsError
        The size is not a whole number of bytes.
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


_TAIL_BYTES = 64 << 10  # the footer of some fifty row groups
_AT_ONCE = 8
_MAGIC = b"PAR1"


@dataclass(frozen=True)
class RemoteFiles:
    bucket: Bucket
    manifest: PackManifest = field(repr=False)
    cache: Cache = field(repr=False)
    verification: str = "fixtures verified as they are read"

    @property
    def folder(self) -> Path:
        raise UnsupportedError(
            f"pack {self.manifest.pack_id!r} is read from {self.bucket.address}, and this needs it in a folder: "
            f"{command('packs', 'pull', self.bucket.address, '--out', 'FOLDER')}"
        )

    def content(self, name: str, expected: str, what: str) -> bytes:
        content = self.bucket.whole(name)
        if sha256(content) != expected:
            raise PackTamperedError(f"{what} at {self.bucket.address}", expected, sha256(content))
        return content

    def books(self, fixtures: Sequence[Fixture] | None) -> pl.LazyFrame:
        return self._layer(BOOKS_FILE, BOOK_ROWS, str(self.manifest.books_sha256), fixtures)

    def ladders(self, fixtures: Sequence[Fixture] | None) -> pl.LazyFrame:
        return self._layer(LADDERS_FILE, LADDERS, str(self.manifest.ladders_sha256), fixtures)

    def _layer(self, name: str, schema: Schema, digest: str, fixtures: Sequence[Fixture] | None) -> pl.LazyFrame:
        ids = [fixture.fixture_id for fixture in (self.manifest.fixtures if fixtures is None else fixtures)]
        return pl.defer(partial(self._whole, name, schema, digest), schema=schema).filter(pl.col("fixture_id").is_in(ids))

    def _whole(self, name: str, schema: Schema, digest: str) -> pl.DataFrame:
        """Read a layer of every fixture: the manifest has one hash for its file."""
        content = self.content(name, digest, f"{name} of {self.manifest.pack_id!r}")
        try:
            check_parquet(content)
            return conform(pl.read_parquet(content), schema, name)
        except unreadable() as error:
            raise PackFormatError(f"{name} in {self.bucket.address} can't be read: {error}") from error

    def ticks(self, fixtures: Sequence[Fixture] | None) -> tuple[pl.DataFrame, pl.DataFrame]:
        wanted = self.manifest.fixtures if fixtures is None else fixtures
        found = self._sound(self._kept(wanted), wanted)
        missing = [fixture for fixture in wanted if fixture.fixture_id not in found]
        if missing:
            found |= self._read(missing)
        for fixture in wanted:
            what = f"fixture {fixture.fixture_id} of {self.manifest.pack_id!r} at {self.bucket.address}"
            if fixture.fixture_id not in found:
                raise PackTamperedError(what, str(fixture.digest), "other ticks")
            if found[fixture.fixture_id].height != fixture.rows:
                raise PackTamperedError(f"rows of {what}", str(fixture.rows), str(found[fixture.fixture_id].height))
        tape = self._tape([found[fixture.fixture_id] for fixture in wanted], wanted)
        try:
            invariants.check_order(tape, self.manifest.pack_id)
            invariants.check(tape)
        except PackFormatError as error:
            error.add_note(f"in {self._where}")
            raise
        return tape.rows, tape.series

    def _kept(self, wanted: Iterable[Fixture]) -> list[pl.DataFrame]:
        """Return the cached ticks with their fixture ids set: a digest covers no id."""
        found = [(fixture.fixture_id, self.cache.read(fixture.digest)) for fixture in wanted if fixture.digest]
        return [frame.with_columns(fixture_id=pl.lit(number, pl.Int64)) for number, frame in found if frame is not None]

    def _read(self, missing: Sequence[Fixture]) -> dict[int, pl.DataFrame]:
        ids = {fixture.fixture_id for fixture in missing}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            frames = list(pool.map(self._group, self._groups(ids)))
        ids.update(number for frame in frames for number in frame["fixture_id"].unique())
        found = self._sound(frames, [fixture for fixture in self.manifest.fixtures if fixture.fixture_id in ids])
        for fixture in self.manifest.fixtures:
            if fixture.digest and fixture.rows and fixture.fixture_id in found:
                self.cache.keep(fixture.digest, found[fixture.fixture_id])
        self.cache.trim()
        return found

    def _sound(self, frames: Sequence[pl.DataFrame], fixtures: Sequence[Fixture]) -> dict[int, pl.DataFrame]:
        """Return the ticks of fixtures that have their digest, also of fixtures without ticks."""
        empty = pl.DataFrame(schema=STORED)
        ticks = pl.concat([empty, *frames])
        nameless = ticks.filter(pl.any_horizontal(pl.col("market_key", "side").is_null()))["fixture_id"]
        ticks = ticks.filter(~pl.col("fixture_id").is_in(nameless.unique().implode()))
        by_id = {key[0]: frame for key, frame in ticks.partition_by("fixture_id", as_dict=True).items()}
        chosen = [by_id.get(fixture.fixture_id, empty) for fixture in fixtures]
        digests = fixture_digests(self._tape(chosen, fixtures))
        pairs = zip(fixtures, chosen, strict=True)
        return {fixture.fixture_id: frame for fixture, frame in pairs if digests[fixture.fixture_id] == fixture.digest}

    def _tape(self, frames: Sequence[pl.DataFrame], fixtures: Sequence[Fixture]) -> Tape:
        rows, series = read_rows(pl.concat([pl.DataFrame(schema=STORED), *frames]).lazy(), self._where)
        kickoffs = [(fixture.fixture_id, fixture.kickoff_ts_ms) for fixture in fixtures]
        ids = tuple(fixture.fixture_id for fixture in fixtures)
        return Tape(Binding(None, ids, None), rows, series, pl.DataFrame(kickoffs, schema=FIXTURES, orient="row"))

    @property
    def _where(self) -> str:
        return f"{self.bucket.address}/{TICKS_FILE}"

    @cached_property
    def _footer(self) -> tuple[pq.FileMetaData, list[list[Chunk]], Version]:
        tail, version = self.bucket.tail(TICKS_FILE, _TAIL_BYTES)
        length = int.from_bytes(tail[-8:-4], "little") + 8
        if tail[-4:] != _MAGIC or length > min(version.size, MAX_FOOTER_BYTES):
            raise PackFormatError(f"{self._where!r} is no Parquet file")
        if length > len(tail):
            tail = self.bucket.part(TICKS_FILE, version.size - length, version.size, version)
        try:
            return pq.read_metadata(pa.BufferReader(tail)), row_groups(tail[-length:-8]), version
        except unreadable() as error:
            raise PackFormatError(f"{self._where!r} can't be read as ticks: {error}") from error

    def _groups(self, ids: Collection[int]) -> list[int]:
        """Return the row groups with rows of the fixtures, by the order of storage.

        Parquet statistics are not used: pyarrow ends the process where they are damaged.
        """
        metadata, found, start = self._footer[0], [], 0
        ends = accumulate(fixture.rows for fixture in self.manifest.fixtures)
        spans = [(end - own.rows, end) for own, end in zip(self.manifest.fixtures, ends, strict=True) if own.fixture_id in ids]
        for number in range(metadata.num_row_groups):
            end = start + metadata.row_group(number).num_rows
            if any(first < end and start < last for first, last in spans):
                found.append(number)
            start = end
        return found

    def _group(self, number: int) -> pl.DataFrame:
        """Read one row group, whose columns are adjacent, with one request."""
        metadata, chunks, version = self._footer
        try:
            start = min((chunk.start for chunk in chunks[number]), default=0)
            end = max((chunk.end for chunk in chunks[number]), default=0)
            if not 0 <= start < end <= min(version.size, start + MAX_WHOLE_BYTES):
                raise PackFormatError(f"row group {number} of {self._where!r} is said to lie at bytes {start:,} to {end:,}")
            content = self.bucket.part(TICKS_FILE, start, end, version)
            check_chunks(chunks[number], content, start)
            file = _Part(content, start, version.size)
            table = pq.ParquetFile(file, metadata=metadata, pre_buffer=True).read_row_group(number, columns=list(STORED))
            frame = stored_frame(table)
        except unreadable() as error:
            raise PackFormatError(f"{self._where!r} can't be read as ticks: {error}") from error
        if frame is None:
            raise PackFormatError(f"{self._where!r} has other columns than ticks: {table.schema.names}")
        return frame


class _Part(io.RawIOBase):
    """The ticks file for pyarrow, of which only one part was read."""

    def __init__(self, content: bytes, start: int, size: int) -> None:
        self._content, self._start, self._size, self._at = content, start, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        first, last = self._at - self._start, self._at - self._start + size
        if not 0 <= first <= last <= len(self._content):
            raise OSError(f"{size} bytes from {self._at} on lie outside the row group")
        self._at += size
        return self._content[first:last]


def open_remote(url: str, content_hash: str | None = None) -> Pack:
    """Open a pack at a URL: its descriptor is read now, each fixture when a tape is requested.

    Any ``content_hash`` is accepted by default.
    """
    return _opened(Bucket(Address(url)), content_hash)


def _opened(bucket: Bucket, content_hash: str | None = None) -> Pack:
    manifest, stated = _manifest(bucket)
    if content_hash is not None and stated != content_hash:
        raise PackTamperedError(f"content_hash of {manifest.pack_id!r} at {bucket.address}", content_hash, stated)
    return Pack(RemoteFiles(bucket, manifest, cache_of_environment()), manifest, stated)


def _manifest(bucket: Bucket) -> tuple[PackManifest, str]:
    try:
        content = bucket.whole(DESCRIPTOR)
    except RemoteMissingError as error:
        raise UnknownPackError(f"no pack: {error}") from error
    manifest, stated = parse_manifest(content, f"{bucket.address}/{DESCRIPTOR}")
    if manifest.content_hash != stated:
        raise PackTamperedError(f"content_hash of {manifest.pack_id!r} at {bucket.address}", stated, manifest.content_hash)
    return manifest, stated


def packs_at(url: str) -> list[tuple[str, Pack]]:
    """Open the packs one level under a URL, by their URLs; folders without a sound descriptor are left out."""
    bucket, found = Bucket(Address(url)), []
    for name in bucket.folders():
        place = Bucket(bucket.address.under(name))
        try:
            found.append((str(place.address), _opened(place)))
        except PackError:  # other objects, or a pack that is being pushed; ``packs verify`` says what is wrong
            continue
    return found


def pull_pack(url: str, folder: Path, content_hash: str | None = None) -> Pack:
    """Download a pack to a new folder, and verify it in full before it is put in place."""
    if folder.exists() or folder.is_symlink():
        raise PackFormatError(f"{str(folder)!r} exists; a pack is never overwritten")
    pack = open_remote(url, content_hash)
    bucket = Bucket(Address(url))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with StagingPath(folder.parent, 0o777) as unfinished:
        for name in (*pack_files(pack.manifest), DESCRIPTOR):
            path = unfinished / name
            path.parent.mkdir(exist_ok=True)
            with path.open("wb") as file:
                for part in bucket.parts(name):
                    file.write(part)
        found = verify_pack(unfinished)
        if found.content_hash != pack.content_hash:
            raise PackTamperedError(
                f"content_hash of {pack.pack_id!r} at {bucket.address}", pack.content_hash, found.content_hash
            )
        flush_all(unfinished)
        unfinished.rename(folder)
    flush(folder.parent)
    return Pack(PackFolder(folder, found.manifest), found.manifest, found.content_hash)


# Packs and runs are written to a bucket, where nothing is ever overwritten.


def push_pack(folder: Path, url: str) -> Pack:
    """Verify a pack in full and upload it: the descriptor last, so that an incomplete pack does not count as one.

    Uploading the same content again succeeds, also from several machines at once.

    Raises
    ------
    PackFormatError, PackTamperedError
        The folder is not a sound pack.
    RemoteConflictError
        Another pack or a file of one exists there, and was left unchanged.
    RemoteError
        The URL can't be written to.
    """
    bucket, pack = Bucket(Address(url)), verify_pack(folder)
    if _is_there(pack, bucket):
        return pack
    names = pack_files(pack.manifest)
    for name in each("uploading files", names, len(names)):
        bucket.create_or_compare(name, folder / name)
    if not bucket.create(DESCRIPTOR, folder / DESCRIPTOR):  # another process was first
        _is_there(pack, bucket)
    return pack


def _is_there(pack: Pack, bucket: Bucket) -> bool:
    try:
        there = open_remote(bucket.address.url)
    except UnknownPackError:
        return False
    if there.content_hash != pack.content_hash:
        raise RemoteConflictError(
            f"{bucket.address} holds the pack {there.pack_id!r} of {there.content_hash}, and this one, {pack.pack_id!r}, is of "
            f"{pack.content_hash}: nothing was written"
        )
    return True


def push_files(files: Mapping[str, bytes], url: str) -> None:
    """Upload files in order; an existing one must have the same bytes."""
    bucket = Bucket(Address(url))
    for name, content in each("uploading files", files.items(), len(files)):
        bucket.create_or_compare(name, content)
