"""Bodies of runs: proof card, verification, one decision."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, get_args

from pydantic import Field
from typing_extensions import TypeAliasType

from clvlab.api.answer import (
    Action,
    AnchorStatus,
    Answer,
    BodyAnswer,
    CloseKind,
    Hash,
    JsonObject,
    ModeLabel,
    ScoreReason,
    SourceMode,
    one_of,
)
from clvlab.api.leaderboard import Confidence

# Bodies of the decisions of a run.


class DecisionRow(Answer):
    """A sealed decision with its score, as the inspector shows it."""

    seq: Annotated[int, Field(description="As in `/runs/{run_id}/actions/{seq}`.")]
    agent_id: str
    fixture_id: int
    market_key: str | None
    side: str | None
    tick_seq: int
    ts_ms: int
    action: Action
    stake: int | None
    limit_odds_milli: int | None
    policy: Annotated[
        Literal["allowed", "refused"] | None,
        Field(description="`null` for a WAIT. The policy decides execution, never the score."),
    ]
    valid: bool
    reason: ScoreReason
    entry_prob_bps: int | None
    odds_milli: Annotated[int | None, Field(description="Decimal odds x 1000 on offer at the entry.")]
    close_prob_bps: int | None
    clv_bps: Annotated[int | None, Field(description="`null` unless scored.")]
    edge_bps: int | None
    close_kind: CloseKind | None
    closing_age_ms: int | None
    confidence: Annotated[
        float | str | None,
        Field(description="The agent's claim; a text if it is not a probability (`confidence_raw` in Arrow)."),
    ]


class DecisionListResponse(Answer):
    """A page of the decisions of a sealed run."""

    run_id: str
    decisions: list[DecisionRow]
    total: Annotated[int, Field(description="Number of matching decisions, on all pages.")]
    next_cursor: Annotated[str | None, Field(description="Pass it as `cursor` for the next page; `null` at the end.")]


Verdict = TypeAliasType(
    "Verdict", Annotated[Literal["pass", "fail", "pending", "not_applicable"], Field(description="Verdict of a check.")]
)

RunStatus = TypeAliasType(
    "RunStatus",
    Annotated[
        Literal["queued", "running", "sealed", "failed", "removed"],
        Field(description="Status of a run, between launch and seal. A `removed` run keeps its hashes."),
    ],
)

_RUN_KINDS = Literal["competition", "deploy", "backtest", "live", "seat"]
RunKind = TypeAliasType("RunKind", Annotated[_RUN_KINDS, Field(description="Kind of request that made a run.")])


class Checks(Answer):
    """The seven proof checks."""

    evidence_integrity: Verdict
    llm_boundary: Verdict
    metrics_recomputed: Verdict
    manifest_bound: Verdict
    policy_obeyed: Verdict
    receipt_separation: Verdict
    anchor: Verdict


class CheckDetails(Answer):
    """One sentence per check."""

    evidence_integrity: str
    llm_boundary: str
    metrics_recomputed: str
    manifest_bound: str
    policy_obeyed: str
    receipt_separation: str
    anchor: str


class AnchorInfo(Answer):
    """Record of the anchor. The check `anchor` looks it up on the chain."""

    status: AnchorStatus
    signature: str | None
    cluster: Annotated[str, Field(examples=["devnet"])]
    explorer_url: str | None


class AgentMetrics(Answer):
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


class Metrics(Answer):
    """CLV of a run, pooled and per agent; never a check."""

    avg_clv_bps: float | None
    action_count: int
    valid_count: int
    total_clv_bps: int
    sim_pnl: int
    clv_confidence: Confidence
    low_sample: bool
    agents: list[AgentMetrics]


class RunInfo(Answer):
    """Metadata of a run. Owner and timestamps are not part of the seal, and `null` in a bundle."""

    run_id: str
    owner: Annotated[str | None, Field(description="Owner of the run; `null` for runs before the log existed.")]
    kind: Annotated[str, one_of(*get_args(_RUN_KINDS), description="Kind of request that made the run.")] | None
    status: RunStatus
    cause: Annotated[str | None, Field(description="Cause of the failure.")]
    source_mode: SourceMode | None
    mode_label: ModeLabel | None
    created_ts_ms: int | None
    sealed_ts_ms: int | None
    updated_ts_ms: Annotated[int | None, Field(description="Time of the last change of status, anchor or checks.")]


class JobState(BodyAnswer):
    """A job: a run, or the verification of an upload.

    `done` of `total` parts of the stage are finished; both are `null` before and after the work. One of
    `backtest_id`, `competition_id`, `instance_id`, `seat_id` and `upload_id` identifies its result.
    """

    run_id: Annotated[str | None, Field(description="Id of the run, known from the start; `null` for an upload.")]
    status: Annotated[
        RunStatus, Field(description="`queued` and `running` are unfinished. An upload is `sealed` once its pack is stored.")
    ]
    cause: Annotated[str | None, Field(description="Cause of the failure; `cancelled` if it was cancelled.")]
    stage: Annotated[
        Literal["opening", "deciding", "sealing", "keeping"] | None,
        Field(description="Current stage. Stages come in this order."),
    ]
    done: int | None
    total: int | None
    mode_label: NotRequired[ModeLabel]
    backtest_id: NotRequired[str]
    competition_id: NotRequired[str]
    instance_id: NotRequired[str]
    seat_id: NotRequired[str]
    upload_id: NotRequired[str]
    pack_id: NotRequired[Annotated[str, Field(description="Id of the pack from an upload.")]]
    key: NotRequired[Annotated[str, Field(description="Key that withdraws a backtest; only its requester gets it.")]]


class ReadFile(Answer):
    """A file that a custom agent could read."""

    name: str
    sha256: str


class AgentIdentity(Answer):
    """An agent as sealed."""

    agent_id: str
    strategy: str
    strategy_version: str
    config: JsonObject
    config_hash: Hash
    proof_mode: Annotated[str, one_of("reproducible", "verified", description="Proof mode as normalised at the registration.")]
    causality: str
    source_sha256: str | None
    reads: NotRequired[Annotated[list[ReadFile], Field(description="Files that the agent could read.")]]
    network: NotRequired[Annotated[bool, Field(description="Whether the agent could reach a network.")]]


class Lineage(Answer):
    """The agents of a run; the first two fields are `null` for several agents."""

    template: str | None
    config_hash: str | None
    policy_hash: str | None
    agents: list[AgentIdentity]


class EvidenceHashes(Answer):
    """Hashes of the seal; `null` until the run is sealed."""

    evidence_hash: str | None
    manifest_hash: str | None


class LogClaim(Answer):
    """The owner's other commitments over this pack, as this service counts them in its log.

    No signature covers the counts. `clvlab log audit` checks them against all entries.
    """

    earlier: Annotated[int, Field(description="Number of commitments before this one.")]
    later: Annotated[int, Field(description="Number of commitments after this one.")]
    abandoned: int
    unknown_pack: Annotated[
        int, Field(description="Number of the owner's commitments without a pack. They may be over this pack.")
    ]


class LogCommitment(Answer):
    """The log's commitment to a run."""

    owner: str
    content_hash: Annotated[str | None, Field(description="Pack of the commitment; `null` in old commitments.")]
    commit_index: int


