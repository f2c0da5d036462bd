"""Bodies of the run log."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from clvlab.answers.answer import Answer, Hash


class OwnerCounts(Answer):
    """Runs of one owner; `open` ones are under way, or were dropped. Nothing is ranked by these."""

    owner: Annotated[str, Field(description="DID that asked for the runs; `anonymous` without a token.")]
    committed: int
    sealed: int
    abandoned: int
    open: int


class LogEntry(Answer):
    """An entry; the hash of its text is a leaf of the tree."""

    index: int
    entry: Annotated[str, Field(description="Canonical JSON of kind COMMIT, RESULT, ABANDONED or RESTART.")]


class LogResponse(Answer):
    """State of the log."""

    origin: Annotated[str | None, Field(description="Name of the log; null when it has no key.")]
    public_key: str | None
    size: int
    root_hash: Annotated[Hash, Field(description="Root of the Merkle tree over the entries (RFC 9162).")]
    owners: list[OwnerCounts]
    restarts: Annotated[
        list[LogEntry],
        Field(description="Where the log was restored and goes on under another name; entries before are in the same tree."),
    ]


class LogEntriesResponse(Answer):
    """In order."""

    entries: list[LogEntry]


class ConsistencyResponse(Answer):
    """Proof that the log only grew (RFC 9162, section 2.1.4)."""

    first: int
    second: int
    proof: Annotated[list[str], Field(description="Hashes in hex.")]
