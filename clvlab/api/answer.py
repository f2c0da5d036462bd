"""Types that several resources share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, NotRequired, TypeVar, cast

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypeAliasType, TypedDict

_T = TypeVar("_T")

JsonObject = dict[str, Any]
"""A JSON object whose shape is defined elsewhere: the configuration of a template, the payload of an event by its kind, a JSON
Schema, or an answer of a venue or another service."""

Hash = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$", examples=["sha256:" + "6e8d" * 16])]


@with_config(ConfigDict(extra="forbid"))
class Answer(TypedDict):
    """Base of every answer: named fields of named types, and no others."""


class BodyAnswer(Answer, total=False):
    """An answer that lists the unread fields of the body."""

    ignored: Annotated[list[str], Field(description="Sorted names of unread fields of the body; absent if there are none.")]


ProofMode = TypeAliasType(
    "ProofMode",
    Annotated[
        Literal["reproducible", "verified"],
        Field(description="`reproducible`: anyone can repeat the run; `verified`: the agent makes further claims."),
    ],
)


def one_of(*values: str, description: str) -> Any:
    """Describe a text of a closed set, for fields whose values other modules own and answers only repeat."""
    return Field(description=description, json_schema_extra={"enum": list(values)})


SourceMode = TypeAliasType("SourceMode", Annotated[str, one_of("replay", "live", description="Source of the prices of a run.")])
ModeLabel = TypeAliasType(
    "ModeLabel",
    Annotated[
        str, one_of("Backtest", "Live paper", description="`Backtest` for every replay, `Live paper` for every live run.")
    ],
)
ExecutionMode = TypeAliasType(
    "ExecutionMode",
    Annotated[str, one_of("paper", "dry_run", description="`dry_run`: the policy is evaluated without a venue.")],
)
EndRule = TypeAliasType(
    "EndRule", Annotated[str, one_of("pre_match", "fixed_duration", "manual_stop", description="What ends the window.")]
)
AnchorStatus = TypeAliasType(
    "AnchorStatus", Annotated[str, one_of("not_anchored", "pending", "anchored", "failed", description="State of the anchor.")]
)
Action = TypeAliasType("Action", Annotated[str, one_of("BACK", "WAIT", description="Kind of an action.")])
CloseKind = TypeAliasType(
    "CloseKind",
    Annotated[
        str, one_of("in_running", "kickoff", "tape_end", "duration", "stop", description="What ended the fixture's window.")
    ],
)
_REASONS = (
    "wait_unscored",
    "market_key_missing",
    "side_missing",
    "market_not_allowed",
    "outside_window",
    "entry_market_absent",
    "entry_suspended",
    "entry_side_missing",
    "closing_market_absent",
    "closing_suspended",
    "closing_stale",
    "closing_side_missing",
    "pending_horizon",
    "scored",
)
ScoreReason = TypeAliasType("ScoreReason", Annotated[str, one_of(*_REASONS, description="Why a decision is scored or not.")])


@with_config(ConfigDict(extra="ignore"))
class RequestFault(TypedDict):
    """A fault of one field of a body, or of one parameter."""

    loc: Annotated[list[str | int], Field(description="`body`, `query`, `path` or `header`, then names and indices.")]
    msg: str
    type: Annotated[str, Field(description="Stable key of the broken rule.")]
    input: Annotated[str, Field(description="The value, shortened.")]


class ReplayBinding(Answer):
    """Pack and fixtures of a run, fixed at its creation."""

    pack_id: str
    fixture_id: Annotated[int, Field(description="The first fixture.")]
    content_hash: Annotated[Hash, Field(description="Hash of the pack in the catalog, never one from the client.")]
    fixture_ids: NotRequired[Annotated[list[int], Field(description="All fixtures, sorted, if the request has `fixture_ids`.")]]


def pick(kind: type[_T], row: Mapping[str, Any]) -> _T:
    """Return the fields of an answer from a row, which has all of them except ``ignored``."""
    return cast("_T", {name: row[name] for name in kind.__annotations__ if name not in BodyAnswer.__optional_keys__})


def ignored(names: Iterable[str]) -> BodyAnswer:
    """Return the part of an answer that lists the unread names of a body; without such names it is empty.

    Examples
    --------
    >>> ignored(["owner", "colour"]), ignored([])
    ({'ignored': ['colour', 'owner']}, {})
    """
    # JSON can contain a lone surrogate, which UTF-8 can't encode
    written = sorted(name.encode(errors="backslashreplace").decode() for name in names)
    return {"ignored": written} if written else {}


# Bodies of the service itself: the index, the kinds of problems, health and readiness.


class ProblemKind(Answer):
    """A kind of problems; several statuses may share the type `about:blank`."""

    status: int
    type: Annotated[str, Field(examples=["urn:clvlab:problem:roster-full"])]
    title: Annotated[str, Field(description="Standard phrase of the status.", examples=["Conflict"])]
    meaning: Annotated[str, Field(description="Condition under which it occurs.", examples=["The roster has no free place."])]
    documentation_url: Annotated[
        str, Field(description="Path of the description of this kind.", examples=["/problems#roster-full"])
    ]


class ProblemKindList(Answer):
    """All kinds, by status."""

    problems: list[ProblemKind]


class HealthResponse(Answer):
    """The process answers."""

    status: Literal["ok"]


class FeedHealth(Answer):
    """State of the live feed, as the live runs see it."""

    runs: Annotated[int, Field(description="Live runs that this process follows.")]
    connected: Annotated[bool | None, Field(description="Whether all of them are connected; `null` without live runs.")]
    data_age_s: Annotated[
        float | None, Field(description="Seconds since the last price update, for the run that waits longest.")
    ]
    quota_left: Annotated[int | None, Field(description="Remaining paid quota; `null` if the feed counts none.")]
    clock_skew_ms: Annotated[
        int | None, Field(description="Provider's time minus the service's time, at the last price update.")
    ]
    error: Annotated[str | None, Field(description="The current error.")]


class ReadinessResponse(Answer):
    """The store answers."""

    status: Annotated[
        Literal["ok", "reads_only"],
        Field(description="`reads_only` while the log is behind: calls that write get 503 `log-behind`."),
    ]
    store: Annotated[str, Field(description="Kind of database: `sqlite` (also in memory) or `postgresql`.")]
    schema_version: str
    feed: Annotated[FeedHealth | None, Field(description="`null` without a live feed.")]
    log: Annotated[
        Literal["ok", "behind", "unpublished"],
        Field(
            description="`behind`: the log lacks published entries; `unpublished`: the file of checkpoints can't be written."
        ),
    ]
