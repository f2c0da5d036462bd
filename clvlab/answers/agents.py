"""Bodies of deployed agents."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from clvlab.answers.answer import Answer, BodyAnswer, Hash, ReplayBinding
from clvlab.answers.runs import RunStatus


class DeployResponse(BodyAnswer):
    """A deployed instance; its run is not sealed yet."""

    instance_id: str
    config_hash: Hash
    policy_hash: Hash
    run_id: str
    owner: Annotated[str, Field(examples=["did:key:z6Mk"])]
    replay_binding: ReplayBinding | None


class RuntimeEvent(Answer):
    """An event of the operations channel; never scored."""

    type: Annotated[str, Field(examples=["AGENT_ACTION"])]
    agent_id: str
    run_id: str
    session_id: str
    ts: Annotated[int, Field(description="Milliseconds since 1970, UTC.")]
    payload: dict[str, Any]
    id: Annotated[int, Field(ge=1, description="Durable cursor.")]


class RuntimeEventsResponse(Answer):
    """Ascending by `id`."""

    events: list[RuntimeEvent]


class PreflightCheck(Answer):
    """One named check of a deploy."""

    name: str
    ok: bool
    message: str


class AgentInstance(Answer):
    """The stored record of a deployed agent."""

    instance_id: str
    owner: str
    template: str
    config: dict[str, Any]
    config_hash: Hash
    policy_hash: Hash
    allowlists: dict[str, Any]
    run_mode: str
    preflight: list[PreflightCheck]
    replay_binding: ReplayBinding | None
    run_id: str
    created_ts_ms: int


class InstanceSummary(Answer):
    """An instance in a list."""

    instance_id: str
    template: str
    config_hash: Hash
    run_id: str
    run_status: RunStatus
    replay_binding: ReplayBinding | None
    created_ts_ms: int


class InstanceListResponse(Answer):
    """Newest first."""

    instances: list[InstanceSummary]
    next_cursor: Annotated[str | None, Field(description="Ask with `cursor` for what follows; null at the end.")]
