"""Bodies of backtests."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field

from clvlab.answers.answer import Answer, Hash
from clvlab.answers.runs import AgentIdentity, Checks, Metrics


class BacktestRunResponse(Answer):
    """A stored backtest."""

    backtest_id: str
    mode_label: Literal["Backtest"]
    run_id: str


class WindowInfo(Answer):
    """What of the tape is scored."""

    window_id: str
    end_rule: str
    duration_s: int | None
    min_clv_horizon_s: int
    market_allowlist: list[str]
    closing_policy: str
    max_close_age_s: NotRequired[Annotated[int, Field(description="How old a close may be; without a limit it is absent.")]]


class ClosingAge(Answer):
    """How old the closing prices were, in milliseconds; null without a scored decision."""

    median: float | None
    max: int | None


class PolicySummary(Answer):
    """What the policy said; it decides execution, never the score."""

    policy_hash: Hash
    allowed: int
    refused: Annotated[dict[str, int], Field(description="Actions by reason; one may have several.")]


class BacktestReport(Answer):
    """What came of a backtest."""

    backtest_id: str
    run_id: str
    mode_label: Literal["Backtest"]
    pack_id: str
    provenance: str
    content_hash: Hash
    fixture_id: int | None
    fixture_ids: list[int]
    n_fixtures: int
    window_id: str
    window: WindowInfo
    market_universe: list[str]
    markets_matched: int
    warnings: list[str]
    agent: AgentIdentity
    evidence_hash: Hash
    manifest_hash: Hash
    checks: Checks
    metrics: Metrics
    reasons: Annotated[dict[str, int], Field(description="Decisions by the law's reason.")]
    policy: PolicySummary
    close_kinds: dict[str, int]
    closing_age_ms: ClosingAge
    closing_source: str | None
    real_executable_edge_bps: Annotated[None, Field(description="Null on every replay.")]


class BacktestSummary(Answer):
    """A backtest in a list."""

    backtest_id: str
    run_id: str
    pack_id: str
    fixture_id: int | None
    created_ts_ms: int


class BacktestListResponse(Answer):
    """Newest first."""

    backtests: list[BacktestSummary]
    next_cursor: Annotated[str | None, Field(description="Ask with `cursor` for what follows; null at the end.")]
