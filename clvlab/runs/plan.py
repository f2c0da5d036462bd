"""A run as it is planned: everything that shapes it, known before its tape is opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from clvlab.engine.agent import Agent, identify
from clvlab.engine.run import run_started
from clvlab.errors import ArgumentError, DecisionError, UnknownFixtureError
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.law.tape import Binding
from clvlab.packs.reader import Pack
from clvlab.proof.manifest import RunStarted
from clvlab.runs.sharding import sharded


@dataclass(frozen=True)
class Plan:
    """Everything that shapes a run.

    Attributes
    ----------
    pack, fixtures
        What is replayed: these fixtures of the pack, all of them by default.
    agents
        Who decides: at least one, with unique ids.
    window, policy
        What is scored, and the limits under which actions are executed on paper.
    kind, origin_id
        What asked for it: ``backtest``, ``competition`` or ``deploy``, and its id.
    audit
        Whether agents of one's own are audited for look-ahead before the run is sealed.

    Raises
    ------
    UnknownFixtureError, HeldOutError, DecisionError, WindowError
    ArgumentError
        No audit is wanted, and none would be made.
    PackTooLargeError
        An agent must see more at once than fits in memory.
    """

    pack: Pack
    agents: Sequence[Agent] = field(repr=False)
    window: Window = field(default_factory=Window)
    policy: PolicyEnvelope = field(default_factory=PolicyEnvelope)
    fixtures: Sequence[int] | None = None
    kind: str = "backtest"
    origin_id: str | None = None
    audit: bool = True

    def __post_init__(self) -> None:
        known = set(self.pack.fixture_ids)
        for fixture_id in self.fixtures or ():
            if fixture_id not in known:
                raise UnknownFixtureError(fixture_id, self.pack.pack_id, self.pack.fixture_ids)
        self.pack.check_open(self.fixture_ids)  # before anything is committed to
        self.pack.check_closes(self.window.close_source)
        ids = [agent.identity.agent_id for agent in self.agents]
        if not ids or len(set(ids)) != len(ids):
            raise DecisionError(f"a run needs agents with unique ids, not {ids}")
        if not self.audit and all(identify(agent, audit=True) == identify(agent, audit=False) for agent in self.agents):
            raise ArgumentError(f"audit=False changes nothing, as no audit is made of {', '.join(ids):.200}: leave it out")
        _ = self.shards  # what can't be replayed is not committed to

    @cached_property
    def shards(self) -> tuple[tuple[int, ...], ...]:
        """The fixtures that are replayed together, shard after shard."""
        return sharded(self.pack, self.fixture_ids, self.agents)

    @property
    def fixture_ids(self) -> tuple[int, ...]:
        """The fixtures that are replayed, as plain integers, ascending."""
        return self.pack.fixture_ids if self.fixtures is None else tuple(sorted({int(one) for one in self.fixtures}))

    @cached_property
    def started(self) -> RunStarted:
        """Payload of RUN_STARTED, with the run id; sealed only if the agents pass the audit that is due."""
        return run_started(
            Binding(self.pack.pack_id, self.fixture_ids, self.pack.content_hash),
            self.pack.manifest.closing_policy,
            [identify(agent, audit=self.audit) for agent in self.agents],
            self.window,
            self.policy,
            max_close_age_s=self.pack.manifest.max_close_age_s,
            kind=self.kind,
            origin_id=self.origin_id,
        )

    @property
    def run_id(self) -> str:
        """``run_`` and 32 hex digits: the hash of everything that shapes the run."""
        return self.started["run_id"]
