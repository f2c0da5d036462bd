"""Results of markets, where a source has them: kept beside the ticks, and never on a tape."""

from __future__ import annotations

from enum import StrEnum

import polars as pl

from clvlab.errors import PackFormatError
from clvlab.law.schema import Schema, conform
from clvlab.packs.parquet import check_parquet
from clvlab.packs.rows import UNREADABLE
from clvlab.proof.canonical import canonical, sha256

RESULTS_FILE = "results.parquet"
_KEY = ("fixture_id", "market_key", "side")


class Settled(StrEnum):
    """How a bet on a side was settled; a void returns the stake, a half does one of the two with half of it."""

    WON = "won"
    HALF_WON = "half_won"
    VOID = "void"
    HALF_LOST = "half_lost"
    LOST = "lost"


# One row per side of a settled market. ``detail`` is what the source says beside it: a score, a runner's name.
RESULTS: Schema = {
    "fixture_id": pl.Int64,
    "market_key": pl.String,
    "side": pl.String,
    "result": pl.String,
    "detail": pl.String,
}


def sorted_results(results: pl.DataFrame) -> pl.DataFrame:
    """Return ``RESULTS`` in order of its key, after a check of its values.

    Raises
    ------
    PackFormatError
        A result that is not one of ``Settled``, a null in the key, or a side that is settled twice.
    """
    frame = conform(results, RESULTS, "RESULTS").sort(_KEY)
    wrong = frame.filter(~pl.col("result").is_in(list(Settled)) | pl.any_horizontal(pl.col(*_KEY, "result").is_null()))
    if wrong.height:
        raise PackFormatError(f"a result must be one of {', '.join(Settled)} of a named side: found {wrong.row(0)}")
    twice = frame.filter(frame.select(_KEY).is_duplicated())
    if twice.height:
        raise PackFormatError(f"a side is settled twice: {twice.row(0)}")
    return frame


def results_digest(results: pl.DataFrame) -> str:
    """``sha256:<hex>`` of the canonical JSON of all rows, each an array in column order, sorted by key."""
    return sha256(canonical([list(row) for row in sorted_results(results).iter_rows()]))


def read_results(content: bytes, pack_id: str) -> pl.DataFrame:
    """Read ``RESULTS`` from the bytes of a pack's file.

    Raises
    ------
    PackFormatError
        They can't be read as results.
    """
    try:
        check_parquet(content)
        return conform(pl.read_parquet(content), RESULTS, "RESULTS")
    except (pl.exceptions.PolarsError, *UNREADABLE) as error:
        raise PackFormatError(f"{RESULTS_FILE} of {pack_id!r} can't be read: {str(error).splitlines()[0]}") from error
