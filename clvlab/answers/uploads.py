"""Bodies of uploaded packs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from clvlab.answers.answer import Answer, Hash


class UploadedPack(Answer):
    """A pack that the caller uploaded."""

    pack_id: Annotated[str, Field(examples=["mine"])]
    content_hash: Hash
    provenance: Annotated[str, Field(description="`genuine-<provider>` only if earned.", examples=["imported-table"])]
    is_genuine: bool
    grade: Annotated[
        str, Field(description="What was shown: `not shown`, or `self-consistent` by its own messages.", examples=["not shown"])
    ]
    fixtures: list[int]
    bytes: Annotated[int, Field(description="Of all its files.")]
    admitted: Annotated[bool, Field(description="The catalog has it: runs over it count on the leaderboard.")]
    created_ts_ms: int


class UploadedPackList(Answer):
    """The caller's packs, by id."""

    packs: list[UploadedPack]
