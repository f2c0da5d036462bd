"""Digests of what a pack says, not of how Parquet stored it: the same ticks give the same hash under every writer."""

from __future__ import annotations

import hashlib
import struct
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import polars as pl

from clvlab.law.tape import Tape
from clvlab.proof.canonical import canonical, sha256

NO_PRICE = -1
_FIXTURES_AT_ONCE = 6
_ROWS_AT_ONCE = 16_384


def fixture_digests(tape: Tape) -> dict[int, str]:
    """Digest every fixture's series table and columns; the byte layout stands in ``docs/reference/pack-format.md``.

    Returns
    -------
    dict
        fixture_id -> ``sha256:<hex>``, also for fixtures without ticks.
    """
    spans = tape.series.group_by("fixture_id").agg(
        pl.first("start"), end=pl.first("start") + pl.sum("rows"), names=pl.concat_list("market_key", "side")
    )
    fixtures = tape.fixtures.select("fixture_id").join(spans, on="fixture_id", how="left", maintain_order="left")
    at_once = max(_FIXTURES_AT_ONCE, fixtures.height * _ROWS_AT_ONCE // max(tape.rows.height, 1))  # small ones are no work
    slices = list(fixtures.iter_slices(at_once))
    if len(slices) < 2:
        return dict(chain.from_iterable(map(partial(_digests, tape), slices)))
    with ThreadPoolExecutor() as pool:  # hashlib and Polars work outside the interpreter's lock
        return dict(chain.from_iterable(pool.map(partial(_digests, tape), slices)))


def _digests(tape: Tape, fixtures: pl.DataFrame) -> list[tuple[int, str]]:
    """Digest a few neighbouring fixtures: no column is ever copied whole, and what is converted stays in the cache."""
    first, last = fixtures.select(pl.min("start"), pl.max("end")).fill_null(0).row(0)
    columns = _columns(tape.rows.slice(first, last - first))
    digests = []
    for fixture_id, start, end, names in fixtures.iter_rows():
        hasher = hashlib.sha256(struct.pack("<I", len(names or ())))
        for name in (text.encode() for series in names or () for text in series):
            hasher.update(struct.pack("<I", len(name)) + name)
        numbers, *others = (column[(start or first) - first : (end or first) - first] for column in columns)
        hasher.update((numbers - numbers[:1]).data)  # series count from 0 within the fixture
        for column in others:
            hasher.update(column.data)
        digests.append((fixture_id, "sha256:" + hasher.hexdigest()))
    return digests


def _columns(rows: pl.DataFrame) -> list[np.ndarray[Any, Any]]:
    """The hashed columns, series first, as little-endian arrays."""
    frame = rows.select(
        "series",
        "tick_seq",
        "ts_ms",
        pl.col("in_running").cast(pl.UInt8),
        pl.col("prob_bps", "odds_milli").fill_null(NO_PRICE),
        pl.col("suspended").cast(pl.UInt8),
    )
    return little_endian(frame)


def little_endian(frame: pl.DataFrame) -> list[np.ndarray[Any, Any]]:
    """Return the columns of a frame of numbers as they are hashed."""
    arrays = (column.to_numpy() for column in frame)
    return [np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")) for array in arrays]


def content_hash(content: dict[str, Any]) -> str:
    """Hash everything a pack says; its id and the sizes of its files stay out."""
    return sha256(canonical(content))
