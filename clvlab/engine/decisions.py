"""Ask the agents of a run for decisions, where they can't reach the scores. Each stepped agent runs alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from contextlib import ExitStack
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial

import polars as pl

from clvlab.engine.agent import Agent, Identity, ProcessAgent, decisions_of, fresh, sealable
from clvlab.engine.lookahead import (
    _ORDER,
    Drawing,
    DrawingOf,
    LookaheadReport,
    _checked_blindly,
    _chosen,
    _informative,
    _moved_by,
    _Plan,
    _prefix_decisions,
    _same,
    drawn,
    lookahead_audit,
)
from clvlab.engine.replay import locate
from clvlab.errors import AgentError, DecisionError, LogError, LookaheadError, StoreError
from clvlab.law.closing import Window
from clvlab.law.tape import Tape

# Agents that decide over whole frames get blocks of messages. An agent can't know beforehand where a block is cut.


BLOCKS = 48
_MAX_ROWS = 100_000  # of a blindly drawn fixture


def decisions_by_blocks(
    agent: Agent,
    tape: Tape,
    *,
    seed: int | Drawing,
    blocks: int = BLOCKS,
    window: Window | None = None,
) -> LookaheadReport:
    """Return the audit of an agent that gets a tape in blocks. ``moved`` has the decisions that a later block changed.

    1. A process decides over the whole tape, and ends.
    2. The tape is cut, as in an audit.
    3. A new process gets one more block each time. It must give the answers of the first process, which knew no cut. Otherwise
       it could look ahead within a block and repeat its answer later.
    4. Fixtures are drawn blindly, and judged as in an audit.

    Only a look ahead that crosses no cut stays unseen. The seed must be unknown to the agent, for example from ``secrets``.
    """
    if blocks < 2:
        raise AgentError(f"a tape is asked about in at least 2 blocks, not {blocks}")
    with fresh(agent, silent=True) as first:
        whole = decisions_of(first, tape)
    plan = _Plan(agent, window or Window(), blocks - 1, _MAX_ROWS, drawn(seed, whole))
    located = locate(tape, whole)
    with fresh(agent, grows=True) as process:
        answers = _prefix_decisions(process, tape, _cuts(plan, tape, located), plan)
        last = decisions_of(process, tape)
    moved = _moved_by(located, answers)
    name = agent.identity.agent_id
    if moved.is_empty() and not _same(whole, last):
        # A process that knows the cuts must agree with a process that does not, or the agent could cheat within each block.
        raise AgentError(f"agent {name!r} remembers, or draws lots: after all blocks it decides otherwise than at once")
    fixture_ids = tuple(tape.series["fixture_id"].unique().sort())
    report = LookaheadReport(name, plan.seed, tuple(sorted(answers)), moved, whole, fixture_ids)
    with ExitStack() as until:
        blind = until.enter_context(fresh(agent, silent=True))
        return _checked_blindly(plan, tape, report, blind, until.close)


def _cuts(plan: _Plan, tape: Tape, located: pl.DataFrame) -> list[tuple[int, int, int]]:
    messages = tape.messages.select(_ORDER).sort(_ORDER)
    anywhere = _chosen(messages.head(-1), -(-plan.cuts // 3), plan.seed)
    taken = {*anywhere, *messages.tail(1).rows()}
    informative = [cut for cut in _informative(tape, located, plan) if cut not in taken]
    return sorted([*anywhere, *informative[: plan.cuts - len(anywhere)]])


_AGENTS_AT_ONCE, _ISOLATED_AT_ONCE = 8, 2  # an audit has several processes
_ENDING_S = 0.05  # between two attempts to end an agent, whose next process may just be starting


@dataclass(frozen=True, slots=True)
class AgentQuestion:
    """A tape and window for all agents of a run. ``audit`` draws an audit from agent id and hash of answers, or is ``None``."""

    tape: Tape
    window: Window
    audit: DrawingOf | None


@dataclass(frozen=True, slots=True)
class AgentAnswers:
    """Decisions of agents. Audits, and errors of failed agents, are by agent id."""

    frames: list[pl.DataFrame]
    audits: dict[str, LookaheadReport]
    failed: dict[str, Exception]


def agent_answers(
    question: AgentQuestion, agents: Sequence[tuple[Identity, Agent]], answered: Callable[[int], None]
) -> AgentAnswers:
    """Ask all agents. The run continues without agents that fail."""
    found = AgentAnswers([], {}, {})
    stepped = [isinstance(agent, ProcessAgent) and agent.steps for _, agent in agents]
    at_once = _ISOLATED_AT_ONCE if any(isinstance(agent, ProcessAgent) for _, agent in agents) else _AGENTS_AT_ONCE
    answers: dict[str, Future[tuple[pl.DataFrame, LookaheadReport | None]]] = {}
    # Stepped agents run first and alone, because a process with later messages could signal to them by processor load.
    for steps, most in ((True, 1), (False, at_once)):
        pool = ThreadPoolExecutor(most)
        pending = {
            identity.agent_id: pool.submit(copy_context().run, _answer, question, identity, agent)
            for (identity, agent), is_stepped in zip(agents, stepped, strict=True)
            if is_stepped is steps
        }
        try:
            for done, _ in enumerate(as_completed(pending.values()), start=len(answers) + 1):
                answered(done)
        except BaseException:  # an interrupt or a cancellation, which a slow agent must not hold up
            pool.shutdown(wait=False, cancel_futures=True)
            while wait(pending.values(), _ENDING_S).not_done:
                for _, agent in agents:
                    if isinstance(agent, ProcessAgent):
                        agent.end()
            raise
        pool.shutdown()
        answers |= pending
    for identity, _ in agents:
        answer = answers[identity.agent_id]
        error = answer.exception()  # an agent is foreign code, and its failure is part of the run
        if isinstance(error, StoreError | LogError):  # a fault of the record keeper, not of the agent
            raise error
        if error is None:
            frame, report = answer.result()
            found.frames.append(frame)
            if report is not None:
                found.audits[identity.agent_id] = report
        elif isinstance(error, Exception):
            found.failed[identity.agent_id] = error
        else:
            raise error  # an interrupt
    # Each failed audit was an attempt. The report counts attempts, because the best of several looks clean by luck.
    missed = sum(who.agent_id in found.failed for who, agent in agents if _audit_of(question, who, agent) is not None)
    return replace(found, audits={name: report.with_failed(missed) for name, report in found.audits.items()})


def _audit_of(question: AgentQuestion, identity: Identity, agent: Agent) -> Callable[[], LookaheadReport] | None:
    if question.audit is None or not isinstance(agent, ProcessAgent) or agent.steps:
        return None
    audit = decisions_by_blocks if agent.blocks else lookahead_audit
    return partial(audit, agent, question.tape, seed=partial(question.audit, identity.agent_id), window=question.window)


def _answer(question: AgentQuestion, identity: Identity, agent: Agent) -> tuple[pl.DataFrame, LookaheadReport | None]:
    name, tape = identity.agent_id, question.tape
    sealable(identity)
    audit = _audit_of(question, identity, agent)
    if audit is not None:
        report = audit()
        if not report.passed:
            raise LookaheadError(f"{report!r}. Nothing was sealed")
        return located(name, tape, report.decisions), replace(report, decisions=report.decisions.clear())  # the run has them
    return located(name, tape, fresh_decisions(agent, tape)), None


def fresh_decisions(agent: Agent, tape: Tape) -> pl.DataFrame:
    with fresh(agent) as other:
        return decisions_of(other, tape)


def located(name: str, tape: Tape, decided: pl.DataFrame) -> pl.DataFrame:
    """Locate an agent's decisions on the tape; ``DecisionError`` for another agent id, or a tick that does not exist."""
    if decided.filter(pl.col("agent_id") != name).height:
        raise DecisionError(f"agent {name!r} returned decisions under another agent_id")
    return locate(tape, decided)
