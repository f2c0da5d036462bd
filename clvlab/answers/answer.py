"""What several resources share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypeAliasType, TypedDict

_T = TypeVar("_T")

Hash = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$", examples=["sha256:" + "6e8d" * 16])]


@with_config(ConfigDict(extra="forbid"))
class Answer(TypedDict):
    """Base of every answer: named fields of named types, and no others."""


class BodyAnswer(Answer, total=False):
    """An answer to a body, of which it tells what was not read."""

    ignored: Annotated[list[str], Field(description="Names in the body that nothing reads, sorted; absent without any.")]


ProofMode = TypeAliasType(
    "ProofMode",
    Annotated[
        Literal["reproducible", "verified"],
        Field(description="How far a result can be checked: anyone can re-run it, or it carries claims beyond that."),
    ],
)


class ReplayBinding(Answer):
    """Frozen replay identity."""

    pack_id: str
    fixture_id: int
    content_hash: Annotated[Hash, Field(description="Of the verified catalog entry, never of the client.")]


def pick(kind: type[_T], row: Mapping[str, Any]) -> _T:
    """Return the fields of an answer out of a row that has them all; ``ignored`` is no part of any row."""
    return cast("_T", {name: row[name] for name in kind.__annotations__ if name not in BodyAnswer.__optional_keys__})


def ignored(names: Iterable[str]) -> BodyAnswer:
    """Return the part of an answer that tells which names of a body nothing reads; nothing without any.

    Examples
    --------
    >>> ignored(["owner", "colour"]), ignored([])
    ({'ignored': ['colour', 'owner']}, {})
    """
    # a lone surrogate, which JSON can spell, has no UTF-8
    written = sorted(name.encode(errors="backslashreplace").decode() for name in names)
    return {"ignored": written} if written else {}
