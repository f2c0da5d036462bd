"""The leaderboard over every sealed run of the store."""

from __future__ import annotations

import re
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TypeVar

import numpy as np
import polars as pl

from clvlab.api.answer import pick
from clvlab.api.leaderboard import AnchorSummary, EligibilityBadge, LeaderboardResponse, LeaderboardRow
from clvlab.arena.pages import PAGE
from clvlab.arena.runs.decisions import RunDecisions
from clvlab.arena.runs.in_database import FixtureClaims, results
from clvlab.arena.runs.runs import against_the_record
from clvlab.base.cache import BoundedCache
from clvlab.errors import PageError, RunRemovedError, UnknownRunError
from clvlab.law.metrics import LOW_SAMPLE_BELOW, confidence
from clvlab.law.schema import Reason
from clvlab.log.seats import STRATEGY
from clvlab.proof.verify import verify
from clvlab.report.html import Html
from clvlab.report.svg import interval_cell, scale, scale_axis
from clvlab.statistics import Clusters, Estimate, estimates
from clvlab.statistics.measures import priced_edge_pct
from clvlab.store import runs, seats, standings
from clvlab.store.database import Connection, Database
from clvlab.store.labels import CAUSALITIES as CAUSALITIES
from clvlab.store.labels import MIXED, Knowledge
from clvlab.store.runlog import StoredLogRows
from clvlab.store.standings import ResultRow, Row, StandingRow
from clvlab.store.standings import RowQuery as RowQuery
from clvlab.store.tables import RUN_COUNTS, SUMS
from clvlab.store.waits import take_time

_T = TypeVar("_T")
_PPM = 1_000_000
_CURSOR = re.compile(r"([0-9]{1,16})\.([A-Za-z0-9_-]+={0,2})", re.ASCII)
_ALL = RowQuery()
KNOWLEDGE = tuple(label.value for label in Knowledge)
_COMPARED = (*SUMS, *RUN_COUNTS, "max_drawdown", "strategy", "causality", "config_hash", "knowledge")


@dataclass(frozen=True)
class GlobalLeaderboard:
    database: Database

    def rows(self, after_rank: int = 0, limit: int | None = None, wanted: RowQuery = _ALL) -> LeaderboardResponse:
        """Rank agents, best first; ranks are places among ``wanted`` rows. The time depends only on the returned rows."""
        return {"rows": [row for _, row in self.keyed_rows(after_rank, limit, wanted)]}

    def page(
        self, cursor: str | None = None, after_rank: int = 0, limit: int = PAGE, wanted: RowQuery = _ALL
    ) -> tuple[LeaderboardResponse, str | None]:
        """Return a page of ``rows``, and the cursor of the next one or None.

        A cursor names the last row by its place in the order, so rows that are added before it move nothing; ranks continue.

        Raises
        ------
        PageError
            No page gave the cursor, or ``after_rank`` is stated too.
        """
        if cursor is not None and after_rank:
            raise PageError(f"a cursor and after_rank {after_rank} are two places: send one of them")
        rank, beyond = (after_rank, None) if cursor is None else _place_of(cursor)
        with self.database.read() as connection:
            offset = rank if beyond is None else 0
            found = standings.ranked(connection, wanted, offset, limit + 1, beyond)
            listed = _listed(connection, found[:limit], rank, wanted)
        next_cursor = _cursor_of(rank + limit, found[limit - 1]["rank_key"]) if len(found) > limit else None
        return {"rows": [row for _, row in listed]}, next_cursor

    def revision(self) -> str:
        with self.database.read() as connection:
            return standings.revision(connection)

    def keyed_rows(
        self, after_rank: int = 0, limit: int | None = None, wanted: RowQuery = _ALL
    ) -> list[tuple[Row, LeaderboardRow]]:
        if after_rank < 0 or (limit is not None and limit < 1):
            raise PageError(f"after_rank must not be negative, and limit be positive, not {after_rank} and {limit}")
        with self.database.read() as connection:
            return _listed(connection, standings.ranked(connection, wanted, after_rank, limit), after_rank, wanted)

    def bring_up_to_date(self) -> None:
        """Update a database of an older version: count sealed runs if none is counted, and pool rows without labels."""
        with self.database.read() as connection:
            missing, unpooled = standings.is_missing(connection), standings.is_unpooled(connection)
        if missing:
            self.rebuild()
        elif unpooled:
            with self.database.write() as connection:
                StoredLogRows(connection, writing=True)
                take_time(connection)
                standings.pool_all(connection)

    def rebuild(self) -> list[str]:
        """Recompute and store everything from the sealed bytes; return a sentence for every difference."""
        with self.database.read() as connection:
            run_ids = standings.sealed_run_ids(connection)
            claimed = FixtureClaims()
            fresh = [result for run_id in run_ids for result in _results(connection, run_id, claimed)]
        with self.database.write() as connection:
            StoredLogRows(connection, writing=True)  # its lock excludes seals and other rebuilds
            take_time(connection)
            before = _by_label(connection)
            for run_id in standings.sealed_run_ids(connection)[len(run_ids) :]:  # sealed since then, so the last in the log
                fresh += _results(connection, run_id, claimed)
            standings.replace_all(connection, fresh, claimed)
            after = _by_label(connection)
        return [
            f"{label}: {name} was {before.get(label, {}).get(name)}, recomputed it is {after.get(label, {}).get(name)}"
            for label in sorted(before.keys() | after.keys())
            for name in _COMPARED
            if before.get(label, {}).get(name) != after.get(label, {}).get(name)
        ]


