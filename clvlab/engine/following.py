"""Agents that are asked message by message, as messages come: what was decided stands, whatever comes later."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, runtime_checkable

import polars as pl

from clvlab.engine.agent import Agent, unchecked_decisions
from clvlab.errors import LookaheadError
from clvlab.law.actions import DECISION_COLUMNS, Decision
from clvlab.law.message import Message, ticks_of
from clvlab.law.schema import TICKS
from clvlab.law.tape import Tape

_ORDER = ["fixture_id", "tick_seq", "action", "market_key", "side"]
_MAX_CHUNKS = 64


class Follower(Protocol):
    """One agent in one run."""

    def take(self, message: Message) -> Sequence[Decision]:
        """Return what the agent decides at a message, which comes after all that were taken before."""
        ...


@runtime_checkable
class Followable(Protocol):
    """An agent that has a way of its own to decide message by message."""

    def following(self, fixtures: pl.DataFrame) -> AbstractContextManager[Follower]:
        """Begin to follow one run; ``fixtures`` is ``FIXTURES`` as announced."""
        ...


def following(agent: Agent, fixtures: pl.DataFrame) -> AbstractContextManager[Follower]:
    """Return what decides message by message as an agent does: by its own way, or anew over each prefix."""
    return agent.following(fixtures) if isinstance(agent, Followable) else nullcontext(Redeciding(agent, fixtures))


class Redeciding:
    """Follows with any agent: it decides anew over all messages so far, and must decide the same about the earlier ones.

    Parameters
    ----------
    agent
        Asked for its decisions over a tape.
    fixtures
        ``FIXTURES`` as announced.
    """

    def __init__(self, agent: Agent, fixtures: pl.DataFrame) -> None:
        self._agent, self._fixtures = agent, fixtures
        self._ticks = pl.DataFrame(schema=TICKS)
        self._decided = pl.DataFrame(schema=DECISION_COLUMNS)

    def take(self, message: Message) -> Sequence[Decision]:
        """Return the decisions at a message.

        Raises
        ------
        LookaheadError
            Decisions at earlier messages are not what they were.
        """
        self._ticks.vstack(ticks_of([message]), in_place=True)
        if self._ticks.n_chunks() > _MAX_CHUNKS:
            self._ticks = self._ticks.rechunk()
        tape = Tape.from_ticks(self._ticks, self._fixtures)
        decided = unchecked_decisions(self._agent, tape).select(*DECISION_COLUMNS).sort(_ORDER, nulls_last=False)
        at = (pl.col("fixture_id") == message.fixture_id) & (pl.col("tick_seq") == message.tick_seq)
        earlier = decided.filter(~at)
        if not earlier.equals(self._decided):
            raise LookaheadError(
                f"at tick {message.tick_seq} of fixture {message.fixture_id} decisions at earlier ticks changed: "
                f"{earlier.height} of them, where {self._decided.height} stood"
            )
        self._decided = decided
        new: list[Decision] = list(decided.filter(at).iter_rows())
        return new
