"""Search plans in the run log: a search is recorded before it runs, and each opening of the hold-out before it is read.

A reader of the log knows how often a plan's hold-out was opened here, and for which configurations. The log can't know whether
the same odds were read elsewhere.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from clvlab.errors import LogConflictError
from clvlab.log.entries import PLAN_SCHEMA, EntryKind, OpeningEntry, PlanEntry, read_entry
from clvlab.log.log import LogRows, append_unowned, name_fault, named
from clvlab.proof.canonical import HASH


def plan_id_of(plan_hash: str) -> str:
    return f"plan_{plan_hash.removeprefix('sha256:')[:32]}"


def planned(rows: LogRows, plan_id: str) -> int | None:
    return next((index for index, kind in rows.about(plan_id) if kind == EntryKind.PLAN), None)


def openings(rows: LogRows, plan_id: str) -> list[tuple[int, OpeningEntry]]:
    found = [(index, read_entry(rows.entry(index))) for index, kind in rows.about(plan_id) if kind == EntryKind.OPENED]
    return [(index, entry) for index, entry in found if isinstance(entry, OpeningEntry)]


def note_plan(rows: LogRows, plan: PlanEntry, ts_ms: int) -> int:
    """Record a plan before any of it is computed, and return its index. Recording it again returns the same index."""
    named(plan.owner, "the owner of a plan")
    known = planned(rows, plan.plan_id)
    return append_unowned(rows, PLAN_SCHEMA, EntryKind.PLAN, plan.plan_id, asdict(plan), ts_ms) if known is None else known


def note_opening(rows: LogRows, plan_id: str, trial: str, ts_ms: int, *, again: bool = False) -> int:
    """Record that a hold-out is opened for a configuration, before its first tick is read; return the entry's index.

    After the first configuration, another one needs ``again``. A configuration that was opened before keeps its entry.
    """
    plan_index = planned(rows, plan_id)
    if plan_index is None:
        raise LogConflictError(f"the log has no plan {plan_id}")
    before = openings(rows, plan_id)
    for index, opened in before:
        if opened.trial == trial:
            return index
    if before and not again:
        raise LogConflictError(f"plan {plan_id} was opened as entry {before[0][0]} for another configuration")
    stated = {"again": bool(before), "plan_id": plan_id, "plan_index": plan_index, "trial": trial}
    return append_unowned(rows, PLAN_SCHEMA, EntryKind.OPENED, plan_id, stated, ts_ms)


# Audit of planned searches, entry by entry, by the rules above.


@dataclass(slots=True)
class PlanHistory:
    """A plan in a log: its entry, and each entry that opened its hold-out, with the hash of the configuration."""

    plan_id: str
    owner: str
    content_hash: str
    index: int
    openings: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class PlanAuditor:
    """Audit of plans and openings, read in order. ``plans`` has the plans so far, by id."""

    plans: dict[str, PlanHistory] = field(default_factory=dict)

    def add(self, index: int, entry: PlanEntry | OpeningEntry) -> str | None:
        """Read an entry, and return the rule that it breaks, or ``None``."""
        return self._planned(index, entry) if isinstance(entry, PlanEntry) else self._opened(index, entry)

    def _planned(self, index: int, entry: PlanEntry) -> str | None:
        name = entry.plan_id
        if not all(map(HASH.fullmatch, (entry.plan_hash, entry.content_hash))):
            return f"entry {index} plans by no hash: {entry.plan_hash[:80]!a}, {entry.content_hash[:80]!a}"
        # Under two ids, one hold-out could be opened twice, and each opening would look like the first.
        if name != plan_id_of(entry.plan_hash):
            return f"entry {index} names no plan: {name[:80]!a} is not the id of {entry.plan_hash}"
        fault = name_fault(entry.owner)
        if fault is not None:
            return f"entry {index} has {fault}"
        if name in self.plans:
            return f"entry {index} plans {name[:80]!a} again, which is entry {self.plans[name].index}"
        self.plans[name] = PlanHistory(name, entry.owner, entry.content_hash, index)
        return None

    def _opened(self, index: int, entry: OpeningEntry) -> str | None:
        name, plan = entry.plan_id, self.plans.get(entry.plan_id)
        if plan is None or plan.index != entry.plan_index:
            return f"entry {index} opens plan {name[:80]!a} of entry {entry.plan_index}, which is not that plan's earlier entry"
        if not HASH.fullmatch(entry.trial):
            return f"entry {index} opens plan {name[:80]!a} for no configuration: {entry.trial[:80]!a}"
        again, same = bool(plan.openings), [known for known, trial in plan.openings.items() if trial == entry.trial]
        plan.openings[index] = entry.trial
        if entry.again != again:
            return f"entry {index} opens plan {name[:80]!a} {'again' if entry.again else 'first'}, which is not so"
        if same:
            return f"entry {index} opens plan {name[:80]!a} for the configuration for which entry {same[0]} did"
        return None
