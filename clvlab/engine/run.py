"""Sealed runs of agents over one tape. The same inputs give the same bytes on every machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
import orjson
import polars as pl

from clvlab.engine.agent import Agent, Identity, ProcessAgent, identify, sealable
from clvlab.engine.decisions import AgentQuestion, agent_answers
from clvlab.engine.lookahead import Draw, DrawingOf, LookaheadReport
from clvlab.engine.replay import with_seq, with_states, without_agents
from clvlab.errors import AgentFailedError, ClvlabError, DecisionError
from clvlab.law.closing import Window, sealed_window
from clvlab.law.clv import scores
from clvlab.law.gate import PostQuote, PreQuote, Verdicts, listed, verdicts
from clvlab.law.lines import Categorical, Column, Proposals, frame_of, known
from clvlab.law.metrics import outcomes
from clvlab.law.policy import PAPER_VENUE, ExecutionMode, PolicyEnvelope
from clvlab.law.positions import positions, proposals
from clvlab.law.schema import LAW_VERSION, MODE_LABELS, RECEIPTS, Causality, ClosingPolicy, Held, SourceMode
from clvlab.law.tape import Binding, Tape
from clvlab.proof.events import Events
from clvlab.proof.evidence import Evidence
from clvlab.proof.limits import check_started
from clvlab.proof.manifest import RunStarted, SealedAgent, config_hash, policy_hash, run_id, run_schema
from clvlab.proof.seal import SealedRun, seal

# The paper venue fills allowed actions at the quote that the agent saw, without an invented price or a real market.


def fills(run_id: str, proposals: Proposals, judged: Verdicts, envelope: PolicyEnvelope) -> pl.DataFrame:
    """Return ``RECEIPTS`` by ``decision_seq``. Each allowed action is filled at its quote, or is ``no_quote`` without one."""
    is_paper = envelope.execution_mode == ExecutionMode.PAPER
    rows = np.flatnonzero((judged.pre == 0) & (judged.post == 0) & is_paper)
    odds = proposals.odds_milli[rows]
    receipts: dict[str, Column] = {
        "run_id": Categorical(np.zeros_like(rows), [run_id]),
        "decision_seq": rows + 1,
        "agent_id": proposals.agent_id.take(rows),
        "ts_ms": proposals.ts_ms[rows],
        "venue": Categorical(np.zeros_like(rows), [PAPER_VENUE]),
        "status": Categorical(known(odds).astype(np.int64), ["no_quote", "filled"]),
        "stake": np.where(known(odds), proposals.stake[rows], 0),
        "odds_milli": odds,
    }
    return frame_of(receipts, RECEIPTS)


# Agents decide on the shards of a pack in turn. Sharding changes no sealed byte.


_AT_ONCE = 2  # much of the work on a shard is single-threaded

Read = Callable[[], Tape]
Roster = Sequence[tuple[Identity, Agent]]


@dataclass(frozen=True, slots=True)
class ReplayDecisions:
    """Decisions of agents on all shards.

    ``failed`` and ``audits`` are by agent id. A run over several shards has no audits, because the audit of one shard says
    nothing about the others.
    """

    binding: Binding
    closing_policy: ClosingPolicy
    max_close_age_s: int | None
    parts: list[Events]
    failed: Mapping[str, Exception]
    audits: Mapping[str, LookaheadReport]


def decided(
    reads: Sequence[Read],
    roster: Roster,
    window: Window,
    audit: DrawingOf | None,
    answered: Callable[[int, int], None],
) -> ReplayDecisions:
    """Ask agents about the tape of each shard, and return their decisions with states. At most two tapes are in memory."""
    failed: dict[str, Exception] = {}
    total = len(roster) * len(reads)

    def shard(read: Read) -> ReplayDecisions:
        tape = read()
        left = [(identity, agent) for identity, agent in roster if identity.agent_id not in failed]
        progress = answered if len(reads) == 1 else _nobody
        found = agent_answers(AgentQuestion(tape, window, audit), left, lambda done: progress(done, total))
        parts = [with_states(tape, pl.concat(found.frames), window)] if found.frames else []
        return ReplayDecisions(tape.binding, tape.closing_policy, tape.max_close_age_s, parts, found.failed, found.audits)

    answered(0, total)
    shards: list[ReplayDecisions] = []
    for one in _each(shard, reads, alone=any(isinstance(agent, ProcessAgent) for _, agent in roster)):
        failed |= {agent_id: error for agent_id, error in one.failed.items() if agent_id not in failed}
        if len(failed) == len(roster):
            raise _last(failed)
        shards.append(one)
        if len(reads) > 1:
            answered(len(roster) * len(shards), total)
    fixture_ids = chain.from_iterable(one.binding.fixture_ids for one in shards)
    binding = replace(shards[0].binding, fixture_ids=tuple(sorted(fixture_ids)))
    parts = [without_agents(part, failed) if failed else part for one in shards for part in one.parts]
    audits = shards[0].audits if len(shards) == 1 else {}
    return replace(shards[0], binding=binding, parts=parts, failed=failed, audits=audits)


def _nobody(done: int, total: int) -> None:
    """Ignore progress within one of several shards."""


def _each(shard: Callable[[Read], ReplayDecisions], reads: Sequence[Read], *, alone: bool) -> Iterator[ReplayDecisions]:
    if alone or len(reads) == 1:
        yield from map(shard, reads)
        return
    pool = ThreadPoolExecutor(_AT_ONCE)
    try:
        yield from pool.map(shard, reads)
    finally:
        pool.shutdown(cancel_futures=True)


def _last(failed: Mapping[str, Exception]) -> Exception:
    agent_id, error = max(failed.items())
    if isinstance(error, ClvlabError):
        return error
    found = DecisionError(f"agent {agent_id!r} failed with {type(error).__name__}: {error}")
    found.__cause__ = error
    return found


@dataclass(frozen=True, slots=True)
class RunResult:
    """A sealed run and its frames. ``receipts``, ``causes`` and ``audits`` (by agent id) are not part of the seal."""

    sealed: SealedRun
    evidence: Evidence
    scores: pl.DataFrame
    outcomes: pl.DataFrame
    receipts: pl.DataFrame
    causes: Mapping[str, str] = field(default_factory=dict)
    audits: Mapping[str, LookaheadReport] = field(default_factory=dict)


def run(
    tape: Tape | Sequence[Callable[[], Tape]],
    agents: Sequence[Agent],
    window: Window,
    *,
    policy: PolicyEnvelope | None = None,
    audit_seed: int | None = None,
    drawing: DrawingOf | None = None,
    again: RunStarted | None = None,
    kind: str = "backtest",
    origin_id: str | None = None,
    commit_index: int | None = None,
    answered: Callable[[int, int], None] = lambda done, total: None,  # noqa: ARG005
) -> RunResult:
    """Return a sealed run. Every agent decides on the tape, the policy judges, and the law scores.

    For agents that decide fixture by fixture, ``tape`` may be functions that read the shards of a pack. At most two shards are
    in memory, and the seal is the same. Without ``audit_seed`` or ``drawing``, isolated agents are not audited. ``drawing``
    makes a seed from agent id and hash of answers, for one tape only. ``again`` is RUN_STARTED of a sealed run to repeat.
    ``kind`` and ``origin_id`` enter the run id. ``answered`` gets the numbers of answers and agents, starting with 0 answers.
    An error raised by ``answered`` ends the run.
    """
    known = [(_as_then(identify(agent, audit=audit_seed is not None), again), agent) for agent in agents]
    named = {identity.agent_id: (identity, agent) for identity, agent in known}
    if not agents or len(named) != len(agents):
        raise DecisionError(f"a run needs agents with unique ids, not {[identity.agent_id for identity, _ in known]}")
    roster = [named[agent_id] for agent_id in sorted(named)]  # by code point, as bytes sort
    reads = [lambda: tape] if isinstance(tape, Tape) else list(tape)
    seed = audit_seed
    counted = drawing if len(reads) == 1 else None  # a shard has no answers on the whole tape
    audit = None if seed is None else counted or (lambda agent_id, answers: Draw(seed))  # noqa: ARG005
    found = decided(reads, roster, window, audit, answered)
    policy = policy or PolicyEnvelope()
    started = run_started(
        found.binding,
        found.closing_policy,
        [identity for identity, _ in roster],
        window,
        policy,
        max_close_age_s=found.max_close_age_s,
        kind=kind,
        origin_id=origin_id,
    )
    failures = _failures(found.failed)
    replayed = with_seq(found.parts, errors=len(failures.errors))
    done = judged(started, replayed, window, policy, failures, commit_index=commit_index)
    return replace(done, audits=found.audits)


@dataclass(frozen=True, slots=True)
class Failures:
    """Agents that failed: payloads of AGENT_ERROR in byte order of agent ids, and the texts of the errors."""

    errors: list[dict[str, Any]] = field(default_factory=list)
    causes: Mapping[str, str] = field(default_factory=dict)


def judged(
    started: RunStarted,
    replayed: Events,
    window: Window,
    policy: PolicyEnvelope,
    failures: Failures,
    *,
    commit_index: int | None = None,
    captured: str | None = None,
) -> RunResult:
    made, closes = replayed.lines
    located = positions(made, closes)
    proposed = proposals(made, located)
    judgement = verdicts(proposed, policy, window.market_allowlist)
    pre, post = listed(judgement.pre, PreQuote), listed(judgement.post, PostQuote)
    events = replace(replayed, decisions=replace(made, pre=pre, post=post))
    scored = scores(located, window, started["window"].get("max_close_age_s"))
    sealed = seal(started, events, failures.errors, scored, commit_index, captured)
    receipts = fills(sealed.run_id, proposed, judgement, policy)
    board = outcomes(scored, tuple(agent["agent_id"] for agent in started["agents"]))
    stated = orjson.loads(sealed.events.partition(b"\n")[0])["payload"]  # as read back from the bytes
    evidence = Evidence(stated, events, failures.errors, captured)
    return RunResult(sealed, evidence, scored, board, receipts, failures.causes)


def _as_then(identity: Identity, again: RunStarted | None) -> Identity:
    """Return an agent's identity with isolation and causality from a sealed run. A template's code can't differ."""
    if again is None:
        return identity
    labels = {agent["agent_id"]: Causality(agent["causality"]) for agent in again["agents"]}
    held = {one["agent_id"]: tuple(map(Held, one["held"])) for one in again.get("isolation", [])}
    causality = labels.get(identity.agent_id, identity.causality)
    return replace(identity, causality=causality, held=held.get(identity.agent_id, ()))


def _failures(failed: Mapping[str, Exception]) -> Failures:
    errors = [
        {
            "agent_id": agent_id,
            "error": error.kind if isinstance(error, AgentFailedError) else type(error).__name__,
            "fixture_id": None,
            "tick_seq": None,
        }
        for agent_id, error in sorted(failed.items())
    ]
    return Failures(errors, {agent_id: str(error) for agent_id, error in failed.items()})


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
    """Return the payload of RUN_STARTED, ``run_id`` included; ``EvidenceError`` if it is too long for readers.

    The payload has everything that shapes the result, and is known before the tape is opened. A live run binds fixtures only.
    """
    envelope = policy.payload(window.market_allowlist)
    payload: RunStarted = {
        "run_id": "",  # derived from all other fields
        "schema": "",  # derived from all other fields
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
    held = [(identity.agent_id, sorted(identity.held)) for identity in agents if identity.held]
    if held:
        payload["isolation"] = [{"agent_id": agent_id, "held": [*names]} for agent_id, names in sorted(held)]
    payload["schema"] = run_schema(payload)
    payload["run_id"] = run_id(payload)
    check_started(payload)
    return payload


def _agent(identity: Identity) -> SealedAgent:
    config = sealable(identity)
    agent: SealedAgent = {
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