def _listed(
    connection: Connection, found: Sequence[StandingRow], after_rank: int, wanted: RowQuery
) -> list[tuple[Row, LeaderboardRow]]:
    keys = [(row["owner"], row["agent_id"]) for row in found]
    alike = standings.others_alike(connection, keys) if wanted.grouped else {}
    taken = seats.by_owner(connection, {row["owner"] for row in found if row["strategy"] in (STRATEGY, MIXED)})
    ranked = enumerate(zip(keys, found, strict=True), start=after_rank + 1)
    return [(key, _row(one, rank, alike.get(key, []), taken)) for rank, (key, one) in ranked]


def _cursor_of(rank: int, rank_key: bytes) -> str:
    return f"{rank}.{urlsafe_b64encode(rank_key).decode()}"


def _place_of(cursor: str) -> tuple[int, bytes]:
    """Return rank and rank key of the last row of a page; ``PageError`` if no page has this cursor."""
    found = _CURSOR.fullmatch(cursor)
    try:
        if found is not None:
            return int(found[1]), b64decode(found[2], altchars=b"-_", validate=True)
    except ValueError:
        found = None
    raise PageError(f"cursor {cursor!r:.80} was not given by a page of this list")


def _by_label(connection: Connection) -> dict[str, Mapping[str, object]]:
    return {row["label"]: row for row in standings.all_rows(connection)}


def _results(connection: Connection, run_id: str, claimed: FixtureClaims) -> list[ResultRow]:
    row = runs.row(connection, run_id)
    run = runs.sealed_run(connection, run_id)
    if row is None or not row["ranked"]:
        return []
    claim = claimed.of(run_id)
    if run is not None:
        found = against_the_record(row, run, verify(run, runs.receipt_lines(connection, run_id)))
        if found.verified:
            known = {result["agent_id"]: result for result in standings.results_of(connection, run_id)}
            return [_with_knowledge(result, known) for result in results(found, row, claim)]
    for key, content_hash, fixture_id in standings.brought(connection, run_id):
        claim(key, content_hash, [fixture_id])  # damaged or removed runs keep their earlier result
    return [result if run is None else {**result, "failing": True} for result in standings.results_of(connection, run_id)]


def _with_knowledge(result: ResultRow, known: Mapping[str, ResultRow]) -> ResultRow:
    """Keep the knowledge that was recorded at the seal, because the evidence does not contain it."""
    stored = known.get(result["agent_id"], result)
    return {**result, "knowledge": stored["knowledge"], "commit_index": stored["commit_index"]}


def _row(standing: StandingRow, rank: int, others: list[str], taken: Mapping[str, tuple[int, int, int]]) -> LeaderboardRow:
    total, decided, own = standing["counted_runs"], standing["decision_count"], taken.get(standing["owner"])
    actions, forecasts = standing["action_count"], standing["forecasts"]
    derived = {
        "rank": rank,
        "agent_id": standing["label"],
        "avg_clv_bps": standing["total_clv_bps"] / actions if actions else None,
        "brier": standing["squared_error"] / _PPM / forecasts if forecasts else None,
        "max_drawdown": float(standing["max_drawdown"]),
        "valid_pct": 100 * (decided - standing["invalid_count"]) / decided if decided else 0.0,
        "proof_mode": _summary(standing["verified_runs"], total, "verified", "reproducible", "mixed"),
        "eligibility_badge": _badge(standing),
        "anchor_status": _anchor_status(standing),
        "source_mode": _summary(standing["live_runs"], total, "all-live", "all-replay", "mixed") if total else "unknown",
        "clv_confidence": confidence(standing["valid_count"]),
        "low_sample": standing["valid_count"] < LOW_SAMPLE_BELOW,
        "others": others,
        "seats": own and dict(zip(("taken", "abandoned", "packs"), own, strict=True)),
    }
    row = pick(LeaderboardRow, {**standing, **derived})
    if not others:
        del row["others"]
    if standing["strategy"] not in (STRATEGY, MIXED) or own is None:
        del row["seats"]
    return row


def _summary(count: int, total: int, every: _T, none: _T, some: _T) -> _T:
    if count == 0:
        return none
    return every if count == total else some


def _badge(standing: StandingRow) -> EligibilityBadge:
    if standing["failing_runs"] or not standing["anchored_runs"]:
        return "unproven"
    return "fully-proven" if standing["anchored_runs"] == standing["counted_runs"] else "partially-proven"


def _anchor_status(standing: StandingRow) -> AnchorSummary:
    if standing["anchored_runs"] == standing["counted_runs"]:
        return "all-anchored"
    return "some-pending" if standing["anchored_runs"] or standing["pending_runs"] else "none-anchored"


