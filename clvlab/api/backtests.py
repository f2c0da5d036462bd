"""Bodies of backtests."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field

from clvlab.api.answer import Answer, Hash, JsonObject
from clvlab.api.runs import AgentIdentity, Checks, Metrics, RunProgress


class BacktestRunResponse(Answer):
    """A stored backtest."""

    backtest_id: str
    mode_label: Literal["Backtest"]
    run_id: str


class BacktestState(RunProgress):
    """A backtest that was asked for and has no report yet."""

    backtest_id: str
    mode_label: Literal["Backtest"]
    key: NotRequired[Annotated[str, Field(description="The request can be withdrawn by it; whoever asked gets it alone.")]]


class WindowInfo(Answer):
    """What of the tape is scored."""

    window_id: str
    end_rule: str
    duration_s: int | None
    min_clv_horizon_s: int
    market_allowlist: list[str]
    closing_policy: str
    max_close_age_s: NotRequired[Annotated[int, Field(description="How old a close may be; without a limit it is absent.")]]
    close_source: NotRequired[
        Annotated[str, Field(description="The book that entries and closes are read from; of the consensus it is absent.")]
    ]


class ClosingAge(Answer):
    """How old the closing prices were, in milliseconds; null without a scored decision."""

    median: float | None
    max: int | None


class PolicySummary(Answer):
    """What the policy said; it decides execution, never the score."""

    policy_hash: Hash
    allowed: int
    refused: Annotated[dict[str, int], Field(description="Actions by reason; one may have several.")]


_Share = Annotated[float | None, Field(ge=0, le=1, description="0..1; null without a scored decision.")]


class MeanStatistics(Answer):
    """A mean over scored decisions, in the unit of its name; decisions of one fixture do not count as independent."""

    mean: Annotated[float | None, Field(description="Null without a scored decision that has a value.")]
    low: Annotated[float | None, Field(description="Of the interval over fixtures; null with fewer than 5 fixtures.")]
    high: float | None
    level: Annotated[float, Field(description="How much the interval holds, 0..1.")]
    standard_error: Annotated[float | None, Field(description="Clustered by fixture; null with fewer than 2 fixtures.")]
    t: Annotated[float | None, Field(description="Clustered by fixture; null also where the error is zero.")]
    degrees_of_freedom: Annotated[
        float | None, Field(description="Of `t`: fixtures less one, and the fewer the more a few of them hold.")
    ]
    p_value: Annotated[float | None, Field(description="One-sided: how often chance alone gives a `t` as high.")]
    sign_flip_p: Annotated[
        float | None,
        Field(ge=0, le=1, description="Two-sided: how often a coin for the sign of each fixture gives a mean as far from 0."),
    ]
    n: Annotated[int, Field(description="Scored decisions that have a value.")]
    n_clusters: Annotated[int, Field(description="Their fixtures.")]
    design_effect: Annotated[float | None, Field(description="Variance over what it would be if decisions were independent.")]
    effective_n: Annotated[float | None, Field(description="How many independent decisions would say as much.")]


class MedianStatistics(Answer):
    """The median CLV of scored decisions and its interval over fixtures, in bps of probability."""

    median: Annotated[float | None, Field(description="Null without a scored decision.")]
    low: Annotated[float | None, Field(description="Null with fewer than 5 fixtures.")]
    high: float | None
    level: float


class BeatCloseStatistics(Answer):
    """How often the close was beaten."""

    beat: Annotated[int, Field(description="Scored decisions with a positive CLV.")]
    tied: Annotated[int, Field(description="Those with a CLV of 0: their market did not move.")]
    lost: int
    rate: Annotated[float | None, Field(ge=0, le=1, description="`beat / (beat + lost)`, 0..1; null if nothing moved.")]
    low: Annotated[
        float | None,
        Field(
            description="Of Wilson's interval on the effective sample size, 0..1; null with fewer than 5 fixtures that moved."
        ),
    ]
    high: float | None
    level: float
    effective_n: float | None


class FigureRow(Answer):
    """A figure of the tear sheet."""

    figure: str
    value: float | None
    low: Annotated[float | None, Field(description="Of its interval, if it has one.")]
    high: float | None
    unit: str


class BacktestStatistics(Answer):
    """What a backtest says of its agent, with intervals over fixtures; null wherever there are too few to say.

    The same report, level, number of resamples and seed give the same statistics.
    """

    clv_bps: Annotated[MeanStatistics, Field(description="CLV, in bps of probability.")]
    price_ratio_pct: Annotated[
        MeanStatistics, Field(description="Closing over entry probability, less one, in percent: what a fair price gains.")
    ]
    edge_pct: Annotated[MeanStatistics, Field(description="Value of the price taken at the closing probability, in percent.")]
    median_clv_bps: MedianStatistics
    beat_close: BeatCloseStatistics
    effective_clusters: Annotated[
        float | None,
        Field(description="Kish: fixtures with equally many scored decisions that would be spread as evenly."),
    ]
    largest_fixture_share: Annotated[_Share, Field(description="Share of the scored decisions in one fixture, at most; 0..1.")]
    top_five_share: Annotated[_Share, Field(description="Share of the scored decisions in the five largest fixtures; 0..1.")]
    resamples: Annotated[int, Field(description="Of the sign flips by fixture.")]
    seed: int
    figures: Annotated[
        list[FigureRow], Field(description="The tear sheet's figures over all scored decisions, but for those that move them.")
    ]


class RunReport(Answer):
    """What came of a run."""

    run_id: str
    pack_id: str
    provenance: str
    grade: NotRequired[Annotated[str, Field(description="Of the provenance, as the pack's verification showed it.")]]
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
    in_gap: NotRequired[
        Annotated[
            int,
            Field(ge=0, description="Scored decisions with an entry or close that a gap touches; absent in old reports."),
        ]
    ]
    statistics: NotRequired[Annotated[BacktestStatistics, Field(description="Of a backtest over several fixtures.")]]
    real_executable_edge_bps: Annotated[None, Field(description="Null on every replay, and on paper.")]


class _BacktestName(Answer):
    """What a backtest is called; first in its report."""

    backtest_id: str
    run_id: str
    mode_label: Literal["Backtest"]


class BacktestReport(_BacktestName, RunReport):
    """What came of a backtest."""

    pack_verification: NotRequired[
        Annotated[str, Field(description="How the ticks were verified, where not all of the pack was before it was opened.")]
    ]


class _LiveName(Answer):
    """What a live run is called; first in its report."""

    run_id: str
    mode_label: Literal["Live paper"]


class LiveReport(_LiveName, RunReport):
    """What came of a live run."""

    gaps: Annotated[dict[str, int], Field(description="By cause, what the capture missed and nobody sent again.")]


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


# Bodies of the strategy templates.


class StrategyInfo(Answer):
    """A strategy template."""

    strategy: Annotated[str, Field(examples=["cumulative-drift"])]
    version: str
    summary: str
    algorithm: str
    parameters: Annotated[JsonObject, Field(description="JSON Schema (2020-12) of its configuration.")]
    defaults: Annotated[JsonObject, Field(description="The configuration that stands for none.")]
    config_hash: Annotated[Hash, Field(description="Of the defaults, as an entry of a competition pins them.")]


class StrategyListResponse(Answer):
    """All templates."""

    strategies: list[StrategyInfo]
