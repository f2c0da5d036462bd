"""Specification of a run. It is complete before the run's data is opened or exists, and its hash is the run's id."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, TypeVar

from pydantic import BaseModel

from clvlab.agents.registry import names_template, template
from clvlab.agents.template import Template
from clvlab.engine.agent import Agent, identify, is_registered
from clvlab.engine.run import run_started
from clvlab.errors import AgentError, ArgumentError, DecisionError, PolicyError, UnknownFixtureError
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.law.tape import Binding
from clvlab.packs.reader import Pack
from clvlab.proof.manifest import RunStarted
from clvlab.runs.shards import sharded

_Settings = TypeVar("_Settings", Window, PolicyEnvelope)


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """Specification of a run over any data. ``kind`` is ``backtest``, ``competition``, ``deploy`` or ``live``."""

    agents: Sequence[Agent] = field(repr=False)
    window: Window = field(default_factory=Window)
    policy: PolicyEnvelope = field(default_factory=PolicyEnvelope)
    kind: str = "backtest"
    origin_id: str | None = None

    @property
    @abstractmethod
    def started(self) -> RunStarted:
        """Payload of RUN_STARTED, with the run id."""

    @property
    def run_id(self) -> str:
        """``run_`` and 32 hex digits of the hash of the specification."""
        return self.started["run_id"]


@dataclass(frozen=True, kw_only=True)
class ReplaySpec(RunSpec):
    """Specification of a run over all or some fixtures of a pack. ``audit`` audits users' agents for look-ahead."""

    pack: Pack
    fixtures: Sequence[int] | None = None
    audit: bool = True

    def __post_init__(self) -> None:
        known = set(self.pack.fixture_ids)
        for fixture_id in self.fixtures or ():
            if fixture_id not in known:
                raise UnknownFixtureError(fixture_id, self.pack.pack_id, self.pack.fixture_ids)
        self.pack.check_open(self.fixture_ids)  # before any commitment
        self.pack.check_closes(self.window.close_source)
        ids = [agent.identity.agent_id for agent in self.agents]
        if not ids or len(set(ids)) != len(ids):
            raise DecisionError(f"a run needs agents with unique ids, not {ids}")
        if not self.audit and all(identify(agent, audit=True) == identify(agent, audit=False) for agent in self.agents):
            raise ArgumentError(f"audit=False changes nothing, as no audit is made of {', '.join(ids):.200}: leave it out")
        _ = self.shards  # a run that can't be replayed is not committed to

    @cached_property
    def shards(self) -> tuple[tuple[int, ...], ...]:
        return sharded(self.pack, self.fixture_ids, self.agents)

    @property
    def fixture_ids(self) -> tuple[int, ...]:
        return self.pack.fixture_ids if self.fixtures is None else tuple(sorted({int(one) for one in self.fixtures}))

    @cached_property
    def started(self) -> RunStarted:
        """Payload of RUN_STARTED, with the run id. It is sealed only if the agents pass their audit."""
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


def backtest_spec(
    pack: Pack,
    agent: str | Agent = "baseline",
    *,
    params: Mapping[str, Any] | None = None,
    fixture_ids: Sequence[int] | None = None,
    window: Window | None = None,
    policy: PolicyEnvelope | None = None,
    audit: bool = True,
) -> ReplaySpec:
    """Return the specification of a backtest. A template's ``markets`` default to the window's allowlist."""
    window = window or Window()
    return ReplaySpec(
        agents=[resolve(agent, params, window)],
        window=window,
        policy=policy or PolicyEnvelope(),
        pack=pack,
        fixtures=fixture_ids,
        audit=audit,
    )


def resolve(agent: str | Agent, params: Mapping[str, Any] | None = None, window: Window | None = None) -> Agent:
    """Return an agent from a template name, a ``file.py:name`` or an agent. ``params`` replaces its parameters."""
    values = dict(params or {})
    if names_template(agent):
        return template(agent, {"markets": (window or Window()).market_allowlist} | values)

    from clvlab.agents.isolation.agent import IsolatedAgent, isolated  # a template needs no other process

    if isinstance(agent, IsolatedAgent) and not is_registered(agent):  # it comes from another process
        agent = IsolatedAgent.with_params(agent)
    if isinstance(agent, str) or not is_registered(agent):
        return isolated(agent, params=values)
    if not values:
        return agent
    if not isinstance(agent, IsolatedAgent):
        raise AgentError(
            f"{type(agent).__name__} takes no parameters here, as {next(iter(values))!r:.80}: make the agent with them"
        )
    return agent.with_params(**values)


def rename(agent: Agent, agent_id: str) -> Agent:
    """Return an agent under another name; ``AgentError`` unless it is a template or a strategy."""
    if isinstance(agent, Template):
        return template(agent.strategy, dict(agent.config), agent_id=agent_id)

    from clvlab.agents.isolation.agent import IsolatedAgent

    if isinstance(agent, IsolatedAgent):
        return agent.with_params(agent_id)
    raise AgentError(f"{type(agent).__name__} can't be entered as {agent_id!r}: make it with that agent_id")


def envelope(limits: Mapping[str, Any]) -> PolicyEnvelope:
    known = [field.name for field in fields(PolicyEnvelope)]
    unknown = limits.keys() - set(known)
    if unknown:
        raise PolicyError(f"a policy has no limit {min(unknown)!r}; it has: {', '.join(known)}")
    return PolicyEnvelope(**limits)


def settings_in(body: BaseModel, kind: type[_Settings]) -> _Settings:
    known = type(body).model_fields
    return kind(**{one.name: getattr(body, one.name) for one in fields(kind) if one.name in known})
