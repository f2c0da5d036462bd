"""A log as tiles: plain files of hashes and entries that any host can serve.

References
----------
C2SP ``tlog-tiles``: hashes and entries stand in files of up to 256, and a file that is full never changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from clvlab.errors import LogError
from clvlab.law.schema import SAFE_INTEGER
from clvlab.log.log import LogRows
from clvlab.proof.canonical import canonical
from clvlab.proof.merkle import leaf_hash, root

WIDTH = 256
_HASH_BYTES = 32
_MAX_ENTRY = (1 << 16) - 1
_PATH = re.compile(r"tile/(entries|0|[1-9][0-9]?)/((?:x[0-9]{3}/){0,5}[0-9]{3})(?:\.p/([1-9][0-9]{0,2}))?")


@dataclass(frozen=True, slots=True)
class Tile:
    """A file of ``width`` hashes of a level, or of entries (``level`` ``None``), from number ``256 * index`` on."""

    level: int | None
    index: int
    width: int = WIDTH

    @property
    def path(self) -> str:
        number = f"{self.index % 1000:03}"
        rest = self.index // 1000
        while rest:
            number, rest = f"x{rest % 1000:03}/{number}", rest // 1000
        part = "" if self.width == WIDTH else f".p/{self.width}"
        return f"tile/{'entries' if self.level is None else self.level}/{number}{part}"

    @property
    def first(self) -> int:
        return self.index * WIDTH

    @property
    def size(self) -> int:
        """Size of the smallest log that has this tile."""
        return (self.first + self.width) << 8 * (self.level or 0)

    @classmethod
    def parse(cls, path: str) -> Tile | None:
        """Read a path; ``None`` unless it is exactly one that ``path`` writes, of a log of at most 2**53 - 1 entries."""
        found = _PATH.fullmatch(path)
        if found is None:
            return None
        level = None if found[1] == "entries" else int(found[1])
        tile = cls(level, int(re.sub("[x/]", "", found[2])), int(found[3] or WIDTH))
        return tile if tile.path == path and (level or 0) < 8 and tile.size <= SAFE_INTEGER else None


def tiles_of(size: int, since: int = 0) -> Iterator[Tile]:
    """Yield the tiles of a log of ``size`` entries that the log of ``since`` entries does not have, lowest level first."""
    level = 0
    while size:
        for index in range(since // WIDTH, -(-size // WIDTH)):
            width = min(WIDTH, size - index * WIDTH)
            if index * WIDTH + width > since:
                if level == 0:
                    yield Tile(None, index, width)
                yield Tile(level, index, width)
        level, size, since = level + 1, size // WIDTH, since // WIDTH


def tile_bytes(rows: LogRows, tile: Tile) -> bytes:
    """Return the content of a tile that the log has."""
    if tile.level is not None:
        return b"".join(rows.nodes(8 * tile.level, tile.first, tile.width))
    entries = rows.page(tile.first, tile.width)
    for index, entry in entries:
        if len(entry) > _MAX_ENTRY:
            raise LogError(f"entry {index} has {len(entry):,} bytes, a file of entries takes {_MAX_ENTRY:,}")
    return b"".join(len(entry).to_bytes(2, "big") + entry for _, entry in entries)


def restarts_json(rows: LogRows, size: int) -> bytes:
    """Return the list of restarts among the first entries, which a reader needs before them; empty without one."""
    found = [{"entry": entry.decode(), "index": index} for index, entry in rows.restarts() if index < size]
    return canonical(found) if found else b""


def entries_in(content: bytes, tile: Tile) -> list[bytes]:
    """Read the entries of a bundle; ``LogError`` unless it has exactly as many as its path says."""
    found, at = list[bytes](), 0
    while at < len(content):
        start = at + 2
        at = start + int.from_bytes(content[at:start], "big")
        found.append(content[start:at])
    if at != len(content) or len(found) != tile.width:
        cut = "is cut off" if at != len(content) else f"has {len(found)} entries, not {tile.width}"
        raise LogError(f"the file of entries {tile.path} {cut}")
    return found


@dataclass
class TileCheck:
    """Compares each tile of a log of ``size`` entries with the hashes of the entries, from the first one on.

    ``faults`` name the tiles that differ: the number of the first entry that a wrong hash covers, and a sentence.
    """

    size: int
    faults: list[tuple[int, str]] = field(default_factory=list)
    _levels: list[list[bytes]] = field(default_factory=lambda: [[]])
    _done: list[int] = field(default_factory=lambda: [0])

    def add(self, entries: Sequence[bytes]) -> Iterator[tuple[Tile, list[bytes]]]:
        """Take the entries of one bundle, and yield the tiles that they complete with their hashes."""
        yield from self._rise(0, [leaf_hash(entry) for entry in entries])

    def _rise(self, level: int, hashes: Sequence[bytes]) -> Iterator[tuple[Tile, list[bytes]]]:
        if len(self._levels) == level:
            self._levels.append([])
            self._done.append(0)
        pending = self._levels[level]
        pending.extend(hashes)
        index = self._done[level]
        if len(pending) == WIDTH or (pending and index * WIDTH + len(pending) == self.size // WIDTH**level):
            self._levels[level], self._done[level] = [], index + 1
            yield Tile(level, index, len(pending)), pending
            if len(pending) == WIDTH:
                yield from self._rise(level + 1, [root(pending)])

    def compare(self, tile: Tile, content: bytes, hashes: Sequence[bytes]) -> None:
        """Record a fault if a tile's content is not these hashes."""
        if content == b"".join(hashes):
            return
        found = [content[at : at + _HASH_BYTES] for at in range(0, len(content), _HASH_BYTES)]
        which = next((number for number, one in enumerate(hashes) if found[number : number + 1] != [one]), len(hashes))
        covered = WIDTH ** (tile.level or 0)
        entry = (tile.first + which) * covered
        what = f"entry {entry}" if covered == 1 else f"entries {entry} to {entry + covered - 1}"
        self.faults.append((entry, f"the tile {tile.path} does not have the hash of {what}"))
