"""Sums of points that are kept: computed once, and read by anyone as a partitioned dataset of Parquet files."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from pathlib import Path
from secrets import token_hex

import polars as pl

from clvlab.application.points.executors import sums_of_points
from clvlab.application.points.search import Params, Search, spelled
from clvlab.application.sheets.sums import FIXTURE_SUMS
from clvlab.law.schema import LAW_VERSION, Schema

# A row for each fixture in which decisions count. ``point`` is the name of the work, ``params`` its parameters as JSON.
POINT_SUMS: Schema = {"point": pl.String, "params": pl.String, **FIXTURE_SUMS}


class KeptSums:
    """A folder ``law=.../agent=.../pack=.../<point>.parquet`` of ``POINT_SUMS``.

    Parameters
    ----------
    folder
        Where the partitions stand; made when the first sums are kept.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, search: Search, params: Params) -> Path | None:
        """Return where the sums at a point are kept, null where its work has no name."""
        key = search.key(params)
        if key is None:
            return None
        pack = f"pack={search.content_hash.removeprefix('sha256:')[:16]}"
        return (
            self._folder / f"law={LAW_VERSION}" / f"agent={search.agent_name}" / pack / f"{key.removeprefix('sha256:')}.parquet"
        )

    def read(self, path: Path) -> pl.DataFrame | None:
        """Return the ``FIXTURE_SUMS`` of a path, null where there are none, or none that can be read."""
        if not path.is_file():
            return None
        try:
            found = pl.read_parquet(path, hive_partitioning=False)
        except (OSError, pl.exceptions.PolarsError):  # it is computed again, and written over
            return None
        return found.select(*FIXTURE_SUMS) if dict(found.schema) == POINT_SUMS else None

    def keep(self, path: Path, params: Params, sums: pl.DataFrame) -> None:
        """Keep the sums at a point."""
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{token_hex(8)}")
        sums.with_columns(point=pl.lit(path.stem), params=pl.lit(spelled(params))).select(*POINT_SUMS).write_parquet(unfinished)
        unfinished.replace(path)  # whole or not at all; after a power failure perhaps empty, and then computed again


def search_points(
    search: Search, points: Iterable[Params], count: int, *, executor: Executor | None = None, kept: KeptSums | None = None
) -> Iterator[pl.DataFrame]:
    """Yield ``FIXTURE_SUMS`` of each point, in their order: those that are kept as they are, the others computed and kept.

    Parameters
    ----------
    search
        What the points have in common.
    points
        Parameters of each, taken as they are needed.
    count
        How many points there are.
    executor
        Who computes; see ``sums_of_points``.
    kept
        Where sums are kept; nothing is kept without.

    Raises
    ------
    ExecutorError, ClvlabError
        As ``sums_of_points``. What was computed until then is kept: the same search goes on there.
    """
    if kept is None:
        yield from sums_of_points(search, points, count, executor)
        return
    waiting: deque[tuple[Params, Path | None, pl.DataFrame | None]] = deque()

    def missing() -> Iterator[Params]:
        for params in points:
            path = kept.path(search, params)
            found = None if path is None else kept.read(path)
            waiting.append((params, path, found))
            if found is None:
                yield params

    computed = sums_of_points(search, missing(), count, executor)
    for sums in computed:
        while (ready := waiting[0][2]) is not None:
            waiting.popleft()
            yield ready
        params, path, _ = waiting.popleft()
        if path is not None:
            kept.keep(path, params, sums)
        yield sums
    yield from (ready for *_, ready in waiting if ready is not None)
