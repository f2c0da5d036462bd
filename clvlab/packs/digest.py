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
    spans = tape.series.group_by("fixture_id").agg(
        pl.first("start"), pl.sum("rows"), names=pl.concat_list("market_key", "side")
    )
    fixtures = tape.fixtures.select("fixture_id").join(spans, on="fixture_id", how="left", maintain_order="left")

    def digest(fixture_id: int, start: int | None, n_rows: int | None, names: list[list[str]] | None) -> tuple[int, str]:
        hasher = hashlib.sha256(struct.pack("<I", len(names or ())))
        for name in (text.encode() for series in names or () for text in series):
            hasher.update(struct.pack("<I", len(name)) + name)
        # Fixture by fixture: what is converted stays in the processor's cache, and no column is copied whole.
        for column in _columns(tape.rows.slice(start or 0, n_rows or 0)):
            hasher.update(column.data)
        return fixture_id, "sha256:" + hasher.hexdigest()

    with ThreadPoolExecutor() as pool:  # hashlib and Polars work outside the interpreter's lock
        return dict(pool.map(digest, *(fixtures[column].to_list() for column in fixtures.columns)))


def _columns(rows: pl.DataFrame) -> list[np.ndarray[Any, Any]]:
    """The hashed columns of one fixture, series first and counted from 0, as little-endian arrays."""
    frame = rows.select(
        pl.col("series") - pl.col("series").first(),
        "tick_seq",
        "ts_ms",
        pl.col("in_running").cast(pl.UInt8),
        pl.col("prob_bps", "odds_milli").fill_null(_NO_PRICE),
        pl.col("suspended").cast(pl.UInt8),
    )
    return [np.ascontiguousarray(column.to_numpy(), dtype=column.to_numpy().dtype.newbyteorder("<")) for column in frame]


def content_hash(content: dict[str, Any]) -> str:
    """Hash everything a pack says; its id and the sizes of its files stay out."""
    return sha256(canonical(content))
