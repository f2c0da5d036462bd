"""Shards: whole neighbouring fixtures that are read together; fixed by the pack, never by who reads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from clvlab.packs.manifest import Fixture

ROW_BYTES = 25  # of a tick in memory
SHARD_ROWS = 1 << 18  # small, as every process of a search holds one; a run reads two together


def shards_of(fixtures: Iterable[Fixture], together: int = 1) -> Iterator[tuple[Fixture, ...]]:
    """Cut the fixtures of a pack into shards of at most ``SHARD_ROWS`` rows, or of one fixture that has more.

    Parameters
    ----------
    fixtures
        All fixtures of the pack, in their order.
    together
        How many times as large shards may be.
    """
    shard: list[Fixture] = []
    rows = 0
    for fixture in fixtures:
        if shard and rows + fixture.rows > together * SHARD_ROWS:
            yield tuple(shard)
            shard, rows = [], 0
        shard.append(fixture)
        rows += fixture.rows
    yield tuple(shard)
