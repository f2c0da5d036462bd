"""Decisions of a sealed run as a table: filtered, sorted, in pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from operator import eq
from typing import Any, Literal, cast

import polars as pl

from clvlab.api.runs import DecisionListResponse, DecisionRow
from clvlab.arena.runs.runs import not_sealed
from clvlab.arena.tables import PAGE, ArrowTable, arrow_stream, first_rows
from clvlab.base.cache import BoundedCache
from clvlab.errors import EvidenceError, PageError, UnknownRunError
from clvlab.law.schema import Reason, Schema
from clvlab.proof.canonical import sha256
from clvlab.proof.events import score_lines
from clvlab.proof.seal import SealedRun
from clvlab.runs.run import Run
from clvlab.store import runs
from clvlab.store.database import Database

__all__ = ["DECISION_ROWS", "DecisionFilter", "Order", "Reason", "RunDecisions"]

_KEPT_BYTES = 128 << 20  # cached decisions of all runs; a million take about 60 MB
_OVERHEAD_BYTES = 4096
_CURSOR_DIGITS = 16

# One row per decision, in order of ``seq``, with the inspector's values except the market.
DECISION_ROWS: Schema = {
    "seq": pl.Int64,
    "agent_id": pl.String,
    "fixture_id": pl.Int64,
    "market_key": pl.String,
    "side": pl.String,
    "tick_seq": pl.Int64,
    "ts_ms": pl.Int64,
    "action": pl.String,
    "stake": pl.Int64,
    "limit_odds_milli": pl.Int64,
    "policy": pl.String,
    "valid": pl.Boolean,
    "reason": pl.String,
    "entry_prob_bps": pl.Int64,
    "odds_milli": pl.Int64,
    "close_prob_bps": pl.Int64,
    "clv_bps": pl.Int64,
    "edge_bps": pl.Int64,
    "close_kind": pl.String,
    "closing_age_ms": pl.Int64,
    "confidence": pl.Float64,
    "confidence_raw": pl.String,
}
_NAMES = ("agent_id", "market_key", "side", "action", "policy", "reason", "close_kind")  # columns with few distinct values


class Order(StrEnum):
    """Order of decisions; those without a CLV come last, and ties are in order of ``seq``."""

    SEQ = "seq"
    CLV = "clv"
    CLV_DESCENDING = "-clv"


@dataclass(frozen=True, slots=True)
class DecisionFilter:
    """Filters of decisions; ``market`` is a prefix of the market key, other values must be equal, also ``market_key``."""

    agent_id: str | None = None
    fixture_id: int | None = None
    market: str | None = None
    side: str | None = None
    reason: Reason | None = None
    valid: bool | None = None
    market_key: str | None = None
    action: Literal["BACK", "WAIT"] | None = None

    def of(self, rows: pl.DataFrame) -> pl.DataFrame:
        chosen = []
        if self.fixture_id is not None:
            chosen.append(pl.col("fixture_id") == self.fixture_id)
        if self.valid is not None:
            chosen.append(pl.col("valid") == self.valid)
        names = {column: getattr(self, column) for column in ("agent_id", "side", "reason", "market_key", "action")}
        chosen += [_is_named(rows, column, partial(eq, name)) for column, name in names.items() if name is not None]
        if (prefix := self.market) is not None:
            chosen.append(_is_named(rows, "market_key", lambda key: key.startswith(prefix)))
        return rows.filter(*chosen) if chosen else rows


def _is_named(rows: pl.DataFrame, column: str, passes: Callable[[str], bool]) -> pl.Expr:
    """Select rows whose name passes a test, which runs once per name; null does not pass."""
    names = cast("pl.Enum", rows.schema[column]).categories
    return pl.col(column).to_physical().is_in([number for number, name in enumerate(names) if passes(name)])


def _sizes() -> BoundedCache[pl.DataFrame]:
    return BoundedCache(_KEPT_BYTES, lambda rows: int(rows.estimated_size()) + _OVERHEAD_BYTES)


@dataclass(frozen=True)
class RunDecisions:
    """Reads the decisions of runs; a run is read once, and cached for the next page."""

    database: Database
    _kept: BoundedCache[pl.DataFrame] = field(default_factory=_sizes)

    def page(
        self,
        run_id: str,
        wanted: DecisionFilter,
        order: Order = Order.SEQ,
        cursor: str | None = None,
        limit: int = PAGE,
    ) -> DecisionListResponse:
        """List decisions of a sealed run. Blocks while the run is read."""
        page, total, next_cursor = self._page(run_id, wanted, order, cursor, limit)
        rows = [_row(row) for row in page.to_dicts()]
        return {"run_id": run_id, "decisions": rows, "total": total, "next_cursor": next_cursor}

    def as_arrow(
        self,
        run_id: str,
        wanted: DecisionFilter,
        order: Order = Order.SEQ,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> ArrowTable:
        """Return the decisions of ``page`` as ``DECISION_ROWS`` in Arrow, all by default."""
        page, _, next_cursor = self._page(run_id, wanted, order, cursor, limit)
        return ArrowTable(arrow_stream(page), next_cursor)

    def _page(
        self, run_id: str, wanted: DecisionFilter, order: Order, cursor: str | None, limit: int | None
    ) -> tuple[pl.DataFrame, int, str | None]:
        rows = self.rows(run_id)
        found = wanted.of(rows)
        rest = found if cursor is None else found.filter(_after(rows, order, cursor))
        if order is not Order.SEQ:
            descending = order is Order.CLV_DESCENDING
            rest = rest.sort("clv_bps", "seq", descending=[descending, False], nulls_last=True)
        page, more = first_rows(rest, limit)
        next_cursor = str(page["seq"][-1]) if more else None
        return page.select(pl.col(name).cast(dtype) for name, dtype in DECISION_ROWS.items()), found.height, next_cursor

    def markets(self, run_id: str) -> list[str]:
        """Return the keys of the markets of a sealed run's decisions, sorted. Blocks while the run is read."""
        return list(cast("pl.Enum", self.rows(run_id).schema["market_key"]).categories)

    def sides(self, run_id: str) -> list[tuple[str, str]]:
        """Return each market with each side of a sealed run's decisions, sorted. Blocks while the run is read."""
        return sorted(self.rows(run_id).select("market_key", "side").drop_nulls().unique().rows())

    def evidence_hash(self, run_id: str) -> str:
        """Return the evidence hash recorded at the seal."""
        with self.database.read() as connection:
            found = runs.evidence_hash(connection, run_id)
            if found is None:
                raise not_sealed(connection, run_id)
        return found

    def rows(self, run_id: str) -> pl.DataFrame:
        evidence_hash = self.evidence_hash(run_id)
        return self._kept.get((run_id, evidence_hash), lambda: self._read(run_id, evidence_hash))

    def sealed(self, run_id: str) -> SealedRun:
        """Return the stored bytes of a sealed run."""
        with self.database.read() as connection:
            run = runs.sealed_run(connection, run_id)
            if run is None:
                raise not_sealed(connection, run_id)
        return run

    def _read(self, run_id: str, evidence_hash: str) -> pl.DataFrame:
        try:
            return decision_rows(self.sealed(run_id), evidence_hash)
        except EvidenceError as error:
            raise UnknownRunError(f"run {run_id!r} is not stored as it was sealed, verify it: {error}") from error


