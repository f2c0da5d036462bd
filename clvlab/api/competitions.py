"""Bodies of competitions."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypeAliasType

from clvlab.api.answer import (
    AnchorStatus,
    Answer,
    BodyAnswer,
    ExecutionMode,
    Hash,
    JsonObject,
    ProofMode,
    ReplayBinding,
    SourceMode,
    one_of,
)
from clvlab.api.runs import ProofArtifactResponse, RunStatus

# Bodies of deployed agents.


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
    payload: JsonObject
    id: Annotated[int, Field(ge=1, description="Number of the event, to be used as a cursor.")]


class RuntimeEventsResponse(Answer):
    """Ascending by `id`."""

    events: list[RuntimeEvent]


class PreflightCheck(Answer):
    """One named check of a deploy."""

    name: str
    ok: bool
    message: str


class InstanceRecord(Answer):
    """The record of a deployed agent as stored, which never changes."""

    instance_id: str
    owner: str
    template: str
    config: JsonObject
    config_hash: Hash
    policy_hash: Hash
    allowlists: JsonObject
    run_mode: SourceMode
    preflight: list[PreflightCheck]
    replay_binding: ReplayBinding | None
    run_id: str
    created_ts_ms: int


class AgentInstance(InstanceRecord):
    """A deployed agent: its stored record, and the status of its run."""

    run_status: RunStatus
    updated_ts_ms: Annotated[int, Field(description="Time of the run's last change of status, anchor or checks.")]


class InstanceSummary(Answer):
    """An instance in a list."""

    instance_id: str
    owner: str
    template: str
    config_hash: Hash
    run_id: str
    run_status: RunStatus
    replay_binding: ReplayBinding | None
    created_ts_ms: int
    updated_ts_ms: int


class InstanceListResponse(Answer):
    """Newest first."""

    instances: list[InstanceSummary]
    next_cursor: Annotated[str | None, Field(description="Pass it as `cursor` for the next page; `null` at the end.")]


LifecycleStatus = TypeAliasType(
    "LifecycleStatus",
    Annotated[Literal["draft", "open", "running", "finalized", "completed"], Field(description="Status of a competition.")],
)


class CompetitionCreateResponse(BodyAnswer):
    """A new competition."""

    competition_id: str
    status: Literal["draft"]


class AgentRegisterResponse(BodyAnswer):
    """An agent on the roster."""

    agent_id: str
    config_hash: Annotated[Hash | None, Field(description="Hash of the pinned configuration.")]
    proof_mode: ProofMode


class CompetitionStatusResponse(Answer):
    """A competition after a change by its owner."""

    competition_id: str
    status: LifecycleStatus


class CompetitionStartResponse(CompetitionStatusResponse):
    """A competition that was run."""

    run_id: str | None
    replay_binding: ReplayBinding | None


class CompetitionConfigSnapshot(Answer):
    """The configuration as created."""

    competition_type: str
    source_mode: SourceMode
    market_scope: str
    roster_size: int
    execution_mode: ExecutionMode
    pack_id: str | None
    fixture_id: int | None
    fixture_ids: NotRequired[list[int] | Literal["all"]]
    scoring_window: str | None
    division: str | None


class RosterEntry(Answer):
    """A registered agent."""

    agent_id: str
    strategy: str
    config: JsonObject
    config_hash: Hash | None
    proof_mode: ProofMode
    instance_id: str | None


class CompetitionLeaderboardRow(Answer):
    """A row of the standings, from the SCORE_UPDATE events."""

    rank: Annotated[int, Field(ge=1)]
    agent_id: str
    total_clv_bps: int
    mean_clv_bps: float | None
    valid_count: int
    proof_mode: ProofMode | None


class Execution(Answer):
    """Receipts of the venue. They are not evidence, and never scored."""

    non_scoring: Literal[True]
    receipts: Annotated[list[JsonObject], Field(description="The first 1,000 receipts.")]
    total: Annotated[int, Field(description="Number of receipts.")]


class CompetitionSummaryResponse(Answer):
    """A competition in a list."""

    competition_id: str
    status: LifecycleStatus
    config: CompetitionConfigSnapshot
    run_id: str | None
    owner: str
    created_ts_ms: int
    updated_ts_ms: Annotated[int, Field(description="Time of the last change of status, roster or log.")]


class CompetitionStateResponse(CompetitionSummaryResponse):
    """A competition with its roster, leaderboard and proof card."""

    cause: Annotated[str | None, Field(description="Cause of the last failed start.")]
    roster: list[RosterEntry]
    leaderboard: list[CompetitionLeaderboardRow]
    latest_seq: Annotated[int, Field(description="Number of the newest event; 0 without events.")]
    anchor_status: AnchorStatus
    proof_card: ProofArtifactResponse | None
    execution: Execution | None
    replay_binding: ReplayBinding | None


class AgentErrorCause(Answer):
    """Cause of an agent's failure; the evidence only has the event AGENT_ERROR."""

    run_id: str
    agent_id: str
    error: Annotated[str, Field(description="Class of the error, as sealed.", examples=["AgentError"])]
    message: Annotated[str, Field(description="First line of the error, without paths; at most 300 characters.")]


_KINDS = (
    "COMPETITION_STARTED",
    "AGENT_ACTION",
    "POLICY_VERDICT",
    "LAW_RESULT",
    "AGENT_ERROR",
    "FEED_GAP",
    "FEED_HEALTH",
    "STATUS_CHANGED",
    "SCORE_UPDATE",
    "PROOF_ANCHOR",
    "COMPETITION_FINALIZED",
    "COMPETITION_FAILED",
)
EventKind = TypeAliasType("EventKind", Annotated[str, one_of(*_KINDS, description="What happened in a competition.")])


class CompetitionEvent(Answer):
    """An entry of the event log; the stream sends the same objects."""

    seq: int
    kind: EventKind
    competition_id: str
    run_id: str | None
    ts: Annotated[int, Field(description="Time of appending, in milliseconds since 1970, UTC.")]
    evidence: Annotated[bool, Field(description="Whether the payload is part of the sealed evidence.")]
    payload: JsonObject


# Bodies of the demo.


class DemoResponse(Answer):
    """A competition of the demo, run, sealed and scored."""

    run_id: str
    competition_id: str
    anchor_status: AnchorStatus
    leaderboard: list[CompetitionLeaderboardRow]
    proof_card: ProofArtifactResponse
