"""The agents of a live run, asked at every message: one that fails stops, and the others go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import polars as pl

from clvlab.application.live.journal import Answers, Failure, Journal
from clvlab.engine.agent import Agent, Isolated
from clvlab.engine.following import Follower, following
from clvlab.engine.live import checked, error_of
from clvlab.engine.run import Failures
from clvlab.errors import ClvlabError, LookaheadError
from clvlab.law.actions import Decision
from clvlab.law.message import Message

_MAX_CAUSE = 2_000


class Asking:
    """The agents of one run; used as a context, which ends their processes.

    Parameters
    ----------
    agents
        With unique ids.
    fixtures
        ``FIXTURES`` as announced.
    journal
        What they decided before, if the run is taken up again: asked once more they must decide the same.

    Attributes
    ----------
    decided
        What each agent that has not failed decided so far.
    failures
        The others.
    """

    def __init__(self, agents: Sequence[Agent], fixtures: pl.DataFrame, journal: Journal) -> None:
        self._agents, self._fixtures, self._journal = agents, fixtures, journal
        self._followers: dict[str, tuple[Follower, bool]] = {}
        self._held: dict[str, ExitStack] = {}
        self.decided: dict[str, list[Decision]] = {}
        self._failed: dict[str, tuple[dict[str, Any], str]] = {}
        self._number, self._received_ts_ms = -1, 0

    def __enter__(self) -> Asking:
        with ExitStack() as stack:
            for agent in self._agents:
                name = agent.identity.agent_id
                held = self._held[name] = stack.enter_context(ExitStack())
                self._followers[name] = held.enter_context(following(agent, self._fixtures)), isinstance(agent, Isolated)
                self.decided[name] = []
            apart = sum(is_apart for _, is_apart in self._followers.values())
            self._pool = stack.enter_context(ThreadPoolExecutor(max(1, apart), thread_name_prefix="clvlab-live-agent"))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        for agent_id, held in self._held.items():
            try:
                held.close()
            except ClvlabError as failure:  # a file changed that it reads, for instance: the others have done nothing wrong
                if agent_id in self._followers:
                    answers = Answers(failed={agent_id: self._fail(agent_id, failure)})
                    self._journal.write(self._number, self._received_ts_ms, answers)
        self._stack.close()

    @property
    def messages(self) -> int:
        """How many messages they were asked at."""
        return self._number + 1

    @property
    def failures(self) -> Failures:
        ordered = sorted(self._failed.items())
        return Failures([error for _, (error, _) in ordered], {agent_id: cause for agent_id, (_, cause) in ordered})

    def at(self, message: Message, received_ts_ms: int) -> Answers:
        """Ask all agents at the next message; what they decided is on the disk when this returns."""
        self._number, self._received_ts_ms = self._number + 1, received_ts_ms
        known = self._journal.known.get(self._number)
        gone = {} if known is None else dict(known.failed)
        for agent_id, failure in gone.items():
            self._drop(agent_id, {"agent_id": agent_id, "error": failure.error, "fixture_id": None, "tick_seq": None}, failure)
        asked: dict[str, Callable[[], Sequence[Decision]]] = {
            agent_id: self._pool.submit(follower.take, message).result if apart else _later(follower, message)
            for agent_id, (follower, apart) in self._followers.items()
        }
        decided: dict[str, Sequence[Decision]] = {}
        failed: dict[str, Failure] = {}
        for agent_id, answer in asked.items():
            try:
                own = answer()
                checked(own, agent_id, message)
                self._compare(agent_id, own, known)
            except Exception as error:  # noqa: BLE001  an agent is foreign code: its failure is a fact of the run
                failed[agent_id] = self._fail(agent_id, error)
            else:
                self.decided[agent_id] += own
                if own:
                    decided[agent_id] = own
        answers = Answers(decided, failed)
        if (decided or failed) and (known is None or failed):
            self._journal.write(self._number, received_ts_ms, answers)
        return answers

    def _compare(self, agent_id: str, own: Sequence[Decision], known: Answers | None) -> None:
        """Refuse what an agent decides otherwise than it did before the process ended in which it was asked."""
        if known is None and self._number > self._journal.last:
            return
        before = [] if known is None else list(known.decided.get(agent_id, ()))
        if repr([tuple(one) for one in own]) != repr(before):  # a claim that is no number equals nothing, itself included
            raise LookaheadError(f"asked again, it decides otherwise at message {self._number} than it did: {before!s:.200}")

    def _fail(self, agent_id: str, error: Exception) -> Failure:
        stated = error_of(agent_id, error)
        failure = Failure(stated["error"], str(error)[:_MAX_CAUSE])
        self._drop(agent_id, stated, failure)
        return failure

    def _drop(self, agent_id: str, error: dict[str, Any], failure: Failure) -> None:
        self._followers.pop(agent_id, None)
        self.decided.pop(agent_id, None)
        self._failed[agent_id] = error, failure.cause


def _later(follower: Follower, message: Message) -> Callable[[], Sequence[Decision]]:
    return lambda: follower.take(message)
