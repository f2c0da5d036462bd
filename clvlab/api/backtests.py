"""Bodies of backtests."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field

from clvlab.api.answer import Answer, EndRule, Hash, JsonObject
from clvlab.api.runs import AgentIdentity, Checks, Metrics


class BacktestRunResponse(Answer):
    """A stored backtest."""

    backtest_id: str
    mode_label: Literal["Backtest"]
    run_id: str


class WindowInfo(Answer):
    """The scored part of the tape."""

    window_id: str
    end_rule: EndRule
    duration_s: int | None
    min_clv_horizon_s: int
    market_allowlist: list[str]
    closing_policy: str
    max_close_age_s: NotRequired[
        Annotated[int, Field(description="Largest age of a close that scores, in seconds; absent without a limit.")]
    ]
    close_source: NotRequired[
        Annotated[str, Field(description="Book of the entry and closing prices; absent for the consensus.")]
    ]


class ClosingAge(Answer):
    """Age of the closing prices, in milliseconds; `null` without a scored decision."""

    median: float | None
    max: int | None


class PolicySummary(Answer):
    """Verdicts of the policy; they decide execution, never the score."""

    policy_hash: Hash
    allowed: int
    refused: Annotated[dict[str, int], Field(description="Refused actions by reason; one action may have several.")]


_Share = Annotated[float | None, Field(ge=0, le=1, description="0..1; `null` without a scored decision.")]


class MeanStatistics(Answer):
    """A mean over scored decisions, in the unit of its name, clustered by fixture."""

    mean: Annotated[float | None, Field(description="`null` without a scored decision that has a value.")]
    low: Annotated[
        float | None, Field(description="Lower end of the interval over fixtures; `null` with fewer than 5 fixtures.")
    ]
    high: float | None
    level: Annotated[float, Field(description="Level of the interval, 0..1.")]
    standard_error: Annotated[
        float | None, Field(description="Standard error, clustered by fixture; `null` with fewer than 2 fixtures.")
    ]
    t: Annotated[float | None, Field(description="Mean divided by the standard error; `null` also if the error is zero.")]
    degrees_of_freedom: Annotated[
        float | None, Field(description="Degrees of freedom of `t`: fixtures minus one, or fewer if a few fixtures dominate.")
    ]
    p_value: Annotated[float | None, Field(description="One-sided p-value: how often chance alone gives a `t` this high.")]
    sign_flip_p: Annotated[
        float | None,
        Field(ge=0, le=1, description="Two-sided p-value: how often random signs of the fixtures give a mean this far from 0."),
    ]
    n: Annotated[int, Field(description="Number of scored decisions with a value.")]
    n_clusters: Annotated[int, Field(description="Number of fixtures of these decisions.")]
    design_effect: Annotated[float | None, Field(description="Variance relative to independent decisions.")]
    effective_n: Annotated[float | None, Field(description="Number of independent decisions with the same information.")]


class MedianStatistics(Answer):
    """The median CLV of scored decisions and its interval over fixtures, in bps of probability."""

    median: Annotated[float | None, Field(description="`null` without a scored decision.")]
    low: Annotated[float | None, Field(description="`null` with fewer than 5 fixtures.")]
    high: float | None
    level: float


class BeatCloseStatistics(Answer):
    """How often the close was beaten."""

    beat: Annotated[int, Field(description="Number of scored decisions with a positive CLV.")]
    tied: Annotated[int, Field(description="Number of scored decisions with a CLV of 0, where the market did not move.")]
    lost: int
    rate: Annotated[float | None, Field(ge=0, le=1, description="`beat / (beat + lost)`, 0..1; `null` if nothing moved.")]
    low: Annotated[
        float | None,
        Field(description="Lower end of Wilson's interval on the effective sample; `null` if fewer than 5 fixtures moved."),
    ]
    high: float | None
    level: float
    effective_n: float | None


class FigureRow(Answer):
    """A figure of the tear sheet."""

    figure: str
    value: float | None
    low: Annotated[float | None, Field(description="Lower end of its interval, if it has one.")]
    high: float | None
    unit: str


class BacktestStatistics(Answer):
    """Statistics of a backtest, with intervals over fixtures; `null` if there are too few.

    The same report, level, number of resamples and seed give the same statistics.
    """

    clv_bps: Annotated[MeanStatistics, Field(description="CLV, in bps of probability.")]
    price_ratio_pct: Annotated[
        MeanStatistics,
        Field(description="Closing probability divided by entry probability, minus one, in percent: the gain of a fair price."),
    ]
    edge_pct: Annotated[
        MeanStatistics, Field(description="Edge: profit per stake at the price taken if the close is right, in percent.")
    ]
    median_clv_bps: MedianStatistics
    beat_close: BeatCloseStatistics
    effective_clusters: Annotated[
        float | None,
        Field(description="Kish: number of fixtures of equal size with the same spread of scored decisions."),
    ]
    largest_fixture_share: Annotated[_Share, Field(description="Share of scored decisions in the largest fixture; 0..1.")]
    top_five_share: Annotated[_Share, Field(description="Share of scored decisions in the five largest fixtures; 0..1.")]
    resamples: Annotated[int, Field(description="Number of sign flips by fixture.")]
    seed: int
    figures: Annotated[
        list[FigureRow],
        Field(description="Figures of the tear sheet over all scored decisions, without those that move the close themselves."),
    ]


class RunReport(Answer):
    """Report of a run."""

    run_id: str
    pack_id: str
    provenance: str
    grade: NotRequired[Annotated[str, Field(description="Grade of the provenance, from the verification of the pack.")]]
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
    reasons: Annotated[dict[str, int], Field(description="Decisions by reason of the score.")]
    policy: PolicySummary
    close_kinds: dict[str, int]
    closing_age_ms: ClosingAge
    closing_source: str | None
    in_gap: NotRequired[
        Annotated[
            int,
            Field(
                ge=0,
                description="Number of scored decisions whose entry or close is in a gap of the recording; absent in old "
                "reports.",
            ),
        ]
    ]
    statistics: NotRequired[Annotated[BacktestStatistics, Field(description="Present if the run has several fixtures.")]]
    real_executable_edge_bps: Annotated[None, Field(description="Always `null`, for replays and on paper.")]


class _BacktestName(Answer):
    """Name of a backtest, first in its report."""

    backtest_id: str
    run_id: str
    mode_label: Literal["Backtest"]


class BacktestReport(_BacktestName, RunReport):
    """Report of a backtest. A service adds owner and times of the run."""

    owner: NotRequired[Annotated[str | None, Field(description="Owner of the run; `anonymous` without a token.")]]
    created_ts_ms: NotRequired[int]
    updated_ts_ms: NotRequired[Annotated[int, Field(description="Time of the run's last change of status, anchor or checks.")]]
    pack_verification: NotRequired[
        Annotated[
            str, Field(description="Extent of the pack's verification, unless it was verified in full before it was opened.")
        ]
    ]


class _LiveName(Answer):
    """Name of a live run, first in its report."""

    run_id: str
    mode_label: Literal["Live paper"]


class LiveReport(_LiveName, RunReport):
    """Report of a live run."""

    gaps: Annotated[dict[str, int], Field(description="Messages that the capture missed and nobody sent again, by cause.")]


class StoredReport(Answer):
    """Name of a stored report."""

    backtest_id: str
    run_id: str
    pack_id: str
    fixture_id: int | None
    created_ts_ms: int


class BacktestSummary(StoredReport):
    """A backtest in a list."""

    owner: Annotated[str | None, Field(description="Owner of its run; `anonymous` without a token.")]
    updated_ts_ms: Annotated[int, Field(description="Time of the run's last change of status, anchor or checks.")]


class BacktestListResponse(Answer):
    """Newest first."""

    backtests: list[BacktestSummary]
    next_cursor: Annotated[str | None, Field(description="Pass it as `cursor` for the next page; `null` at the end.")]


# Bodies of the strategy templates.


class StrategyInfo(Answer):
    """A strategy template."""

    strategy: Annotated[str, Field(examples=["cumulative-drift"])]
    version: str
    summary: str
    algorithm: str
    parameters: Annotated[JsonObject, Field(description="JSON Schema (2020-12) of the configuration.")]
    defaults: Annotated[JsonObject, Field(description="The default configuration.")]
    config_hash: Annotated[Hash, Field(description="Hash of the defaults, as a competition entry pins them.")]


class StrategyListResponse(Answer):
    """All templates."""

    strategies: list[StrategyInfo]
