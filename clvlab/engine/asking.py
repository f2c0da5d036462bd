"""Asking the agents of a run: each where nothing of it reaches what is scored, and the stepped ones each by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial

import polars as pl

from clvlab.engine.agent import Agent, Identity, Isolated, decisions_of, fresh, sealable
from clvlab.engine.blocks import asked_by_blocks
from clvlab.engine.lookahead import DrawingOf, LookaheadReport, lookahead_audit
from clvlab.engine.replay import locate
from clvlab.errors import DecisionError, LogError, LookaheadError, StoreError
from clvlab.law.closing import Window
from clvlab.law.tape import Tape

_AGENTS_AT_ONCE, _ISOLATED_AT_ONCE = 8, 2  # an audit has several processes


@dataclass(frozen=True, slots=True)
class Question:
    """What every agent of a run is asked, and what draws its audit, given its id and a hash of its answers; null of none."""

    tape: Tape
    window: Window
    audit: DrawingOf | None


@dataclass(frozen=True, slots=True)
class Asked:
    """What agents decided, what audits of them found, and what ended those that failed; the latter two by agent id."""

    frames: list[pl.DataFrame]
    audits: dict[str, LookaheadReport]
    failed: dict[str, Exception]


def asked(question: Question, agents: Sequence[tuple[Identity, Agent]], answered: Callable[[int], None]) -> Asked:
    """Ask all agents; the run goes on without those that fail.

    Those that are asked step by step come first, one after the other, and the others at once: a process that has seen later
    messages, of another agent or of one that was faster, would tell one that has not by the work that it does beside it.
    """
    found = Asked([], {}, {})
    stepped = [isinstance(agent, Isolated) and agent.steps for _, agent in agents]
    at_once = _ISOLATED_AT_ONCE if any(isinstance(agent, Isolated) for _, agent in agents) else _AGENTS_AT_ONCE
    answers: dict[str, Future[tuple[pl.DataFrame, LookaheadReport | None]]] = {}
    for steps, most in ((True, 1), (False, at_once)):
        with ThreadPoolExecutor(most) as pool:
            asked_now = {
                identity.agent_id: pool.submit(_answer, question, identity, agent)
                for (identity, agent), is_stepped in zip(agents, stepped, strict=True)
                if is_stepped is steps
            }
            for done, _ in enumerate(as_completed(asked_now.values()), start=len(answers) + 1):
                answered(done)
        answers |= asked_now
    for identity, _ in agents:
        answer = answers[identity.agent_id]
        error = answer.exception()  # an agent is foreign code: its failure is a fact of the run, not of the engine
        if isinstance(error, StoreError | LogError):  # of who keeps the record, not of the agent
            raise error
        if error is None:
            frame, report = answer.result()
            found.frames.append(frame)
            if report is not None:
                found.audits[identity.agent_id] = report
        elif isinstance(error, Exception):
            found.failed[identity.agent_id] = error
        else:
            raise error  # somebody wants to stop
    missed = sum(who.agent_id in found.failed for who, agent in agents if _audit_of(question, who, agent) is not None)
    return replace(found, audits={name: report.beside(missed) for name, report in found.audits.items()})


def _audit_of(question: Question, identity: Identity, agent: Agent) -> Callable[[], LookaheadReport] | None:
    """Return what audits an agent, or asks it by blocks; null of one that is asked without."""
    if question.audit is None or not isinstance(agent, Isolated) or agent.steps:
        return None
    audit = asked_by_blocks if agent.blocks else lookahead_audit
    return partial(audit, agent, question.tape, seed=partial(question.audit, identity.agent_id), window=question.window)


def _answer(question: Question, identity: Identity, agent: Agent) -> tuple[pl.DataFrame, LookaheadReport | None]:
    """Ask one agent, an isolated one after its audit or by blocks, where nothing was seen: its ``DECISIONS``, located."""
    name, tape = identity.agent_id, question.tape
    sealable(identity)
    audit = _audit_of(question, identity, agent)
    if audit is not None:
        report = audit()
        if not report.passed:
            raise LookaheadError(f"{report!r}. Nothing was sealed")
        return located(name, tape, report.decisions), replace(report, decisions=report.decisions.clear())  # they are the run's
    return located(name, tape, asked_once(agent, tape)), None


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
