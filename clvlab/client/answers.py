"""Answers of the service, as types. Written by ``python -m clvlab_service.typed_answers``; don't edit."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

__all__ = [
    "AgentAction",
    "AgentIdentity",
    "AgentInstance",
    "AgentMetrics",
    "AgentRegisterResponse",
    "AnchorInfo",
    "BacktestListResponse",
    "BacktestReport",
    "BacktestRunResponse",
    "BacktestSummary",
    "CheckDetails",
    "Checks",
    "ClosingAge",
    "CompetitionConfigSnapshot",
    "CompetitionCreateResponse",
    "CompetitionEvent",
    "CompetitionLeaderboardRow",
    "CompetitionStartResponse",
    "CompetitionStateResponse",
    "CompetitionStatusResponse",
    "CompetitionSummaryResponse",
    "ConsistencyResponse",
    "DemoResponse",
    "DeployResponse",
    "EvidenceHashes",
    "Execution",
    "InspectorRecord",
    "LeaderboardResponse",
    "LeaderboardRow",
    "Lineage",
    "LogClaim",
    "LogEntriesResponse",
    "LogEntry",
    "LogResponse",
    "LogStanding",
    "MarketState",
    "Metrics",
    "OwnerCounts",
    "PhaseVerdict",
    "PolicySummary",
    "PolicyVerdict",
    "PreflightCheck",
    "ProofArtifactResponse",
    "Recompute",
    "ReplayBinding",
    "ReplayPackInfo",
    "ReplayPackListResponse",
    "RosterEntry",
    "RunInfo",
    "RunListResponse",
    "RunSummary",
    "RuntimeEvent",
    "RuntimeEventsResponse",
    "SideQuote",
    "UntrustedMetadata",
    "VerifyResponse",
    "WindowInfo",
]


class AgentAction(TypedDict):
    """What the agent proposed."""

    type: str
    market_key: str | None
    side: str | None
    stake: int | None
    limit_odds_milli: int | None


class AgentIdentity(TypedDict):
    """An agent as sealed."""

    agent_id: str
    strategy: str
    strategy_version: str
    config: dict[str, Any]
    config_hash: str
    proof_mode: str
    causality: str
    source_sha256: str | None


class AgentInstance(TypedDict):
    """The stored record of a deployed agent."""

    instance_id: str
    owner: str
    template: str
    config: dict[str, Any]
    config_hash: str
    policy_hash: str
    allowlists: dict[str, Any]
    run_mode: str
    preflight: list[PreflightCheck]
    replay_binding: ReplayBinding | None
    run_id: str
    created_ts_ms: int


class AgentMetrics(TypedDict):
    """Outcome of one agent in a run."""

    agent_id: str
    action_count: int
    valid_count: int
    invalid_count: int
    abstention_count: int
    pending_count: int
    valid_pct: float
    total_clv_bps: int
    mean_clv_bps: float | None
    sim_pnl: int
    brier: float | None
    max_drawdown: float


class AgentRegisterResponse(TypedDict):
    """An agent on the roster."""

    agent_id: str
    config_hash: str | None
    proof_mode: Literal["reproducible", "verified"]


class AnchorInfo(TypedDict):
    """Where the manifest hash was committed."""

    status: str
    signature: str | None
    cluster: str
    explorer_url: str | None


class BacktestListResponse(TypedDict):
    """Newest first."""

    backtests: list[BacktestSummary]
    next_cursor: str | None


class BacktestReport(TypedDict):
    """What came of a backtest."""

    backtest_id: str
    run_id: str
    mode_label: Literal["Backtest"]
    pack_id: str
    provenance: str
    content_hash: str
    fixture_id: int | None
    fixture_ids: list[int]
    n_fixtures: int
    window_id: str
    window: WindowInfo
    market_universe: list[str]
    markets_matched: int
    warnings: list[str]
    agent: AgentIdentity
    evidence_hash: str
    manifest_hash: str
    checks: Checks
    metrics: Metrics
    reasons: dict[str, int]
    policy: PolicySummary
    close_kinds: dict[str, int]
    closing_age_ms: ClosingAge
    closing_source: str | None
    real_executable_edge_bps: None


class BacktestRunResponse(TypedDict):
    """A stored backtest."""

    backtest_id: str
    mode_label: Literal["Backtest"]
    run_id: str


class BacktestSummary(TypedDict):
    """A backtest in a list."""

    backtest_id: str
    run_id: str
    pack_id: str
    fixture_id: int | None
    created_ts_ms: int


class CheckDetails(TypedDict):
    """A sentence for each check: what was found."""

    evidence_integrity: str
    llm_boundary: str
    metrics_recomputed: str
    manifest_bound: str
    policy_obeyed: str
    receipt_separation: str
    anchor: str


class Checks(TypedDict):
    """The seven proof checks."""

    evidence_integrity: Literal["pass", "fail", "pending", "not_applicable"]
    llm_boundary: Literal["pass", "fail", "pending", "not_applicable"]
    metrics_recomputed: Literal["pass", "fail", "pending", "not_applicable"]
    manifest_bound: Literal["pass", "fail", "pending", "not_applicable"]
    policy_obeyed: Literal["pass", "fail", "pending", "not_applicable"]
    receipt_separation: Literal["pass", "fail", "pending", "not_applicable"]
    anchor: Literal["pass", "fail", "pending", "not_applicable"]


class ClosingAge(TypedDict):
    """How old the closing prices were, in milliseconds; null without a scored decision."""

    median: float | None
    max: int | None


class CompetitionConfigSnapshot(TypedDict):
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


class CompetitionCreateResponse(TypedDict):
    """A new competition."""

    competition_id: str
    status: Literal["draft"]


class CompetitionEvent(TypedDict):
    """An entry of the canonical log; the stream sends the same objects."""

    seq: int
    kind: str
    competition_id: str
    run_id: str | None
    ts: int
    evidence: bool
    payload: dict[str, Any]


class CompetitionLeaderboardRow(TypedDict):
    """Derived from SCORE_UPDATE events alone."""

    rank: int
    agent_id: str
    total_clv_bps: int
    mean_clv_bps: float | None
    valid_count: int
    proof_mode: Literal["reproducible", "verified"] | None


class CompetitionStartResponse(TypedDict):
    """A competition that was run."""

    competition_id: str
    status: Literal["draft", "open", "running", "finalized", "completed"]
    run_id: str | None
    replay_binding: ReplayBinding | None


class CompetitionStateResponse(TypedDict):
    """A competition whole."""

    competition_id: str
    status: Literal["draft", "open", "running", "finalized", "completed"]
    config: CompetitionConfigSnapshot
    run_id: str | None
    cause: str | None
    roster: list[RosterEntry]
    leaderboard: list[CompetitionLeaderboardRow]
    latest_seq: int
    anchor_status: str
    proof_card: ProofArtifactResponse | None
    execution: Execution | None
    replay_binding: ReplayBinding | None


class CompetitionStatusResponse(TypedDict):
    """A competition after an act of its owner."""

    competition_id: str
    status: Literal["draft", "open", "running", "finalized", "completed"]


class CompetitionSummaryResponse(TypedDict):
    """A competition in a list."""

    competition_id: str
    status: Literal["draft", "open", "running", "finalized", "completed"]
    config: CompetitionConfigSnapshot
    run_id: str | None


class ConsistencyResponse(TypedDict):
    """Proof that the log only grew (RFC 9162, section 2.1.4)."""

    first: int
    second: int
    proof: list[str]


class DemoResponse(TypedDict):
    """A competition of the demo, run, sealed and scored."""

    run_id: str
    competition_id: str
    anchor_status: str
    leaderboard: list[CompetitionLeaderboardRow]
    proof_card: ProofArtifactResponse


class DeployResponse(TypedDict):
    """A deployed instance; its run is not sealed yet."""

    instance_id: str
    config_hash: str
    policy_hash: str
    run_id: str
    owner: str
    replay_binding: ReplayBinding | None


class EvidenceHashes(TypedDict):
    """Hashes of the seal; null until it exists."""

    evidence_hash: str | None
    manifest_hash: str | None


class Execution(TypedDict):
    """Receipts of venues; never evidence, never scored."""

    non_scoring: Literal[True]
    receipts: list[dict[str, Any]]
    total: int


class InspectorRecord(TypedDict):
    """One sealed decision."""

    run_id: str
    agent_id: str
    fixture_id: int
    tick_seq: int
    ts_ms: int
    market_state: MarketState | None
    agent_action: AgentAction
    policy: PolicyVerdict | None
    recompute: Recompute
    clv_bps: int | Literal["pending", "invalid"]
    untrusted_llm_metadata: UntrustedMetadata


class LeaderboardResponse(TypedDict):
    """Best first."""

    rows: list[LeaderboardRow]


class LeaderboardRow(TypedDict):
    """An agent over all its runs; ranked by `avg_clv_bps` alone."""

    rank: int
    agent_id: str
    runs: int
    avg_clv_bps: float | None
    total_clv_bps: int
    sim_pnl: int
    brier: float | None
    max_drawdown: float
    action_count: int
    valid_pct: float
    proof_mode: Literal["reproducible", "verified", "mixed"]
    eligibility_badge: Literal["fully-proven", "partially-proven", "unproven"]
    anchor_status: Literal["all-anchored", "some-pending", "none-anchored"]
    source_mode: Literal["all-replay", "all-live", "mixed", "unknown"]
    valid_count: int
    clv_confidence: Literal["low", "medium", "high"]
    low_sample: bool


class Lineage(TypedDict):
    """Who ran; the first two are null for several agents."""

    template: str | None
    config_hash: str | None
    policy_hash: str | None
    agents: list[AgentIdentity]


class LogClaim(TypedDict):
    """What the log says of the owner's other commitments over this pack: counts that only all entries can show."""

    earlier: int
    later: int
    abandoned: int
    unknown_pack: int


