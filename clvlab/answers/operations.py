"""Bodies of health and readiness."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from clvlab.answers.answer import Answer


class HealthResponse(Answer):
    """The process answers."""

    status: Literal["ok"]


class ReadinessResponse(HealthResponse):
    """The store answers."""

    store: Annotated[str, Field(description="Kind of the database: `sqlite`, of memory too, or `postgresql`.")]
    schema_version: str