class LogStanding(LogCommitment):
    """The log's commitment to a run, in the log as it is now. A bundle proves all of it except the claim."""

    run_id: str
    tree_size: Annotated[int, Field(description="Number of entries of the log at this answer.")]
    claim: Annotated[LogClaim | None, Field(description="Counts without a signature; `null` for a commitment without a pack.")]


class ProofArtifactResponse(Answer):
    """The proof card of a run."""

    verifier_version: Annotated[str, Field(examples=["clvlab-proof/1"])]
    run: RunInfo
    lineage: Lineage
    evidence: EvidenceHashes
    checks: Checks
    check_details: CheckDetails
    anchor: AnchorInfo
    log: Annotated[LogCommitment | None, Field(description="`null` if no log committed to the run.")]
    metrics: Metrics | None


class RunChecksResponse(Answer):
    """The newest recorded verification of a run. The first one is made at the seal."""

    run_id: str
    checked_ts_ms: Annotated[int | None, Field(description="`null` until the run is sealed.")]
    checks: Checks
    check_details: CheckDetails


class VerifyResponse(Answer):
    """A fresh verification."""

    run_id: str
    verified: Annotated[
        bool, Field(description="Whether the recomputed evidence hash equals the sealed one; `checks` has the rest.")
    ]
    evidence_hash: str
    recomputed_evidence_hash: Annotated[str, Field(description="`recompute_error:<reason>` if the proof cannot be recomputed.")]
    manifest_hash: str
    checks: Checks
    metrics: Metrics | None
    anchor: AnchorInfo
    proof_card: ProofArtifactResponse


class SideQuote(Answer):
    """One side of a market."""

    side: str
    prob_bps: int | None
    odds_milli: int | None


class MarketState(Answer):
    """The whole market at the decision."""

    tick_seq: int
    ts_ms: int
    age_ms: int
    suspended: bool
    sides: list[SideQuote]


class AgentAction(Answer):
    """The proposed action."""

    type: Action
    market_key: str | None
    side: str | None
    stake: int | None
    limit_odds_milli: int | None


class Recompute(Answer):
    """The score of the decision."""

    recomputed_edge_bps: int | None
    clv_bps: int | None
    valid: bool
    reason: ScoreReason
    entry_prob_bps: int | None
    close_prob_bps: int | None
    close_kind: CloseKind | None
    closing_age_ms: int | None


