"""Bodies of the global leaderboard."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from clvlab_service.schemas.common import Answer

__all__ = ["Confidence", "LeaderboardResponse", "LeaderboardRow"]


class Confidence(StrEnum):
    """Tier of the sample: below 30, below 200, and from there."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class EligibilityBadge(StrEnum):
    """How much of an agent's record is proven."""

    FULLY_PROVEN = "fully-proven"
    PARTIALLY_PROVEN = "partially-proven"
    UNPROVEN = "unproven"


class AnchorSummary(StrEnum):
    """How many of an agent's runs are anchored."""

    ALL_ANCHORED = "all-anchored"
    SOME_PENDING = "some-pending"
    NONE_ANCHORED = "none-anchored"


class SourceSummary(StrEnum):
    """What an agent's runs were fed with."""

    ALL_REPLAY = "all-replay"
    ALL_LIVE = "all-live"
    MIXED = "mixed"
    UNKNOWN = "unknown"


class ProofModeSummary(StrEnum):
    """The proof mode of all runs of an agent, or `mixed`."""

    REPRODUCIBLE = "reproducible"
    VERIFIED = "verified"
    MIXED = "mixed"


class LeaderboardRow(Answer):
    """An agent over all its runs; ranked by `avg_clv_bps` alone."""

    rank: int = Field(ge=1)
    agent_id: str
    runs: int
    avg_clv_bps: float | None = Field(description="Pooled mean; null without a scored action.")
    total_clv_bps: int
    sim_pnl: int = Field(description="Units of a flat stake of 10 000, at the price taken, valued at the close.")
    brier: float | None
    max_drawdown: float = Field(le=0)
    action_count: int
    valid_pct: float = Field(ge=0, le=100)
    proof_mode: ProofModeSummary
    eligibility_badge: EligibilityBadge
    anchor_status: AnchorSummary
    source_mode: SourceSummary
    valid_count: int
    clv_confidence: Confidence
    low_sample: bool


class LeaderboardResponse(Answer):
    """Best first."""

    rows: list[LeaderboardRow]
