"""Performing a run: from a plan, known before any tape is opened, to everything that is stored of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from clvlab.engine.agent import Agent, identified
from clvlab.engine.run import RunResult, run, run_started
from clvlab.errors import PackError, PackReplayError, UnknownFixtureError, UnknownPackError
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.law.tape import Binding
from clvlab.packs.catalog import Catalog
from clvlab.packs.reader import Pack
from clvlab.proof.events import receipt_lines
from clvlab.proof.seal import committed
from clvlab.proof.verify import Verification, verify

__all__ = ["Bound", "Execution", "Plan", "bound", "execute", "open_pack"]


@dataclass(frozen=True, slots=True)
class Bound:
    """A fixture of a verified pack."""

    pack: Pack
    fixture_id: int

    def payload(self) -> dict[str, Any]:
        """ReplayBinding of the interface."""
        return {"pack_id": self.pack.pack_id, "fixture_id": self.fixture_id, "content_hash": self.pack.content_hash}


def open_pack(catalog: Catalog, pack_id: str) -> Pack:
    """Open a pack of the catalog.

    Raises
    ------
    UnknownPackError
        Not listed, or not what its entry says; the message names the pack and nothing of the disk.
    """
    try:
        return catalog.open(pack_id)
    except UnknownPackError as error:
        raise UnknownPackError(f"unknown or unverified pack {pack_id!r}") from error


def bound(catalog: Catalog, pack_id: str, fixture_id: int | None) -> Bound:
    """Resolve a pack and a fixture of it; without one, its lowest.

    Raises
    ------
    UnknownPackError, UnknownFixtureError
    """
    pack = open_pack(catalog, pack_id)
    if fixture_id is None and pack.fixture_ids:
        return Bound(pack, min(pack.fixture_ids))
    if fixture_id is None or fixture_id not in pack.fixture_ids:
        raise UnknownFixtureError(fixture_id or 0, pack_id, pack.fixture_ids)
    return Bound(pack, fixture_id)


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that shapes a run.

    Attributes
    ----------
    kind, origin_id
        What asked for it: ``competition``, ``deploy`` or ``backtest``, and its id.
    """

    kind: str
    origin_id: str | None
    bound: Bound
    agents: Sequence[Agent] = field(repr=False)
    window: Window
    policy: PolicyEnvelope

    def started(self) -> dict[str, Any]:
        """Payload of RUN_STARTED, with the run id."""
        binding = Binding(self.bound.pack.pack_id, (self.bound.fixture_id,), self.bound.pack.content_hash)
        pack = self.bound.pack.manifest
        identities = [identified(agent, audit=False) for agent in self.agents]
        return run_started(
            binding,
            pack.closing_policy,
            identities,
            self.window,
            self.policy,
            max_close_age_s=pack.max_close_age_s,
            kind=self.kind,
            origin_id=self.origin_id,
        )


@dataclass(frozen=True, slots=True)
class Execution:
    """A run that was performed and verified, ready to be stored."""

    result: RunResult
    receipts: bytes = field(repr=False)
    verification: Verification

    @property
    def run_id(self) -> str:
        return self.result.run.run_id


def execute(plan: Plan, commit_index: int | None = None) -> Execution:
    """Replay, seal and verify a plan, to which the log's entry ``commit_index`` has committed.

    Raises
    ------
    PackReplayError
        The ticks of the pack can't be replayed.
    DecisionError
        Every agent failed, or one returned what can't be sealed.
    """
    try:
        tape = plan.bound.pack.tape([plan.bound.fixture_id])
    except PackError as error:
        raise PackReplayError(f"pack {plan.bound.pack.pack_id!r} can't be replayed: {type(error).__name__}") from error
    result = run(tape, plan.agents, plan.window, kind=plan.kind, origin_id=plan.origin_id, policy=plan.policy)
    result = replace(result, run=committed(result.run, commit_index))
    receipts = receipt_lines(result.receipts)
    return Execution(result, receipts, verify(result.run, receipts))