def decision_rows(run: SealedRun, evidence_hash: str) -> pl.DataFrame:
    """Return ``DECISION_ROWS`` and ``at_close`` of a stored run, with names as ``Enum`` and integers as small as fits.

    Raises
    ------
    EvidenceError
        The evidence does not have the hash recorded at the seal or can't be read, or the scores do not follow from it.
    """
    found = sha256(run.events)
    if found != evidence_hash:
        raise EvidenceError(f"its evidence has {found}, but the seal recorded {evidence_hash}")
    read = Run(run)
    evidence, scored = read.evidence, read.scores
    if score_lines(scored) != run.scores:
        raise EvidenceError("its scores do not follow from the evidence")
    refusals = pl.col("pre").list.len() + pl.col("post").list.len()
    proposed = evidence.decisions.select(
        "ts_ms",
        "action",
        "stake",
        "limit_odds_milli",
        "confidence_raw",
        policy=pl.when(refusals == 0).then(pl.lit("allowed")).when(refusals > 0).then(pl.lit("refused")),
        confidence=_probability(evidence.decisions["confidence_ppm"]),
    )
    rows = scored.drop("confidence_ppm").hstack(proposed).select(*DECISION_ROWS, read.at_close)  # both in order of seq
    narrow = [rows[name].shrink_dtype() for name, dtype in DECISION_ROWS.items() if dtype == pl.Int64]
    named = [rows[name].cast(pl.Enum(rows[name].drop_nulls().unique().sort())) for name in _NAMES]
    return rows.with_columns(*narrow, *named)


def _probability(ppm: pl.Series) -> pl.Series:
    """Divide as Python does: Polars multiplies by the reciprocal of a constant, which differs in the last digit."""
    return pl.Series(ppm.cast(pl.Float64).to_numpy() / 1_000_000, dtype=pl.Float64, nan_to_null=True)


def _after(rows: pl.DataFrame, order: Order, cursor: str) -> pl.Expr:
    seq = int(cursor) if cursor.isascii() and cursor.isdecimal() and len(cursor) <= _CURSOR_DIGITS else 0
    if not 1 <= seq <= rows.height:
        raise PageError(f"cursor {cursor!r:.80} was not given by a page of this run")
    later = pl.col("seq") > seq
    if order is Order.SEQ:
        return later
    clv, last = pl.col("clv_bps"), cast("int | None", rows["clv_bps"][seq - 1])
    if last is None:
        return clv.is_null() & later
    beyond = clv < last if order is Order.CLV_DESCENDING else clv > last
    return beyond | clv.is_null() | ((clv == last) & later)


def _row(row: dict[str, Any]) -> DecisionRow:
    """Convert the confidence as the inspector does: to a probability, or to text if it is invalid."""
    raw = row.pop("confidence_raw")
    return cast("DecisionRow", row | {"confidence": raw if row["confidence"] is None else row["confidence"]})
