"""Backtests: one agent over the fixtures of a pack, sealed."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import polars as pl
from pydantic import BaseModel

from clvlab.agents.isolation.isolated import IsolatedAgent, isolated
from clvlab.agents.registry import names_template, template
from clvlab.agents.template import Template
from clvlab.engine.agent import Agent, is_registered
from clvlab.engine.lookahead import LookaheadReport
from clvlab.engine.lookahead import lookahead_audit as audited
from clvlab.errors import AgentError, PolicyError
from clvlab.law.closing import Window
from clvlab.law.metrics import rank
from clvlab.law.policy import PolicyEnvelope
from clvlab.law.schema import OUTCOMES, SAFE_INTEGER
from clvlab.law.tape import Tape
from clvlab.packs.reader import Pack
from clvlab.runs.card import knowledge, may_hold_past, shown_causality
from clvlab.runs.perform import PerformedRun
from clvlab.runs.plan import Plan
from clvlab.store.sketches import Groups, sketches

_Settings = TypeVar("_Settings", Window, PolicyEnvelope)


def plan_backtest(
    pack: Pack,
    agent: str | Agent = "baseline",
    *,
    params: Mapping[str, Any] | None = None,
    fixture_ids: Sequence[int] | None = None,
    window: Window | None = None,
    policy: PolicyEnvelope | None = None,
    audit: bool = True,
) -> Plan:
    """Plan a backtest.

    Parameters
    ----------
    pack
        What to replay.
    agent
        Name of a template, ``file.py:name`` of an agent, or an agent.
    params
        Parameters of a template or strategy; a template's ``markets`` is the window's allowlist unless given.
    fixture_ids
        All fixtures of the pack by default, in one run.
    window
        ``pre_match`` with a horizon of 60 s over all markets by default.
    policy
        Limits under which actions are executed on paper.
    audit
        Whether an agent of one's own is audited for look-ahead before the run is sealed.

    Raises
    ------
    UnknownAgentError, AgentError, UnknownFixtureError, WindowError, DecisionError
    """
    window = window or Window()
    return Plan(pack, [resolve(agent, params, window)], window, policy or PolicyEnvelope(), fixture_ids, audit=audit)


def resolve(agent: str | Agent, params: Mapping[str, Any] | None = None, window: Window | None = None) -> Agent:
    """Find an agent: by the name of its template, as ``file.py:name``, or as itself; with other parameters if any are given.

    Raises
    ------
    UnknownAgentError
        No such template, file or name in it.
    AgentError
        A parameter that the agent does not have, or a value out of its range.
    """
    given = dict(params or {})
    if names_template(agent):
        return template(agent, {"markets": (window or Window()).market_allowlist} | given)
    if isinstance(agent, IsolatedAgent) and not is_registered(agent):  # it comes from another process
        agent = IsolatedAgent.with_params(agent)
    if isinstance(agent, str) or not is_registered(agent):
        return isolated(agent, params=given)
    if not given:
        return agent
    if not isinstance(agent, IsolatedAgent):
        raise AgentError(
            f"{type(agent).__name__} takes no parameters here, as {next(iter(given))!r:.80}: make the agent with them"
        )
    return agent.with_params(**given)


def rename(agent: Agent, agent_id: str) -> Agent:
    """Return an agent under another name.

    Raises
    ------
    AgentError
        An agent whose name is its own: neither a template nor a strategy.
    """
    if isinstance(agent, Template):
        return template(agent.strategy, dict(agent.config), agent_id=agent_id)
    if isinstance(agent, IsolatedAgent):
        return agent.with_params(agent_id)
    raise AgentError(f"{type(agent).__name__} can't be entered as {agent_id!r}: make it with that agent_id")


def lookahead_audit(
    agent: str | Agent, tape: Tape, *, cuts: int = 24, seed: int | None = None, max_rows: int = 100_000
) -> LookaheadReport:
    """Audit an agent as the engine does before it seals; with a seed of one's own, at the same cuts again."""
    chosen = secrets.randbelow(SAFE_INTEGER) if seed is None else seed
    return audited(resolve(agent), tape, cuts=cuts, seed=chosen, max_rows=max_rows)


def envelope(limits: Mapping[str, Any]) -> PolicyEnvelope:
    """Make a policy of some limits by name, defaults for the others.

    Raises
    ------
    PolicyError
        An unknown limit, or a value out of its range.
    """
    known = [field.name for field in fields(PolicyEnvelope)]
    unknown = limits.keys() - set(known)
    if unknown:
        raise PolicyError(f"a policy has no limit {min(unknown)!r}; it has: {', '.join(known)}")
    return PolicyEnvelope(**limits)


def settings_in(body: BaseModel, kind: type[_Settings]) -> _Settings:
    """Return the window, or the policy, that the fields of a body say; defaults for those that it does not have.

    Raises
    ------
    WindowError, PolicyError
    """
    known = type(body).model_fields
    return kind(**{one.name: getattr(body, one.name) for one in fields(kind) if one.name in known})


def leaderboard(backtests: Sequence[PerformedRun]) -> pl.DataFrame:
    """Rank agents over several backtests: ``OUTCOMES`` with a rank, by mean CLV."""
    frames = [pl.DataFrame(schema=OUTCOMES), *(backtest.result.outcomes for backtest in backtests)]
    return rank(pl.concat(frames))


def board(backtests: Sequence[PerformedRun]) -> pl.DataFrame:
    """Rank agents as ``leaderboard`` does, those that can't hold the past before the others, one for all that decide alike.

    Beside ``OUTCOMES`` and the rank: ``hindsight_possible``, and in ``others`` how many more decide alike.
    """
    frame = pl.concat([pl.DataFrame(schema=OUTCOMES), *(backtest.result.outcomes for backtest in backtests)])
    rows = [row | {"position": position} for position, row in enumerate(row for one in backtests for row in _facts(one))]
    groups = Groups()
    first = [found["position"] if (found := groups.place(row)) else row["position"] for row in rows]
    told = frame.with_columns(
        pl.Series("hindsight_possible", [row["hindsight_possible"] for row in rows], dtype=pl.Boolean),
        pl.Series("others", [first.count(row["position"]) - 1 for row in rows], dtype=pl.Int64),
        pl.Series("leads", [position == at for at, position in enumerate(first)], dtype=pl.Boolean),
    )
    return rank(told).filter("leads").drop("leads").sort("hindsight_possible", maintain_order=True)


def _facts(backtest: PerformedRun) -> list[dict[str, Any]]:
    """Return how each agent of a run decided, and what; in the order of its outcomes."""
    started, agent_ids = backtest.started, backtest.result.outcomes["agent_id"].to_list()
    made = sketches(backtest.scores, str(started["binding"]["content_hash"]), agent_ids)
    agents = {agent["agent_id"]: agent for agent in started["agents"]}
    return [
        {
            "causality": shown_causality(agents[agent_id]),
            "knowledge": knowledge(started["source_mode"]),
            "hindsight_possible": may_hold_past(agents[agent_id], started["source_mode"]),
            "sketch": made[agent_id],
        }
        for agent_id in agent_ids
    ]