class LogEntriesResponse(TypedDict):
    """In order."""

    entries: list[LogEntry]


class LogEntry(TypedDict):
    """An entry; the hash of its text is a leaf of the tree."""

    index: int
    entry: str


class LogResponse(TypedDict):
    """State of the log."""

    origin: str | None
    public_key: str | None
    size: int
    root_hash: str
    owners: list[OwnerCounts]


class LogStanding(TypedDict):
    """Where the log committed to a run. A bundle proves all but the claim; `clvlab log audit` checks that."""

    owner: str
    content_hash: str | None
    commit_index: int
    tree_size: int
    claim: LogClaim | None


class MarketState(TypedDict):
    """The whole market as it was carried to the decision."""

    tick_seq: int
    ts_ms: int
    age_ms: int
    suspended: bool
    sides: list[SideQuote]


class Metrics(TypedDict):
    """CLV of a run, pooled and per agent; never a check."""

    avg_clv_bps: float | None
    action_count: int
    valid_count: int
    total_clv_bps: int
    sim_pnl: int
    clv_confidence: Literal["low", "medium", "high"]
    low_sample: bool
    agents: list[AgentMetrics]


class OwnerCounts(TypedDict):
    """Runs of one owner; `open` ones are under way, or were dropped. Nothing is ranked by these."""

    owner: str
    committed: int
    sealed: int
    abandoned: int
    open: int


