"""Bodies of the decisions of a run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from clvlab.answers.answer import Answer


class DecisionRow(Answer):
    """A sealed decision with its score, as the inspector shows it."""

    seq: Annotated[int, Field(description="As in `/runs/{run_id}/actions/{seq}`.")]
    agent_id: str
    fixture_id: int
    market_key: str | None
    side: str | None
    tick_seq: int
    ts_ms: int
    action: Annotated[str, Field(examples=["BACK"])]
    stake: int | None
    limit_odds_milli: int | None
    policy: Annotated[
        Literal["allowed", "refused"] | None, Field(description="Null for a WAIT. It decides execution, never the score.")
    ]
    valid: bool
    reason: Annotated[str, Field(examples=["scored"])]
    entry_prob_bps: int | None
    odds_milli: Annotated[int | None, Field(description="Quote at entry.")]
    close_prob_bps: int | None
    clv_bps: Annotated[int | None, Field(description="Null unless scored.")]
    edge_bps: int | None
    close_kind: str | None
    closing_age_ms: int | None
    confidence: Annotated[
        float | str | None,
        Field(description="Claimed; a text where it is no probability, which stands in `confidence_raw` in Arrow."),
    ]


class DecisionListResponse(Answer):
    """A page of the decisions of a sealed run."""

    run_id: str
    decisions: list[DecisionRow]
    total: Annotated[int, Field(description="Decisions that match, on all pages.")]
    next_cursor: Annotated[str | None, Field(description="Ask with `cursor` for what follows; null at the end.")]
