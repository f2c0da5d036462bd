"""Bodies of the caller itself."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from clvlab.answers.answer import Answer


class RunTally(Answer):
    """Runs of the caller in the log; those neither sealed nor abandoned are under way."""

    committed: int
    sealed: int
    abandoned: int


class Belongings(Answer):
    """What a caller has in the store."""

    instances: int
    competitions: int
    runs: RunTally


class Limits(Answer):
    """What holds for every caller."""

    max_body_bytes: Annotated[int, Field(description="Largest request body.")]
    max_token_lifetime_s: Annotated[int, Field(description="Longest `exp` - `iat` of a token, in seconds.")]


class MeResponse(Belongings):
    """The caller, by its token."""

    did: Annotated[str, Field(examples=["did:key:z6Mk"])]
    limits: Limits
