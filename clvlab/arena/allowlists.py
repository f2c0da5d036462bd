"""Bounded allowlists of requests: a run stores them several times."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, StrictStr

MAX_ENTRIES = 64


MAX_BYTES = 200


def _short(text: str) -> str:
    if len(text.encode()) > MAX_BYTES:
        raise ValueError(f"an entry has at most {MAX_BYTES} bytes, not {len(text.encode())}")
    return text


Entry = Annotated[StrictStr, Field(max_length=MAX_BYTES), AfterValidator(_short)]


Allowlist = Annotated[list[Entry], Field(max_length=MAX_ENTRIES)]
