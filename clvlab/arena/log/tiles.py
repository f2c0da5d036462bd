"""Export of a log as tiles, to a folder or a bucket: each export adds what is new, and the checkpoint comes last."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from clvlab.base.files import file_bytes_or_none, lock, replace_file
from clvlab.errors import LogError, RemoteMissingError
from clvlab.log.log import LogStore
from clvlab.log.note import checkpoint, open_note
from clvlab.log.tiles import WIDTH, Tile, restarts_json, tile_bytes, tiles_of
from clvlab.log.tree import tree_root
from clvlab.packs.remote.bucket import Address, Bucket, is_url

CHECKPOINT, RESTARTS = "checkpoint", "restarts.json"
_MAX_NOTE = 1 << 20


@dataclass(frozen=True, slots=True)
class TileExport:
    """What an export wrote: sizes of the exported log before and after, and the number of files."""

    before: int
    size: int
    files: int


class _Place(Protocol):
    def read(self, name: str) -> bytes | None: ...

    def write(self, name: str, content: bytes) -> None:
        """Write a file that never changes."""
        ...

    def publish(self, name: str, content: bytes) -> None:
        """Replace a file, after all written ones are there to stay."""
        ...

    def drop_parts(self, tile: Tile) -> None:
        """Remove the partial tiles of a full one, whose hashes or entries it has."""
        ...


@dataclass(frozen=True, slots=True)
class _Folder:
    path: Path

    def read(self, name: str) -> bytes | None:
        return file_bytes_or_none(self.path / name, _MAX_NOTE)

    def write(self, name: str, content: bytes) -> None:
        file = self.path / name
        new = file.with_name(f"{file.name}.new")
        try:
            new.write_bytes(content)
        except FileNotFoundError:
            file.parent.mkdir(parents=True, exist_ok=True)
            new.write_bytes(content)
        new.replace(file)  # a web server never sees half of it

    def publish(self, name: str, content: bytes) -> None:
        os.sync()  # one call for hundreds of files, of which the next one speaks
        replace_file(self.path / name, content)

    def drop_parts(self, tile: Tile) -> None:
        parts = self.path / f"{tile.path}.p"
        if parts.is_dir():
            shutil.rmtree(parts)


@dataclass(frozen=True, slots=True)
class _Objects:
    bucket: Bucket

    def read(self, name: str) -> bytes | None:
        try:
            return self.bucket.whole(name)
        except RemoteMissingError:
            return None

    def write(self, name: str, content: bytes) -> None:
        self.bucket.create_or_compare(name, content)

    def publish(self, name: str, content: bytes) -> None:
        self.bucket.replace(name, content)

    def drop_parts(self, tile: Tile) -> None:
        """Leave them, because a bucket is written to and never cleared."""


def export_tiles(log: LogStore, out: str, sign: Callable[[], str]) -> TileExport:
    """Write what a log has more than the tiles at ``out``, a folder or the URL of a bucket.

    ``sign`` returns the signed checkpoint to export. It is written last, so an interrupted export is continued by the next.

    Raises
    ------
    LogError
        The place has tiles of another log, or of entries that this log lacks.
    RemoteError
        The bucket can't be written.
    """
    if is_url(out):
        return _export(log, _Objects(Bucket(Address(out))), out, sign)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    with lock(folder):
        return _export(log, _Folder(folder), out, sign)


def _export(log: LogStore, place: _Place, out: str, sign: Callable[[], str]) -> TileExport:
    note = sign()
    state, kept = checkpoint(open_note(note)[0]), place.read(CHECKPOINT)
    before = None if kept is None else checkpoint(open_note(kept.decode(errors="replace"))[0])
    with log.read() as rows:
        if before is not None and (state.size < before.size or tree_root(rows, before.size) != before.root):
            raise LogError(
                f"{out!r} has the tiles of {before.size:,} entries of {before.origin!r}, which this log does not extend"
            )
        if state.size > rows.size() or tree_root(rows, state.size) != state.root:
            raise LogError(f"the checkpoint of {state.origin!r} at {state.size:,} entries is not of this log")
        since = 0 if before is None else before.size
        new = list(tiles_of(state.size, since))
        for tile in new:
            place.write(tile.path, tile_bytes(rows, tile))
        restarts = restarts_json(rows, state.size)
    files = len(new)
    for name, content in ((RESTARTS, restarts), (CHECKPOINT, note.encode())):
        if content and place.read(name) != content:
            place.publish(name, content)
            files += 1
    for tile in new:
        if tile.width == WIDTH and tile.first <= since:  # only the rightmost tile of each level was partial
            place.drop_parts(tile)
    return TileExport(since, state.size, files)
