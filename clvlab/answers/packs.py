"""Bodies of the replay pack catalog."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from clvlab.answers.answer import Answer, Hash


class ReplayPackInfo(Answer):
    """A hash-verified, allowlisted pack."""

    pack_id: Annotated[str, Field(examples=["starter"])]
    content_hash: Hash
    provenance: Annotated[str, Field(description="`genuine-<provider>` only if earned.", examples=["synthetic-clvlab"])]
    is_genuine: bool
    fixtures: Annotated[list[int], Field(examples=[[90000000, 90000001]])]


class ReplayPackListResponse(Answer):
    """The catalog."""

    packs: list[ReplayPackInfo]
