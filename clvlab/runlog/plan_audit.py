"""The audit of planned searches in a run log: their entries one after the other, by the rules of ``clvlab.runlog.plans``."""

from __future__ import annotations

from dataclasses import dataclass, field

from clvlab.proof.canonical import HASH
from clvlab.runlog.entries import Opened, Planned
from clvlab.runlog.log import name_fault
from clvlab.runlog.plans import plan_id_of


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

    def add(self, index: int, entry: Planned | Opened) -> str | None:
        """Read an entry, and return the rule that it breaks, null for none."""
        return self._planned(index, entry) if isinstance(entry, Planned) else self._opened(index, entry)

    def _planned(self, index: int, entry: Planned) -> str | None:
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

    def _opened(self, index: int, entry: Opened) -> str | None:
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