# The leaderboard with an interval for each mean, from the sealed decisions of the runs of a row.


_KEPT_BYTES = 16 << 20
_RUNS_AT_ONCE = 40  # runs that one page may read for the first time; later pages read more

# Per agent and fixture: sum, number and sum of squares of the CLV of its scored decisions, and of their edge in percent.
_Part = tuple[float, float, float, float, float, float]
_Sums = Mapping[tuple[str, int], _Part]


class _EnoughError(Exception):
    """A page has read its maximal number of runs."""


@dataclass(frozen=True, slots=True)
class ForestRow:
    """A row of the leaderboard.

    ``low`` and ``high`` are the 95 % interval of its mean over the ``scored`` fixtures, of all ``fixtures`` of its runs. They
    are ``None`` with fewer than five fixtures, if a run was removed or damaged, and until all its runs are read. ``scored`` and
    ``edge``, the mean edge at the prices taken in percent, are ``None`` in the last two cases. ``picture`` is an SVG element on
    the scale of all rows; it is empty without a mean.
    """

    row: LeaderboardRow
    low: float | None
    high: float | None
    edge: Estimate | None
    scored: int | None
    fixtures: int
    picture: Html


@dataclass(frozen=True, slots=True)
class ForestPage:
    rows: tuple[ForestRow, ...]
    axis: Html


def _sums_cache() -> BoundedCache[_Sums]:
    return BoundedCache(_KEPT_BYTES, lambda sums: 1024 + 256 * len(sums))


@dataclass(frozen=True)
class Forest:
    """Makes pages of the leaderboard; contributions of runs are cached, because sealed runs never change."""

    leaderboard: GlobalLeaderboard
    decisions: RunDecisions
    _sums: BoundedCache[_Sums] = field(default_factory=_sums_cache)

    def page(self, after_rank: int = 0, limit: int = 50, owner: str | None = None) -> ForestPage:
        """Rank agents by their means with interval and picture; agents that can't contain past prices come first. Blocks.

        The first of an owner's rows with the same decisions represents all of them.
        """
        keyed = self.leaderboard.keyed_rows(after_rank, limit, RowQuery(grouped=True, apart=True, owner=owner))
        with self.leaderboard.database.read() as connection:
            counted = [standings.counted_in(connection, key) for key, _ in keyed]
        allowance = [_RUNS_AT_ONCE]
        spans = [self._span(key, row, own, allowance) for (key, row), own in zip(keyed, counted, strict=True)]
        bounds = [(None, None) if span is None else (span[0].low, span[0].high) for span in spans]
        within = scale([*(row["avg_clv_bps"] for _, row in keyed), *(bound for pair in bounds for bound in pair)])
        found = [
            ForestRow(row, low, high, span and span[1], span and span[0].n_clusters, len(own), picture)
            for (_, row), (low, high), span, own in zip(keyed, bounds, spans, counted, strict=True)
            for picture in [interval_cell(row["avg_clv_bps"], low, high, within)]
        ]
        return ForestPage(tuple(found), scale_axis(within) if found else Html(""))

    def _span(
        self, key: Row, row: LeaderboardRow, counted: Sequence[tuple[str, int]], allowance: list[int]
    ) -> tuple[Estimate, Estimate] | None:
        try:
            parts = [
                part
                for run_id, fixtures in groupby(counted, key=itemgetter(0))
                for part in self._parts(run_id, key[1], [fixture_id for _, fixture_id in fixtures], allowance)
            ]
        except (_EnoughError, UnknownRunError, RunRemovedError):
            return None
        sums = np.array(parts, dtype=np.float64).reshape(-1, 6)
        if (sums[:, 0].sum(), sums[:, 1].sum()) != (row["total_clv_bps"], row["action_count"]) or not parts:
            return None  # the row differs from these runs, and a wrong interval is worse than none
        clv, edge = estimates(Clusters(sums[:, ::3], sums[:, 1::3], sums[:, 2::3]))
        return clv, edge

    def _parts(self, run_id: str, agent_id: str, fixture_ids: Sequence[int], allowance: list[int]) -> list[_Part]:
        sums = self._sums.get(run_id, lambda: self._read(run_id, allowance))
        return [sums[agent_id, fixture_id] for fixture_id in fixture_ids if (agent_id, fixture_id) in sums]

    def _read(self, run_id: str, allowance: list[int]) -> _Sums:
        if not allowance[0]:
            raise _EnoughError
        allowance[0] -= 1
        values = pl.col("clv_bps").cast(pl.Float64), priced_edge_pct()
        scored = self.decisions.rows(run_id).filter(pl.col("reason") == Reason.SCORED)
        sums = [
            part.alias(f"{number}_{name}")
            for number, one in enumerate(values)
            for name, part in (("sum", one.sum()), ("count", one.count().cast(pl.Float64)), ("squares", (one * one).sum()))
        ]
        found = scored.group_by(pl.col("agent_id").cast(pl.String), "fixture_id").agg(*sums)
        return {row[:2]: row[2:] for row in found.iter_rows()}
