"""Stored sums of points: computed once, and readable as a partitioned dataset of Parquet files.

A digest in a file's own metadata covers all its bytes (with zeros in its place) after the name of its owner. So another owner's
file, an edit or a damaged disk is found before anything is parsed. It is not a seal: any writer to the folder can compute it.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from contextlib import suppress
from io import BytesIO
from itertools import islice, product
from pathlib import Path
from secrets import token_hex

import polars as pl

from clvlab.agents.template import Params
from clvlab.base.files import file_bytes
from clvlab.errors import FileError
from clvlab.law.schema import LAW_VERSION, Schema
from clvlab.proof.canonical import sha256
from clvlab.runs.search.scorer import Task, sums_of_tasks
from clvlab.runs.search.search import Search, params_text
from clvlab.statistics.measures import FIXTURE_SUMS

# A row per fixture with counted decisions. ``point`` is the name of the work, ``params`` its parameters as JSON.
POINT_SUMS: Schema = {"point": pl.String, "params": pl.String, **FIXTURE_SUMS}

_HELD = 1_000_000  # rows of sums that wait for those of other shards
_REVISION = "2"  # of the measures: with another one, kept sums are not those of a search, and are made again
_KEY = "clvlab.derived.digest"
_BLANK = f"sha256:{'0' * 64}".encode()
_VALUE_AT = len(_KEY) + 2  # Thrift's compact protocol puts a field's type and the length of a short text before it
_MAGIC = b"PAR1"


class KeptSums:
    """A folder ``law=.../agent=.../pack=.../<point>.parquet`` of ``POINT_SUMS``, made when the first sums are kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, search: Search, params: Params) -> Path | None:
        """Return the path of a point's sums, ``None`` where its work has no name."""
        key = search.key(params)
        if key is None:
            return None
        pack = f"pack={search.content_hash.removeprefix('sha256:')[:16]}"
        return (
            self._folder / f"law={LAW_VERSION}" / f"agent={search.agent_name}" / pack / f"{key.removeprefix('sha256:')}.parquet"
        )

    def read(self, path: Path) -> pl.DataFrame | None:
        """Return the ``FIXTURE_SUMS`` of a path, ``None`` without valid ones."""
        found = read_derived(path, self._owner(path))
        return None if found is None or dict(found.schema) != POINT_SUMS else found.select(*FIXTURE_SUMS)

    def keep(self, path: Path, params: Params, sums: pl.DataFrame) -> None:
        """Keep the sums of a point; a warning if they can't be, as the search needs them only once."""
        unfinished = path.with_name(f".{token_hex(8)}")
        rows = sums.with_columns(point=pl.lit(path.stem), params=pl.lit(params_text(params))).select(*POINT_SUMS)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(derived_file(rows, self._owner(path)))
            unfinished.replace(path)  # whole or not at all; after a power failure perhaps empty, and then computed again
        except OSError as error:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            warnings.warn(f"the sums of a search are not kept in {str(self._folder)!r}: {error.strerror}", stacklevel=2)

    def _owner(self, path: Path) -> str:
        return f"{_REVISION}/{path.relative_to(self._folder).as_posix()}"


def search_points(
    search: Search, points: Iterable[Params], count: int, *, executor: Executor | None = None, kept: KeptSums | None = None
) -> Iterator[pl.DataFrame]:
    """Yield ``FIXTURE_SUMS`` of each point in order: kept ones as they are, the others computed and kept."""
    parts, left, sizes = search.parts, iter(points), deque[int]()
    at_once = 1 if len(parts) == 1 else max(1, _HELD // len(search.fixture_ids))

    def tasks() -> Iterator[Task]:
        while some := tuple(islice(left, at_once)):
            sizes.append(len(some))
            yield from product(parts, some)  # all points of a shard, then of the next: a tape is read once for many points

    found = _sums(tasks(), count * len(parts), executor, kept)
    for first in found:
        size = sizes.popleft()
        each = [first, *islice(found, size * len(parts) - 1)]
        yield from (pl.concat(each[number::size]) for number in range(size))


def _sums(tasks: Iterator[Task], count: int, executor: Executor | None, kept: KeptSums | None) -> Iterator[pl.DataFrame]:
    if kept is None:
        yield from sums_of_tasks(tasks, count, executor)
        return
    waiting: deque[tuple[Params, Path | None, pl.DataFrame | None]] = deque()

    def missing() -> Iterator[Task]:
        for search, params in tasks:
            path = kept.path(search, params)
            found = None if path is None else kept.read(path)
            waiting.append((params, path, found))
            if found is None:
                yield search, params

    for sums in sums_of_tasks(missing(), count, executor):
        while (ready := waiting[0][2]) is not None:
            waiting.popleft()
            yield ready
        params, path, _ = waiting.popleft()
        if path is not None:
            kept.keep(path, params, sums)
        yield sums
    yield from (ready for *_, ready in waiting if ready is not None)


def derived_file(frame: pl.DataFrame, owner: str) -> bytes:
    file = BytesIO()
    frame.write_parquet(file, metadata={_KEY: _BLANK.decode()})
    content = file.getvalue()
    start = content.rindex(_KEY.encode()) + _VALUE_AT
    return _filled(content, start, _digest(content, owner))


def read_derived(path: Path, owner: str) -> pl.DataFrame | None:
    """Read an owner's file; ``None``, with a warning if it is another's or damaged, without one if it is missing or older."""
    try:
        content = file_bytes(path)
        key = content.rfind(_KEY.encode())
        if key < 0 and content.startswith(_MAGIC) and content.endswith(_MAGIC):
            return None
        start = key + _VALUE_AT
        stated = content[start : start + len(_BLANK)]
        if key >= 0 and stated == _digest(_filled(content, start, _BLANK), owner):
            return pl.read_parquet(content, hive_partitioning=False)
    except FileNotFoundError:
        return None
    except (OSError, FileError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        pass  # reported below: it is derived again
    warnings.warn(f"{str(path)!r} is not as it was written, or belongs to something else: it is computed again", stacklevel=2)
    return None


def _digest(content: bytes, owner: str) -> bytes:
    return sha256(owner.encode() + b"\n" + content).encode()


def _filled(content: bytes, start: int, value: bytes) -> bytes:
    return content[:start] + value + content[start + len(value) :]
