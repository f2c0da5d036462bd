"""A second opinion on scores: the law as one SQL statement, run by another engine over the evidence lines themselves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from clvlab.errors import EvidenceError
from clvlab.law.schema import SCORES, conform
from clvlab.proof.checks import first_difference
from clvlab.proof.events import batches, score_lines
from clvlab.proof.limits import MAX_STARTED_BYTES, check_lines

_STATEMENT = Path(__file__).with_name("scores.sql")


@dataclass(frozen=True, slots=True)
class SecondOpinion:
    """Whether SQL gives the stored scores, byte for byte, and in a sentence what was compared."""

    agrees: bool
    detail: str


def sql_scores(events: bytes) -> pl.DataFrame:
    """Score the evidence by SQL.

    Parameters
    ----------
    events
        ``events.jsonl``, unverified.

    Returns
    -------
    pl.DataFrame
        ``SCORES``, in order of ``seq``.

    Raises
    ------
    EvidenceError
        More than the limits allow, or lines that are no JSON or have values of other types.
    """
    with duckdb.connect(config={"enable_external_access": "false"}) as connection:
        connection.register("lines", pa.table({"line": _lines(events)}))
        try:
            found = connection.sql(_STATEMENT.read_text(encoding="utf-8")).pl()
        except (duckdb.Error, UnicodeDecodeError) as error:  # DuckDB cuts the line that it quotes amid a character
            first, *_ = str(error).split("\n")
            raise EvidenceError(f"the evidence can't be read by SQL: {first[:200]}") from error
    return conform(found, SCORES, "the rows of the statement")


def second_opinion(events: bytes, stored: bytes) -> SecondOpinion:
    """Compare scores by SQL with the stored lines, as bytes."""
    derived = b"".join(score_lines(batch) for batch in batches(sql_scores(events)))
    ours, theirs = derived.count(b"\n"), stored.count(b"\n")
    if derived == stored:
        return SecondOpinion(agrees=True, detail=f"one SQL statement gives all {ours} score rows as stored")
    counted = f"SQL gives {ours} score rows, stored are {theirs}"
    return SecondOpinion(agrees=False, detail=f"{counted}; the first difference is row {first_difference(derived, stored)}")


def _lines(events: bytes) -> pa.Array:
    """Cut a text into lines without a Python object for each."""
    if not events.endswith(b"\n"):
        raise EvidenceError("the evidence does not end with a line feed")
    check_lines(events, "events.jsonl", MAX_STARTED_BYTES)
    ends = np.flatnonzero(np.frombuffer(events, dtype=np.uint8) == ord("\n")) + 1
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), ends])  # a line keeps its line feed, which JSON allows
    array = pa.LargeStringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(events))
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise EvidenceError(f"the evidence is not UTF-8: {error}") from error
    return array
