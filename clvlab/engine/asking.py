"""Asking the agents of a run: all at once, each where nothing of it reaches what is scored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

import polars as pl

from clvlab.engine.agent import Agent, Identity, Isolated, decisions_of, fresh, sealable
from clvlab.engine.lookahead import lookahead_audit
from clvlab.engine.replay import locate
from clvlab.errors import DecisionError, LookaheadError
from clvlab.law.closing import Window
from clvlab.law.tape import Tape

_AGENTS_AT_ONCE, _ISOLATED_AT_ONCE = 8, 2  # an audit has several processes


@dataclass(frozen=True, slots=True)
class Question:
    """What every agent of a run is asked."""

    tape: Tape
    window: Window
    audit_seed: int | None


def asked(
    question: Question, agents: Sequence[tuple[Identity, Agent]], answered: Callable[[int], None]
) -> tuple[list[pl.DataFrame], dict[str, Exception]]:
    """Ask all agents at once; the run goes on without those that fail."""
    frames: list[pl.DataFrame] = []
    failed: dict[str, Exception] = {}
    at_once = _ISOLATED_AT_ONCE if any(isinstance(agent, Isolated) for _, agent in agents) else _AGENTS_AT_ONCE
    with ThreadPoolExecutor(min(len(agents), at_once)) as pool:
        answers = [pool.submit(_answer, question, identity, agent) for identity, agent in agents]
        for done, _ in enumerate(as_completed(answers), start=1):
            answered(done)
    for (identity, _), answer in zip(agents, answers, strict=True):
        error = answer.exception()  # an agent is foreign code: its failure is a fact of the run, not of the engine
        if error is None:
            frames.append(answer.result())
        elif isinstance(error, Exception):
            failed[identity.agent_id] = error
        else:
            raise error  # somebody wants to stop
    return frames, failed


def _answer(question: Question, identity: Identity, agent: Agent) -> pl.DataFrame:
    """Ask one agent, an isolated one after its audit and in a process that has seen nothing: its ``DECISIONS``, located."""
    name, tape, decided = identity.agent_id, question.tape, None
    sealable(identity)
    if isinstance(agent, Isolated) and not agent.steps and question.audit_seed is not None:
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
