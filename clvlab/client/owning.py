"""Competitions, deployed agents, and whom the token speaks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from clvlab.answers.agents import AgentInstance, DeployResponse, InstanceListResponse, RuntimeEventsResponse
from clvlab.answers.competitions import (
    AgentErrorCause,
    AgentRegisterResponse,
    CompetitionCreateResponse,
    CompetitionEvent,
    CompetitionProgress,
    CompetitionStartResponse,
    CompetitionStateResponse,
    CompetitionStatusResponse,
    CompetitionSummaryResponse,
)
from clvlab.answers.me import MeResponse
from clvlab.client.asking import Asking


class Owning(Asking):
    """What an owner does."""

    def me(self) -> MeResponse:
        """Read whom the token speaks for, what is theirs, and the limits that hold."""
        return self._get(MeResponse, "me")

    def create_competition(self, config: Mapping[str, Any] | None = None, **fields: Any) -> CompetitionCreateResponse:
        """Create a competition; fields of CompetitionConfig, as a mapping or by name. Needs a token."""
        return self._post(CompetitionCreateResponse, "competitions", body=dict(config or {}) | fields)

    def competitions(
        self, status: str | None = None, *, owner: str | None = None, pack_id: str | None = None
    ) -> list[CompetitionSummaryResponse]:
        """List competitions; of ``DRAFT``, ``RUNNING``, ``FINALIZED`` or ``COMPLETED`` status, an owner or a pack, if given."""
        return self._get(list[CompetitionSummaryResponse], "competitions", status=status, owner=owner, pack_id=pack_id)

    def competition(self, competition_id: str) -> CompetitionStateResponse:
        """Read a competition whole."""
        return self._get(CompetitionStateResponse, "competitions", competition_id)

    def register(
        self,
        competition_id: str,
        agent_id: str,
        strategy: str,
        config: Mapping[str, Any] | None = None,
        *,
        proof_mode: str = "reproducible",
        instance_id: str | None = None,
    ) -> AgentRegisterResponse:
        """Put an agent on the roster of a competition of the caller."""
        entry = {"agent_id": agent_id, "strategy": strategy, "config": dict(config or {}), "proof_mode": proof_mode}
        return self._post(
            AgentRegisterResponse, "competitions", competition_id, "agents", body=entry | {"instance_id": instance_id}
        )

    def withdraw(self, competition_id: str, agent_id: str) -> None:
        """Take an agent off the roster of a competition of the caller that was not started yet."""
        self._delete("competitions", competition_id, "agents", agent_id)

    def delete_competition(self, competition_id: str) -> None:
        """Delete a competition of the caller that was never started."""
        self._delete("competitions", competition_id)

    def open_competition(self, competition_id: str) -> CompetitionStatusResponse:
        """Go from draft to open."""
        return self._post(CompetitionStatusResponse, "competitions", competition_id, "open")

    def start(self, competition_id: str) -> CompetitionStartResponse:
        """Run a competition of the caller; returns when it is finalized."""
        return self._post(CompetitionStartResponse, "competitions", competition_id, "start")

    def start_async(self, competition_id: str) -> CompetitionProgress:
        """Start a competition of the caller without waiting for it; ``follow`` its run, or read the competition again."""
        headers = {"Prefer": "respond-async"}
        return self._post(CompetitionProgress, "competitions", competition_id, "start", headers=headers)

    def cancel_competition(self, competition_id: str) -> CompetitionStatusResponse:
        """Cancel the run of a running competition of the caller, which is then what it was before its start."""
        return self._post(CompetitionStatusResponse, "competitions", competition_id, "cancel")

    def complete_competition(self, competition_id: str) -> CompetitionStatusResponse:
        """Go from finalized to completed."""
        return self._post(CompetitionStatusResponse, "competitions", competition_id, "complete")

    def events(self, competition_id: str, since_seq: int = 0, limit: int | None = None) -> list[CompetitionEvent]:
        """Read the log after ``since_seq``, or its first ``limit`` entries; -1 gives all of it."""
        return self._get(list[CompetitionEvent], "competitions", competition_id, "events", since_seq=since_seq, limit=limit)

    def agent_errors(self, competition_id: str) -> list[AgentErrorCause]:
        """Read why agents failed in the run of a competition of the caller."""
        return self._get(list[AgentErrorCause], "competitions", competition_id, "agent-errors")

    def stream(self, competition_id: str, since_seq: int = -1) -> Iterator[CompetitionEvent]:
        """Return the entries of the log as they are appended, until nothing can follow.

        Raises
        ------
        websockets.exceptions.InvalidStatus
            The competition is unknown.
        websockets.exceptions.ConnectionClosedError
            The connection broke off: stream again with the last ``seq`` received.
        """
        return self._messages("competitions", competition_id, "arena", since_seq=since_seq)

    def deploy(
        self, config: Mapping[str, Any] | None = None, *, idempotency_key: str | None = None, **fields: Any
    ) -> DeployResponse:
        """Deploy an agent; fields of DeployConfig, as a mapping or by name. Needs a token."""
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        return self._post(DeployResponse, "agents", "deploy", body=dict(config or {}) | fields, headers=headers)

    def instance(self, instance_id: str) -> AgentInstance:
        """Read an instance of the caller."""
        return self._get(AgentInstance, "agents", "instances", instance_id)

    def instances(self, cursor: str | None = None, limit: int = 50, *, strategy: str | None = None) -> InstanceListResponse:
        """List the caller's instances, newest first."""
        return self._get(InstanceListResponse, "agents", "instances", cursor=cursor, limit=limit, strategy=strategy)

    def runtime_events(self, instance_id: str, since: int = 0, limit: int | None = None) -> RuntimeEventsResponse:
        """Read what an instance of the caller did, after the cursor ``since``."""
        return self._get(RuntimeEventsResponse, "agents", "instances", instance_id, "runtime-events", since=since, limit=limit)
