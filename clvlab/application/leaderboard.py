"""The leaderboard over every sealed run of the store."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

from clvlab.answers.leaderboard import AnchorSummary, EligibilityBadge, LeaderboardResponse, LeaderboardRow
from clvlab.application.runs.counting import ANYBODY, Claimed, results
from clvlab.application.runs.stored import against_the_record
from clvlab.errors import PageError
from clvlab.law.metrics import LOW_SAMPLE_BELOW, confidence
from clvlab.proof.verify import verify
from clvlab.store import runs, standings
from clvlab.store.database import Connection, Database
from clvlab.store.runlog import LogRows
from clvlab.store.standings import Row
from clvlab.store.tables import RUN_COUNTS, SUMS
from clvlab.store.waits import take_time

_T = TypeVar("_T")
_PPM = 1_000_000
_ANONYMOUS = " (anonymous)"
_SHORT = 12
_INVISIBLE = ("Cf", "Co", "Cn")  # categories of Unicode: format, private use, unassigned
_COMPARED = (*SUMS, *RUN_COUNTS, "max_drawdown")


@dataclass(frozen=True)
class Leaderboard:
    """Use cases of the global ranking."""

    database: Database

    def rows(self, after_rank: int = 0, limit: int | None = None) -> LeaderboardResponse:
        """Rank all agents, best first, in a time that does not grow with runs or decisions; answer so many of them.

        Raises
        ------
        PageError
            ``after_rank`` is negative, or ``limit`` not positive.
        """
        return {"rows": [row for _, row in self.keyed_rows(after_rank, limit)]}

    def keyed_rows(self, after_rank: int = 0, limit: int | None = None) -> list[tuple[Row, LeaderboardRow]]:
        """Rank agents as ``rows`` does, each with the owner and agent id that its label stands for.

        Raises
        ------
        PageError
        """
        if after_rank < 0 or (limit is not None and limit < 1):
            raise PageError(f"after_rank must not be negative, and limit be positive, not {after_rank} and {limit}")
        with self.database.read() as connection:
            found = standings.all_rows(connection)
        keys = _keys(found)
        rows = [(key, _row(one, label)) for key, one, label in zip(keys, found, labels(keys), strict=True)]
        # Agent ids by code point, which is the order of their bytes; a database may sort otherwise.
        rows.sort(key=lambda row: (row[1]["avg_clv_bps"] is None, -(row[1]["avg_clv_bps"] or 0.0), row[1]["agent_id"]))
        wanted = rows[after_rank:] if limit is None else rows[after_rank : after_rank + limit]
        return [(key, {**row, "rank": rank}) for rank, (key, row) in enumerate(wanted, start=after_rank + 1)]

    def bring_up_to_date(self) -> None:
        """Count all sealed runs where none is counted: the database is from before fixtures were."""
        with self.database.read() as connection:
            missing = standings.is_missing(connection)
        if missing:
            self.rebuild()

    def rebuild(self) -> list[str]:
        """Recompute all of it from the sealed bytes and store that; returns a sentence for every difference found."""
        with self.database.read() as connection:
            run_ids = standings.sealed_run_ids(connection)
            claimed = Claimed()
            fresh = [result for run_id in run_ids for result in _results(connection, run_id, claimed)]
        with self.database.write() as connection:
            LogRows(connection, writing=True)  # no run is sealed, and nothing is rebuilt, meanwhile
            take_time(connection)
            before = _by_label(connection)
            for run_id in standings.sealed_run_ids(connection)[len(run_ids) :]:  # sealed meanwhile, and so the last in the log
                fresh += _results(connection, run_id, claimed)
            standings.replace_all(connection, fresh, claimed)
            after = _by_label(connection)
        return [
            f"{label}: {name} was {before.get(label, {}).get(name)}, recomputed it is {after.get(label, {}).get(name)}"
            for label in sorted(before.keys() | after.keys())
            for name in _COMPARED
            if before.get(label, {}).get(name) != after.get(label, {}).get(name)
        ]


def labels(keys: Sequence[tuple[str, str]]) -> list[str]:
    """Return a unique name for each row, by owner and agent id, in the order in which the rows came into being.

    The first owner of an agent id has the plain name. A later one's, or a name that may look like another, carries the end of
    the owner; rows of runs that were asked for without a token say so, and are nobody's.

    Examples
    --------
    >>> labels([("did:web:a.example", "drift"), ("did:web:b.example", "drift"), ("anonymous", "drift")])
    ['drift', 'drift@b.example', 'drift (anonymous)']
    """
    taken: set[str] = set()
    found = []
    for owner, agent_id in keys:
        label = next(label for label in _candidates(owner, agent_id) if label not in taken)
        taken.add(label)
        found.append(label)
    return found


def _candidates(owner: str, agent_id: str) -> Iterator[str]:
    if owner == ANYBODY:
        yield f"{agent_id}{_ANONYMOUS}"
        return
    if "@" not in agent_id and not agent_id.endswith(_ANONYMOUS) and _is_plain(agent_id):
        yield agent_id
    for length in range(len(owner.rpartition(":")[2][-_SHORT:]), len(owner) + 1):
        yield f"{agent_id}@{owner[len(owner) - length :]}"
    yield from (f"{agent_id}@{owner}#{number}" for number in count(2))  # owners with an @ can make two of these alike


def _is_plain(agent_id: str) -> bool:
    """Tell whether a name is what it looks like: no invisible or other blanks, no letters that stand for others."""
    letters = unicodedata.normalize("NFKC", agent_id)
    shown = "".join(letter for letter in letters if unicodedata.category(letter) not in _INVISIBLE)
    return " ".join(shown.split()) == agent_id


def _keys(found: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    return [(row["owner"], row["agent_id"]) for row in found]


def _by_label(connection: Connection) -> dict[str, dict[str, Any]]:
    found = standings.all_rows(connection)
    return dict(zip(labels(_keys(found)), found, strict=True))


def _results(connection: Connection, run_id: str, claimed: Claimed) -> list[dict[str, Any]]:
    row = runs.row(connection, run_id)
    run = runs.sealed_run(connection, run_id)
    if row is None or not row["ranked"]:
        return []
    claim, failing = claimed.of(run_id), {}
    if run is not None:
        found = against_the_record(row, run, verify(run, runs.receipt_lines(connection, run_id)))
        if found.verified:
            return results(found, row["owner"] or ANYBODY, claim)
        failing = {"failing": True}
    for noted in standings.brought(connection, run_id):  # its bytes are not the sealed ones, or gone: what those said stays
        claim((noted["owner"], noted["agent_id"]), noted["content_hash"], [noted["fixture_id"]])
    return [result | failing for result in standings.results_of(connection, run_id)]


def _row(standing: Mapping[str, Any], label: str) -> LeaderboardRow:
    total, decided = standing["counted_runs"], standing["decision_count"]
    actions, forecasts = standing["action_count"], standing["forecasts"]
    return {
        "rank": 0,  # known when all rows are
        "agent_id": label,
        "runs": standing["runs"],
        "avg_clv_bps": standing["total_clv_bps"] / actions if actions else None,
        "total_clv_bps": standing["total_clv_bps"],
        "sim_pnl": standing["sim_pnl"],
        "brier": standing["squared_error"] / _PPM / forecasts if forecasts else None,
        "max_drawdown": float(standing["max_drawdown"]),
        "action_count": actions,
        "valid_pct": 100 * (decided - standing["invalid_count"]) / decided if decided else 0.0,
        "proof_mode": _summary(standing["verified_runs"], total, "verified", "reproducible", "mixed"),
        "eligibility_badge": _badge(standing),
        "anchor_status": _anchor_status(standing),
        "source_mode": _summary(standing["live_runs"], total, "all-live", "all-replay", "mixed") if total else "unknown",
        "valid_count": standing["valid_count"],
        "clv_confidence": confidence(standing["valid_count"]),
        "low_sample": standing["valid_count"] < LOW_SAMPLE_BELOW,
    }


def _summary(count: int, total: int, every: _T, none: _T, some: _T) -> _T:
    if count == 0:
        return none
    return every if count == total else some


def _badge(standing: Mapping[str, Any]) -> EligibilityBadge:
    if standing["failing_runs"] or not standing["anchored_runs"]:
        return "unproven"
    return "fully-proven" if standing["anchored_runs"] == standing["counted_runs"] else "partially-proven"


def _anchor_status(standing: Mapping[str, Any]) -> AnchorSummary:
    if standing["anchored_runs"] == standing["counted_runs"]:
        return "all-anchored"
    return "some-pending" if standing["anchored_runs"] or standing["pending_runs"] else "none-anchored"
