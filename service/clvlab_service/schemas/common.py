"""What several resources share."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Answer", "Hash", "Problem", "ProofMode", "ReplayBinding"]

Hash = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$", examples=["sha256:" + "6e8d" * 16])]


class Answer(BaseModel):
    """Base of every response: named fields of named types, and no others."""

    model_config = ConfigDict(extra="forbid")


class ProofMode(StrEnum):
    """How far a result can be checked: anyone can re-run it, or it carries claims beyond that."""

    REPRODUCIBLE = "reproducible"
    VERIFIED = "verified"


class ReplayBinding(Answer):
    """Frozen replay identity."""

    pack_id: str
    fixture_id: int
    content_hash: Hash = Field(description="Of the verified catalog entry, never of the client.")


class Problem(BaseModel):
    """An error (RFC 9457, `application/problem+json`)."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="`urn:clvlab:problem:<name>`; `about:blank` for errors of plain HTTP.")
    title: str
    status: int
    detail: str
    instance: str = Field(description="Path of the request.")
    request_id: str | None = Field(description="Also in the header `X-Request-ID` and in the service's log.")
    errors: list[dict[str, Any]] | None = Field(None, description="422 of a request: `loc`, `msg`, `type`, `input`.")
    checks: list[dict[str, Any]] | None = Field(None, description="422 of a deploy: every failing check.")
    reason: str | None = Field(default=None, description="Stable key that tells apart conflicts of one kind.")
