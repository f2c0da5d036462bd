"""Digests of what a pack says, not of how Parquet stored it: the same ticks give the same hash under every writer."""

from __future__ import annotations

import hashlib
import struct
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import polars as pl

from clvlab.law.tape import Tape
from clvlab.proof.canonical import canonical, sha256

__all__ = ["content_hash", "fixture_digests"]

_NO_PRICE = -1


def fixture_digests(tape: Tape) -> dict[int, str]:
    """Digest every fixture's series table and columns; the byte layout stands in ``docs/reference/pack-format.md``.

    Returns
    -------
    dict
        fixture_id -> ``sha256:<hex>``, also for fixtures without ticks.
    """
    columns = _columns(tape)
    tables = {key[0]: table for key, table in tape.series.partition_by("fixture_id", as_dict=True).items()}
    empty = tape.series.clear()

    def digest(fixture_id: int) -> str:
        series = tables.get(fixture_id, empty)
        start = int(series["start"][0]) if series.height else 0
        stop = start + int(series["rows"].sum())
        hasher = hashlib.sha256(struct.pack("<I", series.height))
        for name in (text.encode() for row in series.select("market_key", "side").rows() for text in row):
            hasher.update(struct.pack("<I", len(name)) + name)
        numbers, *others = (column[start:stop] for column in columns)
        hasher.update((numbers - numbers[:1]).data)  # series count from 0 within the fixture
        for column in others:
            hasher.update(column.data)
        return "sha256:" + hasher.hexdigest()

    with ThreadPoolExecutor() as pool:  # hashlib works outside the interpreter's lock
        ids = tape.fixtures["fixture_id"].to_list()
        return dict(zip(ids, pool.map(digest, ids), strict=True))


def _columns(tape: Tape) -> list[np.ndarray[Any, Any]]:
    """The hashed columns, series first, as little-endian arrays."""
    rows = tape.rows.select(
        "series",
        "tick_seq",
        "ts_ms",
        pl.col("in_running").cast(pl.UInt8),
        pl.col("prob_bps", "odds_milli").fill_null(_NO_PRICE),
        pl.col("suspended").cast(pl.UInt8),
    ).select("series", "tick_seq", "ts_ms", "in_running", "prob_bps", "odds_milli", "suspended")
    return [np.ascontiguousarray(column.to_numpy(), dtype=column.to_numpy().dtype.newbyteorder("<")) for column in rows]


def content_hash(content: dict[str, Any]) -> str:
    """Hash everything a pack says; its id and the sizes of its files stay out."""
    return sha256(canonical(content))
