"""Bodies of health and readiness."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from clvlab.answers.answer import Answer


class HealthResponse(Answer):
    """The process answers."""

    status: Literal["ok"]


class FeedHealth(Answer):
    """How the live feed is, as the runs see it that follow it."""

    runs: Annotated[int, Field(description="Live runs that this process follows.")]
    connected: Annotated[bool | None, Field(description="Whether all of them are connected; null without any.")]
    data_age_s: Annotated[float | None, Field(description="Seconds since the last message of the one that waits longest.")]
    quota_left: Annotated[int | None, Field(description="What is left of what was paid for; null where nothing is counted.")]
    clock_skew_ms: Annotated[int | None, Field(description="The provider's time less the service's at the last message.")]
    error: Annotated[str | None, Field(description="What went wrong last, while it is wrong.")]


class ReadinessResponse(HealthResponse):
    """The store answers."""

    store: Annotated[str, Field(description="Kind of the database: `sqlite`, of memory too, or `postgresql`.")]
    schema_version: str
    feed: Annotated[FeedHealth | None, Field(description="Null without a live feed.")]
