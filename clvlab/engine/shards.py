"""Agents over the shards of a pack: asked about some fixtures after others, which shapes no byte of what is sealed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain

import polars as pl

from clvlab.engine.agent import Agent, Identity, Isolated
from clvlab.engine.asking import Question, asked
from clvlab.engine.lookahead import DrawingOf, LookaheadReport
from clvlab.engine.replay import Replay, backed, looked_up
from clvlab.errors import ClvlabError, DecisionError
from clvlab.law.closing import Window
from clvlab.law.schema import ClosingPolicy
from clvlab.law.tape import Binding, Tape

_AT_ONCE = 2  # much of the work on a shard is done by a single thread

Read = Callable[[], Tape]
Roster = Sequence[tuple[Identity, Agent]]


@dataclass(frozen=True, slots=True)
class Decided:
    """What agents decided on all shards.

    Attributes
    ----------
    binding, closing_policy, max_close_age_s
        Of the pack.
    parts
        What was looked up on each shard, of the agents that failed on none.
    failed
        What ended the others, by agent id.
    audits
        What was found of those that were audited, by agent id; of one tape alone, as one of shards speaks for no other.
    """

    binding: Binding
    closing_policy: ClosingPolicy
    max_close_age_s: int | None
    parts: list[Replay]
    failed: Mapping[str, Exception]
    audits: Mapping[str, LookaheadReport]


def decided(
    reads: Sequence[Read],
    roster: Roster,
    window: Window,
    audit: DrawingOf | None,
    answered: Callable[[int, int], None],
) -> Decided:
    """Ask agents about the tape of each shard, and look their decisions up on it.

    Parameters
    ----------
    reads
        What reads the shards, in their order; no more than two stand in memory.
    roster
        The agents, in order of their ids.
    window, answered
        As for ``run``.
    audit
        Draws the audit of an isolated agent, given its id and a hash of its answers; null of no audit.

    Raises
    ------
    ClvlabError
        No agent is left: that of the last one.
    """
    failed: dict[str, Exception] = {}
    total = len(roster) * len(reads)

    def shard(read: Read) -> Decided:
        tape = read()
        left = [(identity, agent) for identity, agent in roster if identity.agent_id not in failed]
        told = answered if len(reads) == 1 else _nobody
        found = asked(Question(tape, window, audit), left, lambda done: told(done, total))
        parts = [looked_up(tape, pl.concat(found.frames), window)] if found.frames else []
        return Decided(tape.binding, tape.closing_policy, tape.max_close_age_s, parts, found.failed, found.audits)

    answered(0, total)
    shards: list[Decided] = []
    for one in _each(shard, reads, alone=any(isinstance(agent, Isolated) for _, agent in roster)):
        failed |= {agent_id: error for agent_id, error in one.failed.items() if agent_id not in failed}
        if len(failed) == len(roster):
            raise _last(failed)
        shards.append(one)
        if len(reads) > 1:
            answered(len(roster) * len(shards), total)
    fixture_ids = chain.from_iterable(one.binding.fixture_ids for one in shards)
    binding = replace(shards[0].binding, fixture_ids=tuple(sorted(fixture_ids)))
    parts = [_without(part, failed) for one in shards for part in one.parts]
    audits = shards[0].audits if len(shards) == 1 else {}
    return replace(shards[0], binding=binding, parts=parts, failed=failed, audits=audits)


def _nobody(done: int, total: int) -> None:
    """Pass over who has answered on one of several shards."""


def _each(shard: Callable[[Read], Decided], reads: Sequence[Read], *, alone: bool) -> Iterator[Decided]:
    """Yield what comes of each shard, in their order."""
    if alone or len(reads) == 1:
        yield from map(shard, reads)
        return
    pool = ThreadPoolExecutor(_AT_ONCE)
    try:
        yield from pool.map(shard, reads)
    finally:
        pool.shutdown(cancel_futures=True)


def _without(part: Replay, failed: Mapping[str, Exception]) -> Replay:
    """Return what is left of a shard when nothing counts that was decided by those who failed, on this one or another."""
    if not failed:
        return part
    decisions = part.decisions.filter(~pl.col("agent_id").is_in(list(failed)))
    markets = backed(decisions)
    return Replay(decisions, part.closes.join(markets, on=markets.columns, how="semi", maintain_order="left"))


def _last(failed: Mapping[str, Exception]) -> Exception:
    """Return the error of a run whose agents all failed: that of the last one."""
    agent_id, error = max(failed.items())
    if isinstance(error, ClvlabError):
        return error
    found = DecisionError(f"agent {agent_id!r} failed with {type(error).__name__}: {error}")
    found.__cause__ = error
    return found