class PhaseVerdict(Answer):
    """One phase of the policy."""

    allowed: bool
    reasons: list[str]


class PolicyVerdict(Answer):
    """Both verdicts of the policy, before and after the quote."""

    pre: PhaseVerdict
    post: PhaseVerdict


class UntrustedMetadata(Answer):
    """The agent's own claims: recorded, never scored."""

    reason: str | None
    confidence: Annotated[
        float | str | None,
        Field(description="`confidence_ppm` as a fraction, or the text `confidence_raw` for a claim outside [0, 1]."),
    ]
    claimed_edge_bps: Annotated[int | None, Field(description="As sealed, in basis points.")]


class InspectorRecord(Answer):
    """One sealed decision."""

    run_id: str
    agent_id: str
    fixture_id: int
    tick_seq: int
    ts_ms: int
    market_state: MarketState | None
    agent_action: AgentAction
    policy: Annotated[
        PolicyVerdict | None, Field(description="`null` for a WAIT. The policy decides execution, never the score.")
    ]
    recompute: Recompute
    clv_bps: Annotated[
        int | Literal["pending", "invalid"], Field(description="CLV in bps if scored; otherwise `pending`, also for a WAIT.")
    ]
    untrusted_llm_metadata: UntrustedMetadata


class RunSummary(Answer):
    """A run in a list."""

    run_id: str
    kind: RunKind
    status: RunStatus
    source_mode: SourceMode | None
    mode_label: ModeLabel | None
    owner: Annotated[str | None, Field(description="Owner of the run; `null` for runs before the log existed.")]
    pack_id: Annotated[str | None, Field(description="Pack that the run replays; `null` for old runs.")]
    created_ts_ms: int | None
    sealed_ts_ms: int | None
    updated_ts_ms: Annotated[int, Field(description="Time of the last change of status, anchor or checks.")]
    evidence_hash: str | None


class RunListResponse(Answer):
    """Newest first."""

    runs: list[RunSummary]
    next_cursor: Annotated[str | None, Field(description="Pass it as `cursor` for the next page; `null` at the end.")]


# What taking offers would have paid.


class WaterfallStep(Answer):
    """One step from the line to the money, per stake ordered or per stake filled, with intervals over fixtures."""

    step: Literal["line", "taken", "delayed", "commission", "settled"]
    per: Annotated[
        Literal["ordered", "filled"],
        Field(description="`ordered`: per stake ordered, where unfilled stakes count as 0. `filled`: per stake filled."),
    ]
    orders: int
    fixtures: int
    stake: Annotated[float, Field(description="Sum of the stakes, in the unit of the venue.")]
    mean_bps: Annotated[float | None, Field(description="Profit divided by payout, in bps of probability.")]
    low_bps: Annotated[float | None, Field(description="`null` with fewer than 5 fixtures.")]
    high_bps: float | None
    edge_pct: Annotated[float | None, Field(description="Profit in percent of the stake.")]
    edge_low: float | None
    edge_high: float | None


class _CurvePoint(Answer):
    filled: Annotated[float, Field(ge=0, le=1, description="Share of the stakes that is filled.")]
    mean_bps: Annotated[float | None, Field(description="Mean after commission per stake ordered, in bps of probability.")]
    low_bps: float | None
    high_bps: float | None
    filled_bps: Annotated[float | None, Field(description="Mean after commission per stake filled, in bps of probability.")]
    filled_low: float | None
    filled_high: float | None


class DelayPoint(_CurvePoint):
    """The means at one delay."""

    delay_s: float


class StakePoint(_CurvePoint):
    """The means at one stake."""

    stake: float


class ExecutableResponse(Answer):
    """Profit of an agent's scored decisions if they had taken the offers. It is not a score, and does not affect the rank."""

    run_id: str
    agent_id: str
    rule: Annotated[str, Field(description="Version of the rule of fills.")]
    basis: Annotated[
        Literal["depth", "quoted price, size unknown"] | None,
        Field(description="Kind of offers that are taken; `null` if there are none (see `why`)."),
    ]
    why: str | None
    stake: float
    delay_s: float
    commission: Annotated[str, Field(description="Formula of the commission, in words.")]
    commission_source: str | None
    commission_since: str | None
    max_age_s: float
    level: float
    orders: int
    outcomes: Annotated[dict[str, int], Field(description="Number of orders by outcome.")]
    unscored: Annotated[dict[str, int], Field(description="Number of decisions that made no order, by reason.")]
    crossed: Annotated[
        int, Field(description="Number of orders in markets whose best offers, bought on every side, cost less than they pay.")
    ]
    line: Annotated[str, Field(description="The result in one sentence.")]
    summary: list[WaterfallStep]
    delays: list[DelayPoint]
    stakes: Annotated[list[StakePoint], Field(description="Empty if the sizes of offers are unknown.")]