class PhaseVerdict(TypedDict):
    """One phase of the policy."""

    allowed: bool
    reasons: list[str]


class PolicySummary(TypedDict):
    """What the policy said; it decides execution, never the score."""

    policy_hash: str
    allowed: int
    refused: dict[str, int]


class PolicyVerdict(TypedDict):
    """Both phases of the policy: before the quote, and at it."""

    pre: PhaseVerdict
    post: PhaseVerdict


class PreflightCheck(TypedDict):
    """One named check of a deploy."""

    name: str
    ok: bool
    message: str


class ProofArtifactResponse(TypedDict):
    """The proof card of a run."""

    verifier_version: str
    run: RunInfo
    lineage: Lineage
    evidence: EvidenceHashes
    checks: Checks
    check_details: CheckDetails
    anchor: AnchorInfo
    log: LogStanding | None
    metrics: Metrics | None


class Recompute(TypedDict):
    """What the law says of the decision."""

    recomputed_edge_bps: int | None
    clv_bps: int | None
    valid: bool
    reason: str
    entry_prob_bps: int | None
    close_prob_bps: int | None
    close_kind: str | None
    closing_age_ms: int | None


class ReplayBinding(TypedDict):
    """Frozen replay identity."""

    pack_id: str
    fixture_id: int
    content_hash: str


class ReplayPackInfo(TypedDict):
    """A hash-verified, allowlisted pack."""

    pack_id: str
    content_hash: str
    provenance: str
    is_genuine: bool
    fixtures: list[int]


class ReplayPackListResponse(TypedDict):
    """The catalog."""

    packs: list[ReplayPackInfo]


class RosterEntry(TypedDict):
    """A registered agent."""

    agent_id: str
    strategy: str
    config: dict[str, Any]
    config_hash: str | None
    proof_mode: Literal["reproducible", "verified"]
    instance_id: str | None


class RunInfo(TypedDict):
    """Metadata of a run; its timestamps stand beside the seal, not in it."""

    run_id: str
    kind: str | None
    status: Literal["queued", "running", "sealed", "failed"]
    cause: str | None
    source_mode: str | None
    mode_label: str | None
    created_ts_ms: int | None
    sealed_ts_ms: int | None


class RunListResponse(TypedDict):
    """Newest first."""

    runs: list[RunSummary]
    next_cursor: str | None


class RunSummary(TypedDict):
    """A run in a list."""

    run_id: str
    kind: str
    status: Literal["queued", "running", "sealed", "failed"]
    source_mode: str | None
    mode_label: str | None
    created_ts_ms: int | None
    sealed_ts_ms: int | None
    evidence_hash: str | None


class RuntimeEvent(TypedDict):
    """An event of the operations channel; never scored."""

    type: str
    agent_id: str
    run_id: str
    session_id: str
    ts: int
    payload: dict[str, Any]
    id: int


class RuntimeEventsResponse(TypedDict):
    """Ascending by `id`."""

    events: list[RuntimeEvent]


class SideQuote(TypedDict):
    """One side of a market."""

    side: str
    prob_bps: int | None
    odds_milli: int | None


class UntrustedMetadata(TypedDict):
    """What the agent claims of itself: recorded, never scored."""

    reason: str | None
    confidence: float | str | None
    claimed_edge_bps: int | None


class VerifyResponse(TypedDict):
    """A fresh verification."""

    run_id: str
    verified: bool
    evidence_hash: str
    recomputed_evidence_hash: str
    manifest_hash: str
    checks: Checks
    metrics: Metrics | None
    anchor: AnchorInfo
    proof_card: ProofArtifactResponse


class WindowInfo(TypedDict):
    """What of the tape is scored."""

    window_id: str
    end_rule: str
    duration_s: int | None
    min_clv_horizon_s: int
    market_allowlist: list[str]
    closing_policy: str
    max_close_age_s: NotRequired[int | None]
