"""A live run: agents follow messages as they come, and what they decided is sealed when their fixture closes.

The run can be replayed over the pack that it captured: the same agents give the same decisions, byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import polars as pl

from clvlab.engine.agent import Agent, Identity, identify, unchecked_decisions
from clvlab.engine.decisions import asked_once, located
from clvlab.engine.replay import locate, replay
from clvlab.engine.run import Failures, RunResult, judged, run_started
from clvlab.errors import AgentFailedError, DecisionError, LookaheadError, WindowError
from clvlab.law.actions import DECISION_COLUMNS, Decision, check_decisions, decisions_of
from clvlab.law.closing import Window
from clvlab.law.message import Message, ticks_of
from clvlab.law.policy import PolicyEnvelope
from clvlab.law.schema import TICKS, Causality, ClosingPolicy, SourceMode
from clvlab.law.tape import Binding, Tape
from clvlab.proof.manifest import RunStarted

# Agents that are asked message by message, as messages come: what was decided stands, whatever comes later.


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
    return agent.following(fixtures) if isinstance(agent, Followable) else nullcontext(TapeFollower(agent, fixtures))


class TapeFollower:
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


def identify_live(agent: Agent) -> Identity:
    """Return an agent's identity as a live run seals it: it decides before later messages exist.

    Raises
    ------
    AgentError
        As ``identify``.
    """
    return replace(identify(agent, audit=False), causality=Causality.LIVE)


def live_started(
    fixture_ids: Sequence[int],
    agents: Sequence[Agent],
    window: Window,
    policy: PolicyEnvelope,
    *,
    kind: str,
    origin_id: str,
    closing_policy: ClosingPolicy = ClosingPolicy.LAST_STATE,
    max_close_age_s: int | None = None,
) -> RunStarted:
    """Return the payload of RUN_STARTED of a live run, which no data shapes; ``origin_id`` makes it the only one of its kind.

    Raises
    ------
    DecisionError
        No agent, or two agents of one id.
    AgentError
        As ``identify``.
    WindowError
        The window closes by a book.
    """
    if window.close_source is not None:
        raise WindowError(f"a live run closes by its feed: leave close_source {window.close_source!r:.80} out")
    identities = [identify_live(agent) for agent in agents]
    ids = [identity.agent_id for identity in identities]
    if not ids or len(set(ids)) != len(ids):
        raise DecisionError(f"a run needs agents with unique ids, not {ids}")
    return run_started(
        Binding(None, tuple(sorted(set(fixture_ids))), None),
        closing_policy,
        identities,
        window,
        policy,
        max_close_age_s=max_close_age_s,
        kind=kind,
        origin_id=origin_id,
        source_mode=SourceMode.LIVE,
    )


def checked(decided: Sequence[Decision], agent_id: str, at: Message) -> None:
    """Refuse decisions of an agent at one message that could not be sealed, before they count.

    Raises
    ------
    LookaheadError
        One is of another message.
    AgentError, DecisionError
        As the law refuses them.
    """
    # An agent owns its process, and may answer anything: at an earlier tick it would take a price that it saw move since, and
    # at one that never comes it would spoil the seal of all agents.
    for fixture_id, tick_seq, *_ in decided:
        if (fixture_id, tick_seq) != (at.fixture_id, at.tick_seq):
            raise LookaheadError(
                f"asked at tick {at.tick_seq} of fixture {at.fixture_id}, it decided at tick {tick_seq} of fixture {fixture_id}"
            )
    if decided:
        check_decisions(decisions_of(decided, agent_id))


def error_of(agent_id: str, error: Exception) -> dict[str, Any]:
    """Return the payload of AGENT_ERROR of an agent that failed."""
    kind = error.kind if isinstance(error, AgentFailedError) else type(error).__name__
    return {"agent_id": agent_id, "error": kind, "fixture_id": None, "tick_seq": None}


def seal_live(
    started: RunStarted,
    tape: Tape,
    decided: Mapping[str, Sequence[Decision]],
    failures: Failures,
    window: Window,
    policy: PolicyEnvelope,
    *,
    captured: str,
    commit_index: int | None = None,
) -> RunResult:
    """Score and seal what agents decided live.

    Parameters
    ----------
    started
        Payload of RUN_STARTED, as it was committed to.
    tape
        Of the pack that was captured, up to the message that sealed.
    decided
        Decisions by agent id, of the agents that did not fail.
    failures
        Of the others.
    window, policy
        As ``started`` has them.
    captured
        Content hash of that pack.
    commit_index
        Entry of a run log that committed to the run.

    Raises
    ------
    DecisionError
        All agents failed, or a decision is at a tick that the tape does not have.
    """
    require_agent(decided, failures)
    frames = [locate(tape, check_decisions(decisions_of(own, agent_id))) for agent_id, own in sorted(decided.items())]
    replayed = replay(tape, pl.concat(frames), window, errors=len(failures.errors))
    return judged(started, replayed, window, policy, failures, commit_index=commit_index, captured=captured)


def require_agent(decided: Mapping[str, Sequence[Decision]], failures: Failures) -> None:
    """Require an agent that has not failed.

    Raises
    ------
    DecisionError
        With the first line of what each said.
    """
    if not decided:
        said = "; ".join(f"{agent_id}: {(cause.splitlines() or [''])[0]}" for agent_id, cause in failures.causes.items())
        raise DecisionError(f"no agent is left: {said:.500}")


def replay_live(
    started: RunStarted,
    tape: Tape,
    agents: Sequence[Agent],
    errors: list[dict[str, Any]],
    window: Window,
    policy: PolicyEnvelope,
    *,
    captured: str,
    commit_index: int | None = None,
) -> RunResult:
    """Ask the agents of a live run again, over the whole of what it captured, and seal what they decide as it was sealed.

    Parameters
    ----------
    started, tape, window, policy, captured, commit_index
        As for ``seal_live``.
    agents
        Those that did not fail; the others decided nothing that stands.
    errors
        Payloads of AGENT_ERROR of the others.

    Raises
    ------
    AgentError, DecisionError
        An agent fails, or decides what can't be sealed.
    """
    # As the agents saw it, message by message: of no pack, and knowing nothing of the fixtures beforehand, not even kickoffs,
    # which some feeds move, and others never say.
    kickoffs = tape.fixtures.with_columns(kickoff_ts_ms=pl.lit(None, pl.Int64))
    seen = replace(tape, binding=Binding(None, tape.binding.fixture_ids, None), announced=kickoffs, about=None)
    frames = [located(agent.identity.agent_id, tape, asked_once(agent, seen)) for agent in agents]
    replayed = replay(tape, pl.concat(frames), window, errors=len(errors))
    return judged(started, replayed, window, policy, Failures(errors), commit_index=commit_index, captured=captured)
