"""Bodies of the replay pack catalog."""

from __future__ import annotations

from pydantic import Field

from clvlab_service.schemas.common import Answer, Hash

__all__ = ["ReplayPackInfo", "ReplayPackListResponse"]


class ReplayPackInfo(Answer):
    """A hash-verified, allowlisted pack."""

    pack_id: str = Field(examples=["starter"])
    content_hash: Hash
    provenance: str = Field(description="`genuine-<provider>` only if earned.", examples=["synthetic-clvlab"])
    is_genuine: bool
    fixtures: list[int] = Field(examples=[[90000000, 90000001]])


class ReplayPackListResponse(Answer):
    """The catalog."""

    packs: list[ReplayPackInfo]
