"""An agent that decides over whole frames, asked by blocks of messages: cut where nobody knew before."""

from __future__ import annotations

from contextlib import ExitStack

import polars as pl

from clvlab.engine.agent import Agent, decisions_of, fresh
from clvlab.engine.lookahead import (
    _ORDER,
    Drawing,
    LookaheadReport,
    _asked_on_prefixes,
    _checked_blindly,
    _chosen,
    _moved_by,
    _Plan,
    _same,
    _telling,
    drawn,
)
from clvlab.engine.replay import locate
from clvlab.errors import AgentError
from clvlab.law.closing import Window
from clvlab.law.tape import Tape

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
