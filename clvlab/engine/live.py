"""Live runs: agents decide at each message as it comes, and their decisions are sealed when their fixture closes.

A live run can be replayed over the pack that it captured. The same agents then give the same decisions, byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import polars as pl

from clvlab.engine.agent import Agent, Identity, identify, unchecked_decisions
from clvlab.engine.decisions import fresh_decisions, located
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

# Agents that decide at each message as it comes. A decision is final.


_ORDER = ["fixture_id", "tick_seq", "action", "market_key", "side"]
_MAX_CHUNKS = 64


class Follower(Protocol):
    """One agent in one run."""

    def take(self, message: Message) -> Sequence[Decision]:
        """Return the agent's decisions at a message, which is later than all messages taken before."""
        ...


@runtime_checkable
class TimedFollower(Protocol):
    """Follower whose decisions are due within some time of the arrival of a message."""

    def take_at(self, message: Message, received_ts_ms: int) -> Sequence[Decision]: ...


@runtime_checkable
class Followable(Protocol):
    def following(self, fixtures: pl.DataFrame) -> AbstractContextManager[Follower]: ...


def following(agent: Agent, fixtures: pl.DataFrame) -> AbstractContextManager[Follower]:
    """Return the agent's own follower, or a follower that decides again over each prefix."""
    return agent.following(fixtures) if isinstance(agent, Followable) else nullcontext(TapeFollower(agent, fixtures))


class TapeFollower:
    """Follower of any agent. The agent decides again over all messages so far, and may not change earlier decisions."""

    def __init__(self, agent: Agent, fixtures: pl.DataFrame) -> None:
        self._agent, self._fixtures = agent, fixtures
        self._ticks = pl.DataFrame(schema=TICKS)
        self._decided = pl.DataFrame(schema=DECISION_COLUMNS)

    def take(self, message: Message) -> Sequence[Decision]:
        """Return the decisions at a message; ``LookaheadError`` if the agent changed decisions at earlier messages."""
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
    """Return an agent's identity with the causality of a live run: it decides before later messages exist."""
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
    """Return the payload of RUN_STARTED of a live run. It depends on no data; ``origin_id`` makes it unique."""
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
    """Raise ``LookaheadError``, ``AgentError`` or ``DecisionError`` for decisions that can't be sealed at this message."""
    # An agent controls its process and may answer anything. A decision at an earlier tick would take a price whose later
    # movement the agent has seen. A decision at a tick that never comes would spoil the seal of all agents.
    for fixture_id, tick_seq, *_ in decided:
        if (fixture_id, tick_seq) != (at.fixture_id, at.tick_seq):
            raise LookaheadError(
                f"asked at tick {at.tick_seq} of fixture {at.fixture_id}, it decided at tick {tick_seq} of fixture {fixture_id}"
            )
    if decided:
        check_decisions(decisions_of(decided, agent_id))


def error_of(agent_id: str, error: Exception) -> dict[str, Any]:
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
    """Score and seal live decisions over the tape of the captured pack; ``DecisionError`` if all agents failed."""
    require_agent(decided, failures)
    frames = [locate(tape, check_decisions(decisions_of(own, agent_id))) for agent_id, own in sorted(decided.items())]
    replayed = replay(tape, pl.concat(frames), window, errors=len(failures.errors))
    return judged(started, replayed, window, policy, failures, commit_index=commit_index, captured=captured)


def require_agent(decided: Mapping[str, Sequence[Decision]], failures: Failures) -> None:
    """Raise ``DecisionError``, with the first line of each error, if all agents failed."""
    if not decided:
        causes = "; ".join(f"{agent_id}: {(cause.splitlines() or [''])[0]}" for agent_id, cause in failures.causes.items())
        raise DecisionError(f"no agent is left: {causes:.500}")


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
    """Ask a live run's agents again over all that it captured, except failed ones, and seal their decisions as then."""
    # This is the tape as the live agents saw it, without a pack and without facts about the fixtures. Even kickoffs are
    # missing, because some feeds move them and others lack them.
    kickoffs = tape.fixtures.with_columns(kickoff_ts_ms=pl.lit(None, pl.Int64))
    seen = replace(tape, binding=Binding(None, tape.binding.fixture_ids, None), announced=kickoffs, about=None)
    frames = [located(agent.identity.agent_id, tape, fresh_decisions(agent, seen)) for agent in agents]
    replayed = replay(tape, pl.concat(frames), window, errors=len(errors))
    return judged(started, replayed, window, policy, Failures(errors), commit_index=commit_index, captured=captured)
