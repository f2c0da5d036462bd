"""A run: agents over one tape, sealed. The same inputs give the same bytes on every machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from clvlab.engine.agent import Agent, Identity, Isolated, decisions_of, fresh, identify, sealable
from clvlab.engine.lookahead import lookahead_audit
from clvlab.engine.paper import fills
from clvlab.engine.replay import locate, replay
from clvlab.errors import AgentFailedError, ClvlabError, DecisionError, LookaheadError
from clvlab.law.closing import Window, sealed_window
from clvlab.law.clv import scores
from clvlab.law.gate import verdicts
from clvlab.law.metrics import outcomes
from clvlab.law.policy import PolicyEnvelope
from clvlab.law.positions import positions, proposals
from clvlab.law.schema import LAW_VERSION, MODE_LABELS, Causality, ClosingPolicy, SourceMode
from clvlab.law.tape import Binding, Tape
from clvlab.proof.manifest import RUN_SCHEMA, config_hash, policy_hash, run_id
from clvlab.proof.seal import SealedRun, seal
from clvlab.proof.started import AgentStarted, RunStarted

_AGENTS_AT_ONCE, _ISOLATED_AT_ONCE = 8, 2  # an audit has several processes


@dataclass(frozen=True, slots=True)
class RunResult:
    """A sealed run and the frames it was sealed from.

    Attributes
    ----------
    run
        The bytes.
    decisions, closes
        ``DECISION_EVENTS`` and ``CLOSE_EVENTS``, in sealed order.
    scores, outcomes
        ``SCORES`` and ``OUTCOMES``.
    receipts
        ``RECEIPTS`` of the paper venue: no part of the seal.
    errors
        Payloads of AGENT_ERROR: the agents that failed.
    causes
        What the errors of these agents said, by agent id: no part of the seal, as it may name what is on this machine. Empty
        for a run that was read back.
    """

    run: SealedRun
    decisions: pl.DataFrame
    closes: pl.DataFrame
    scores: pl.DataFrame
    outcomes: pl.DataFrame
    receipts: pl.DataFrame
    errors: list[dict[str, Any]]
    causes: Mapping[str, str] = field(default_factory=dict)


def run(
    tape: Tape,
    agents: Sequence[Agent],
    window: Window,
    *,
    policy: PolicyEnvelope | None = None,
    audit_seed: int | None = None,
    labels: Mapping[str, Causality] | None = None,
    kind: str = "backtest",
    origin_id: str | None = None,
    commit_index: int | None = None,
    answered: Callable[[int, int], None] = lambda done, total: None,  # noqa: ARG005
) -> RunResult:
    """Let every agent decide on the same tape, judge by the policy, score by the law, and seal.

    Parameters
    ----------
    tape
        What is replayed.
    agents
        At least one; agent ids must be unique.
    window
        End rule, horizon and market universe.
    policy
        The limits under which actions are executed on paper; scores do not depend on it. The defaults by default.
    audit_seed
        Chooses the cuts at which isolated agents are audited for look-ahead before the run is sealed; no audit without one. The
        seal says which; the seed shapes no byte.
    labels
        Causality of each isolated agent by its id, where a sealed run is run again: its label says what was done then.
    kind, origin_id
        What asked for the run (``backtest``, ``competition``, ``deploy``) and its id, which enter the run id.
    commit_index
        Entry of a run log that committed to the run, which its manifest names.
    answered
        Called with how many of how many agents have answered, at first with 0; an error that it raises ends the run.

    Raises
    ------
    DecisionError
        No agent, two agents of one id, or decisions that can't be sealed.
    LookaheadError
        The only agent, or the last one left, decides by what comes later.
    """
    known = [(_labelled(identify(agent, audit=audit_seed is not None), agent, labels or {}), agent) for agent in agents]
    named = {identity.agent_id: (identity, agent) for identity, agent in known}
    if not agents or len(named) != len(agents):
        raise DecisionError(f"a run needs agents with unique ids, not {[identity.agent_id for identity, _ in known]}")
    ids = sorted(named)  # by code point, which is the order of bytes
    ask = _Question(tape, window, audit_seed)
    identities, frames, errors, causes = _asked(ask, [named[agent_id] for agent_id in ids], answered)
    policy = policy or PolicyEnvelope()
    started = run_started(
        tape.binding,
        tape.closing_policy,
        identities,
        window,
        policy,
        max_close_age_s=tape.max_close_age_s,
        kind=kind,
        origin_id=origin_id,
    )
    return judged(started, tape, frames, window, policy, Failures(errors, causes), commit_index=commit_index)


@dataclass(frozen=True, slots=True)
class Failures:
    """Agents that failed: payloads of AGENT_ERROR in byte order of their ids, and what their errors said."""

    errors: list[dict[str, Any]] = field(default_factory=list)
    causes: Mapping[str, str] = field(default_factory=dict)


def judged(
    started: RunStarted,
    tape: Tape,
    decided: pl.DataFrame,
    window: Window,
    policy: PolicyEnvelope,
    failures: Failures,
    *,
    commit_index: int | None = None,
    captured: str | None = None,
) -> RunResult:
    """Judge what agents decided by the policy, score it by the law, and seal.

    Parameters
    ----------
    started
        Payload of RUN_STARTED.
    tape
        What was decided on.
    decided
        ``DECISIONS`` of all agents that did not fail, as ``locate`` found them on the tape.
    window, policy
        As ``started`` has them.
    failures
        Of the other agents.
    commit_index
        As for ``run``.
    captured
        Content hash of the tape's pack, of a live run.
    """
    replayed = replay(tape, decided, window, errors=len(failures.errors))
    placed = positions(replayed.decisions, replayed.closes)
    proposed = proposals(replayed.decisions, placed)
    decisions = replayed.decisions.hstack(verdicts(proposed, policy, window.market_allowlist))
    scored = scores(placed, window, tape.max_close_age_s)
    sealed = seal(started, decisions, failures.errors, replayed.closes, scored, commit_index, captured)
    receipts = fills(sealed.run_id, decisions, proposed, policy)
    board = outcomes(scored, tuple(agent["agent_id"] for agent in started["agents"]))
    return RunResult(sealed, decisions, replayed.closes, scored, board, receipts, failures.errors, failures.causes)


def _labelled(identity: Identity, agent: Agent, labels: Mapping[str, Causality]) -> Identity:
    carried = labels.get(identity.agent_id) if isinstance(agent, Isolated) else None
    return identity if carried is None else replace(identity, causality=carried)


@dataclass(frozen=True, slots=True)
class _Question:
    """What every agent of a run is asked."""

    tape: Tape
    window: Window
    audit_seed: int | None


def _asked(
    question: _Question, agents: Sequence[tuple[Identity, Agent]], answered: Callable[[int, int], None]
) -> tuple[list[Identity], pl.DataFrame, list[dict[str, Any]], dict[str, str]]:
    """Ask all agents at once; one that fails stops, and the run goes on without it, unless it was the last one."""
    identities: list[Identity] = []
    frames: list[pl.DataFrame] = []
    errors: list[dict[str, Any]] = []
    causes: dict[str, str] = {}
    at_once = _ISOLATED_AT_ONCE if any(isinstance(agent, Isolated) for _, agent in agents) else _AGENTS_AT_ONCE
    with ThreadPoolExecutor(min(len(agents), at_once)) as pool:
        answers = [pool.submit(_answer, question, identity, agent) for identity, agent in agents]
        answered(0, len(agents))
        for done, _ in enumerate(as_completed(answers), start=1):
            answered(done, len(agents))
    for (identity, _), answer in zip(agents, answers, strict=True):
        error = answer.exception()  # an agent is foreign code: its failure is a fact of the run, not of the engine
        if error is not None and not isinstance(error, Exception):
            raise error  # somebody wants to stop
        if error is None:
            identities.append(identity)
            frames.append(answer.result())
            continue
        if len(errors) == len(agents) - 1:
            if isinstance(error, ClvlabError):
                raise error
            raise DecisionError(f"agent {identity.agent_id!r} failed with {type(error).__name__}: {error}") from error
        kind = error.kind if isinstance(error, AgentFailedError) else type(error).__name__
        errors.append({"agent_id": identity.agent_id, "error": kind, "fixture_id": None, "tick_seq": None})
        causes[identity.agent_id] = str(error)
        identities.append(identity)
    return identities, pl.concat(frames), errors, causes


def _answer(question: _Question, identity: Identity, agent: Agent) -> pl.DataFrame:
    """Ask one agent, an isolated one after its audit and in a process that has seen nothing: its ``DECISIONS``, located."""
    name, tape, decided = identity.agent_id, question.tape, None
    sealable(identity)
    if isinstance(agent, Isolated) and question.audit_seed is not None:
        report = lookahead_audit(agent, tape, seed=question.audit_seed, window=question.window)
        if not report.passed:
            raise LookaheadError(f"{report!r}. Nothing was sealed")
        decided = report.decisions
    return located(name, tape, asked_once(agent, tape) if decided is None else decided)


def asked_once(agent: Agent, tape: Tape) -> pl.DataFrame:
    """Return ``DECISIONS`` of an agent that has seen nothing."""
    with fresh(agent) as other:
        return decisions_of(other, tape)


def located(name: str, tape: Tape, decided: pl.DataFrame) -> pl.DataFrame:
    """Find the ticks of an agent's decisions on the tape.

    Raises
    ------
    DecisionError
        A decision is under another name, or at a tick that the tape does not have.
    """
    if decided.filter(pl.col("agent_id") != name).height:
        raise DecisionError(f"agent {name!r} returned decisions under another agent_id")
    return locate(tape, decided)


def run_started(
    binding: Binding,
    closing_policy: ClosingPolicy,
    agents: Sequence[Identity],
    window: Window,
    policy: PolicyEnvelope,
    *,
    max_close_age_s: int | None,
    kind: str = "backtest",
    origin_id: str | None = None,
    source_mode: SourceMode = SourceMode.REPLAY,
) -> RunStarted:
    """Return the payload of RUN_STARTED, ``run_id`` included: all that shapes the result, known before the tape is opened.

    A live run has no tape yet: its binding names the fixtures alone.
    """
    envelope = policy.payload(window.market_allowlist)
    payload: RunStarted = {
        "run_id": "",  # made of all else
        "schema": RUN_SCHEMA,
        "kind": kind,
        "origin_id": origin_id,
        "source_mode": source_mode.value,
        "mode_label": MODE_LABELS[source_mode],
        "law_version": LAW_VERSION,
        "window": sealed_window(window, closing_policy, max_close_age_s),
        "binding": {
            "pack_id": binding.pack_id,
            "fixture_ids": list(binding.fixture_ids),
            "content_hash": binding.content_hash,
        },
        "agents": [_agent(identity) for identity in sorted(agents, key=lambda identity: identity.agent_id)],
        "policy": envelope,
        "policy_hash": policy_hash(envelope),
    }
    return {**payload, "run_id": run_id(payload)}


def _agent(identity: Identity) -> AgentStarted:
    config = sealable(identity)
    agent: AgentStarted = {
        "agent_id": identity.agent_id,
        "strategy": identity.strategy,
        "strategy_version": identity.strategy_version,
        "config": config,
        "config_hash": config_hash(identity.strategy, identity.strategy_version, config),
        "proof_mode": identity.proof_mode,
        "causality": identity.causality,
        "source_sha256": identity.source_sha256,
    }
    if identity.reads:
        agent["reads"] = [{"name": name, "sha256": digest} for name, digest in identity.reads]
    if identity.network:
        agent["network"] = True
    return agent
