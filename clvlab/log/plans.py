"""Search plans in the run log: what will be searched is noted before, and each opening of the hold-out before it is read.

So whoever sees the log knows how often a plan's hold-out was opened here, and for which configurations. What was read of the
same odds outside, no log knows.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from clvlab.errors import LogConflictError
from clvlab.log.entries import PLAN_SCHEMA, EntryKind, OpeningEntry, PlanEntry, read_entry
from clvlab.log.log import LogRows, name_fault, named
from clvlab.log.tree import completed_roots
from clvlab.proof.canonical import HASH, canonical

_NOBODY = ""  # the column counts runs by owner; a plan is none


def plan_id_of(plan_hash: str) -> str:
    """Return the id of a plan: ``plan_`` and the beginning of its hash."""
    return f"plan_{plan_hash.removeprefix('sha256:')[:32]}"


def planned(rows: LogRows, plan_id: str) -> int | None:
    """Return the index of a plan's entry, null if the log has none."""
    return next((index for index, kind in rows.about(plan_id) if kind == EntryKind.PLAN), None)


def openings(rows: LogRows, plan_id: str) -> list[tuple[int, OpeningEntry]]:
    """Return the openings of a plan's hold-out, in order, with their indices."""
    found = [(index, read_entry(rows.entry(index))) for index, kind in rows.about(plan_id) if kind == EntryKind.OPENED]
    return [(index, entry) for index, entry in found if isinstance(entry, OpeningEntry)]


def note_plan(rows: LogRows, plan: PlanEntry, ts_ms: int) -> int:
    """Note a plan, before anything of it is computed; returns its index. The same plan again has the same one.

    Raises
    ------
    LogError
        Its owner's name is no name.
    """
    named(plan.owner, "the owner of a plan")
    known = planned(rows, plan.plan_id)
    return _append(rows, EntryKind.PLAN, plan.plan_id, asdict(plan), ts_ms) if known is None else known


def note_opening(rows: LogRows, plan_id: str, trial: str, ts_ms: int, *, again: bool = False) -> int:
    """Note that a hold-out is opened for a configuration, before its first tick is read; returns the entry's index.

    The same configuration again has the same entry.

    Parameters
    ----------
    rows
        Of the log.
    plan_id, trial
        Which plan, and the hash of the configuration that is run.
    ts_ms
        Now.
    again
        Open it for another configuration than before.

    Raises
    ------
    LogConflictError
        No such plan; or it was opened for another configuration, and ``again`` was not said.
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
    return _append(rows, EntryKind.OPENED, plan_id, stated, ts_ms)


def _append(rows: LogRows, kind: EntryKind, plan_id: str, stated: dict[str, object], ts_ms: int) -> int:
    entry = canonical(stated | {"kind": kind.value, "schema": PLAN_SCHEMA, "ts_ms": ts_ms})
    index = rows.size()
    rows.add(index, kind.value, plan_id, _NOBODY, None, None, entry, completed_roots(rows, index, entry))
    return index


# The audit of planned searches in a run log: their entries one after the other, by the rules of ``clvlab.log.plans``.


@dataclass(slots=True)
class PlanHistory:
    """What a log says of a plan.

    Attributes
    ----------
    plan_id, owner, content_hash
        Which plan, by whom, over which pack.
    index
        Of its entry.
    openings
        Entries that opened its hold-out, each with the hash of the configuration that it was for.
    """

    plan_id: str
    owner: str
    content_hash: str
    index: int
    openings: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class PlanAuditor:
    """Reads plans and openings in order.

    Attributes
    ----------
    plans
        The plans so far, by id, in order of their entries.
    """

    plans: dict[str, PlanHistory] = field(default_factory=dict)

    def add(self, index: int, entry: PlanEntry | OpeningEntry) -> str | None:
        """Read an entry, and return the rule that it breaks, null for none."""
        return self._planned(index, entry) if isinstance(entry, PlanEntry) else self._opened(index, entry)

    def _planned(self, index: int, entry: PlanEntry) -> str | None:
        name = entry.plan_id
        if not all(map(HASH.fullmatch, (entry.plan_hash, entry.content_hash))):
            return f"entry {index} plans by no hash: {entry.plan_hash[:80]!a}, {entry.content_hash[:80]!a}"
        if name != plan_id_of(entry.plan_hash):  # one plan under two ids would be opened once under each
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
            return f"entry {index} opens plan {name[:80]!a} of entry {entry.plan_index}, which is no such plan before it"
        if not HASH.fullmatch(entry.trial):
            return f"entry {index} opens plan {name[:80]!a} for no configuration: {entry.trial[:80]!a}"
        again, same = bool(plan.openings), [known for known, trial in plan.openings.items() if trial == entry.trial]
        plan.openings[index] = entry.trial
        if entry.again != again:
            return f"entry {index} opens plan {name[:80]!a} {'again' if entry.again else 'first'}, which is not so"
        if same:
            return f"entry {index} opens plan {name[:80]!a} for the configuration for which entry {same[0]} did"
        return None
