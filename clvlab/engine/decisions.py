"""Asking the agents of a run: each where nothing of it reaches what is scored, and the stepped ones each by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

import polars as pl

from clvlab.engine.agent import Agent, Identity, ProcessAgent, decisions_of, fresh, sealable
from clvlab.engine.lookahead import (
    _ORDER,
    Drawing,
    DrawingOf,
    LookaheadReport,
    _asked_on_prefixes,
    _checked_blindly,
    _chosen,
    _moved_by,
    _Plan,
    _same,
    _telling,
    drawn,
    lookahead_audit,
)
from clvlab.engine.replay import locate
from clvlab.errors import AgentError, DecisionError, LogError, LookaheadError, StoreError
from clvlab.law.closing import Window
from clvlab.law.tape import Tape

# An agent that decides over whole frames, asked by blocks of messages: cut where nobody knew before.


BLOCKS = 48
_MAX_ROWS = 100_000  # of a fixture that is drawn blindly


def asked_by_blocks(
    agent: Agent,
    tape: Tape,
    *,
    seed: int | Drawing,
    blocks: int = BLOCKS,
    window: Window | None = None,
) -> LookaheadReport:
    """Ask an agent about a tape in blocks, each after its answer on those before; no decision may rest on a later block.

    Steps: 1. a process is asked about the whole, and ended; 2. the tape is cut, as in an audit: a third of the cuts anywhere, a
    third where the agent decided without prices, the others where it gained; 3. another process, which has seen nothing, gets
    one block more each time. What it answers at a message is what stands, and that of the first process, which knows no cut,
    must be the same: else the process could look ahead within a block, and repeat at later blocks what it once said.
    4. Fixtures are drawn without a look at decisions, and judged as in an audit.

    An agent that decides by the messages so far alone decides as it does when it is asked at once. What is left to one that
    looks ahead is what meets no cut.

    Parameters
    ----------
    agent
        A template or an isolated agent.
    tape
        What it decides on: all of it, however long.
    seed
        Chooses the cuts, or draws what does, as in ``lookahead_audit``. An agent that knows it can dodge: take one from
        ``secrets``.
    blocks
        How many there are at most, at least 2.
    window
        What scores; the default window without one.

    Returns
    -------
    LookaheadReport
        Decisions that the process did not answer as they stand over the whole are in ``moved``.

    Raises
    ------
    AgentError
        The agent answers differently when it is asked again, or ``blocks`` is less than 2.
    AgentFailedError
        It fails; a note says on which prefix.
    DecisionError
        Decisions that can't be sealed.
    """
    if blocks < 2:
        raise AgentError(f"a tape is asked about in at least 2 blocks, not {blocks}")
    with fresh(agent, silent=True) as first:
        whole = decisions_of(first, tape)
    plan = _Plan(agent, window or Window(), blocks - 1, _MAX_ROWS, drawn(seed, whole))
    located = locate(tape, whole)
    with fresh(agent, grows=True) as process:
        answers = _asked_on_prefixes(process, tape, _cuts(plan, tape, located))
        last = decisions_of(process, tape)
    moved = _moved_by(located, answers)
    name = agent.identity.agent_id
    if moved.is_empty() and not _same(whole, last):
        raise AgentError(f"agent {name!r} remembers, or draws lots: after all blocks it decides otherwise than at once")
    fixture_ids = tuple(tape.series["fixture_id"].unique().sort())
    report = LookaheadReport(name, plan.seed, tuple(sorted(answers)), moved, whole, fixture_ids)
    with ExitStack() as until:
        blind = until.enter_context(fresh(agent, silent=True))
        return _checked_blindly(plan, tape, report, blind, until.close)


def _cuts(plan: _Plan, tape: Tape, located: pl.DataFrame) -> list[tuple[int, int, int]]:
    """Choose the last messages of all blocks but the last, in order."""
    messages = tape.messages.select(_ORDER).sort(_ORDER)
    anywhere = _chosen(messages.head(-1), -(-plan.cuts // 3), plan.seed)
    taken = {*anywhere, *messages.tail(1).rows()}
    telling = [cut for cut in _telling(tape, located, plan) if cut not in taken]
    return sorted([*anywhere, *telling[: plan.cuts - len(anywhere)]])


_AGENTS_AT_ONCE, _ISOLATED_AT_ONCE = 8, 2  # an audit has several processes


@dataclass(frozen=True, slots=True)
class AgentQuestion:
    """What every agent of a run is asked, and what draws its audit, given its id and a hash of its answers; null of none."""

    tape: Tape
    window: Window
    audit: DrawingOf | None


@dataclass(frozen=True, slots=True)
class AgentAnswers:
    """What agents decided, what audits of them found, and what ended those that failed; the latter two by agent id."""

    frames: list[pl.DataFrame]
    audits: dict[str, LookaheadReport]
    failed: dict[str, Exception]


def asked(question: AgentQuestion, agents: Sequence[tuple[Identity, Agent]], answered: Callable[[int], None]) -> AgentAnswers:
    """Ask all agents; the run goes on without those that fail.

    Those that are asked step by step come first, one after the other, and the others at once: a process that has seen later
    messages, of another agent or of one that was faster, would tell one that has not by the work that it does beside it.
    """
    found = AgentAnswers([], {}, {})
    stepped = [isinstance(agent, ProcessAgent) and agent.steps for _, agent in agents]
    at_once = _ISOLATED_AT_ONCE if any(isinstance(agent, ProcessAgent) for _, agent in agents) else _AGENTS_AT_ONCE
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


def _audit_of(question: AgentQuestion, identity: Identity, agent: Agent) -> Callable[[], LookaheadReport] | None:
    """Return what audits an agent, or asks it by blocks; null of one that is asked without."""
    if question.audit is None or not isinstance(agent, ProcessAgent) or agent.steps:
        return None
    audit = asked_by_blocks if agent.blocks else lookahead_audit
    return partial(audit, agent, question.tape, seed=partial(question.audit, identity.agent_id), window=question.window)


def _answer(question: AgentQuestion, identity: Identity, agent: Agent) -> tuple[pl.DataFrame, LookaheadReport | None]:
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
