"""Bodies of competitions."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypeAliasType

from clvlab.answers.answer import Answer, BodyAnswer, Hash, ProofMode, ReplayBinding
from clvlab.answers.runs import ProofArtifactResponse, RunProgress

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
    config_hash: Annotated[Hash | None, Field(description="Of the config snapshot; pinned.")]
    proof_mode: ProofMode


class CompetitionStatusResponse(Answer):
    """A competition after an act of its owner."""

    competition_id: str
    status: LifecycleStatus


class CompetitionStartResponse(CompetitionStatusResponse):
    """A competition that was run."""

    run_id: str | None
    replay_binding: ReplayBinding | None


class CompetitionProgress(RunProgress):
    """A competition whose run goes on."""

    competition_id: str


class CompetitionConfigSnapshot(Answer):
    """The configuration as created."""

    competition_type: str
    source_mode: str
    market_scope: str
    roster_size: int
    execution_mode: str
    pack_id: str | None
    fixture_id: int | None
    scoring_window: str | None
    division: str | None


class RosterEntry(Answer):
    """A registered agent."""

    agent_id: str
    strategy: str
    config: dict[str, Any]
    config_hash: Hash | None
    proof_mode: ProofMode
    instance_id: str | None


class CompetitionLeaderboardRow(Answer):
    """Derived from SCORE_UPDATE events alone."""

    rank: Annotated[int, Field(ge=1)]
    agent_id: str
    total_clv_bps: int
    mean_clv_bps: float | None
    valid_count: int
    proof_mode: ProofMode | None


class Execution(Answer):
    """Receipts of venues; never evidence, never scored."""

    non_scoring: Literal[True]
    receipts: Annotated[list[dict[str, Any]], Field(description="The first thousand.")]
    total: Annotated[int, Field(description="How many there are.")]


class CompetitionSummaryResponse(Answer):
    """A competition in a list."""

    competition_id: str
    status: LifecycleStatus
    config: CompetitionConfigSnapshot
    run_id: str | None


class CompetitionStateResponse(CompetitionSummaryResponse):
    """A competition whole."""

    cause: Annotated[str | None, Field(description="Why the last start failed.")]
    roster: list[RosterEntry]
    leaderboard: list[CompetitionLeaderboardRow]
    latest_seq: Annotated[int, Field(description="0 when there are no events.")]
    anchor_status: Annotated[str, Field(examples=["not_anchored"])]
    proof_card: ProofArtifactResponse | None
    execution: Execution | None
    replay_binding: ReplayBinding | None


class AgentErrorCause(Answer):
    """Why an agent failed; the evidence has its AGENT_ERROR alone."""

    run_id: str
    agent_id: str
    error: Annotated[str, Field(description="Class of the error, as sealed.", examples=["AgentError"])]
    message: Annotated[str, Field(description="First line of what it said, without paths; at most 300 characters.")]


class CompetitionEvent(Answer):
    """An entry of the canonical log; the stream sends the same objects."""

    seq: int
    kind: Annotated[str, Field(examples=["SCORE_UPDATE"])]
    competition_id: str
    run_id: str | None
    ts: Annotated[int, Field(description="Milliseconds since 1970, UTC, of its appending.")]
    evidence: Annotated[bool, Field(description="Whether the payload is part of the sealed evidence.")]
    payload: dict[str, Any]
