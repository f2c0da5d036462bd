"""Requests of callers: the typed bodies of the use cases, with their bounds and defaults."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Literal, Self, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    StrictInt,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from clvlab.api.competitions import CompetitionConfigSnapshot
from clvlab.arena.deploys.config import FixtureId, FixtureIds, scope_faults
from clvlab.arena.jobs import until_over
from clvlab.errors import NotOwnerError, NotStartableError, UnknownCompetitionError, WindowError
from clvlab.law.closing import Window
from clvlab.store.competitions import CompetitionRow

# ISO 8601 durations of a fixed length.


_FORM = re.compile(r"P(?:(\d{1,9})W|(?=\d|T\d)(?:(\d{1,9})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})S)?)?)")
_UNITS_S = (7 * 86_400, 86_400, 3_600, 60, 1)


def duration_s_of(text: str) -> int:
    """Return the seconds of a duration in whole weeks, or days to seconds: ``P1W``, ``PT90M``, ``P1DT12H``.

    Raises
    ------
    WindowError
        The text has another form, years or months (they have no fixed length), or a length of zero.

    References
    ----------
    ISO 8601-1:2019, 5.5.2.

    Examples
    --------
    >>> duration_s_of("PT1H30M")
    5400
    """
    found = _FORM.fullmatch(text) if text.isascii() else None
    seconds = sum(int(number) * unit for number, unit in zip(found.groups(), _UNITS_S, strict=True) if number) if found else 0
    if found is None or text.endswith("T") or seconds == 0:
        raise WindowError(f"{text!r} is not an ISO 8601 duration of weeks to seconds, such as PT90M or P1DT12H")
    return seconds


MAX_ROSTER_SIZE = 1000
# No control characters: an id must survive logs, headers and databases.
_Text = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
_Token = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


def _duration(text: str) -> str:
    try:
        Window(end_rule="fixed_duration", duration_s=duration_s_of(text))
    except WindowError as error:
        raise ValueError(str(error)) from error
    return text


class Body(BaseModel):
    model_config = ConfigDict(frozen=True)

    _ignored: frozenset[str] = PrivateAttr(default=frozenset())

    @model_validator(mode="wrap")
    @classmethod
    def _note_unknown(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        made = handler(value)
        if isinstance(value, dict):
            unknown = frozenset(value) - frozenset(cls.model_fields)
            faults = [
                InitErrorDetails(type=PydanticCustomError("unknown_scope", sentence), loc=(name,), input=value[name])
                for name, sentence in scope_faults(unknown).items()
            ]
            if faults:
                raise ValidationError.from_exception_data(cls.__name__, faults)
            made.note(unknown)
        return made

    def note(self, names: frozenset[str]) -> None:
        self._ignored = names

    @property
    def ignored(self) -> frozenset[str]:
        return self._ignored


class CompetitionConfig(Body):
    """A competition as requested by its owner; unknown fields are never stored.

    Attributes
    ----------
    competition_type
        Any token of letters, digits, ``-`` and ``_``.
    source_mode
        ``live`` is accepted, but can't start without a feed.
    market_scope, division
        Stored and echoed, without effect.
    roster_size
        Largest number of agents that may register, 2 to ``MAX_ROSTER_SIZE``.
    execution_mode
        ``paper``, or ``dry_run``: the gate is evaluated, but no venue is asked.
    pack_id, fixture_id
        Replayed pack and fixture; a null fixture is the lowest of the pack.
    fixture_ids
        In place of ``fixture_id``, several fixtures of the pack or ``all``, in one run.
    scoring_window
        ISO 8601 duration of weeks to seconds, from the fixture's first tick.

    References
    ----------
    Interface specification, "CompetitionConfig".
    """

    competition_type: _Token
    source_mode: Literal["replay", "live"]
    market_scope: _Text
    roster_size: Annotated[StrictInt, Field(ge=2, le=MAX_ROSTER_SIZE)]
    execution_mode: Literal["paper", "dry_run"] = "paper"
    pack_id: _Text | None = None
    fixture_id: FixtureId | None = None
    fixture_ids: FixtureIds | None = None
    scoring_window: Annotated[str, Field(max_length=64), AfterValidator(_duration)] | None = None
    division: _Text | None = None

    @field_validator("fixture_ids")
    @classmethod
    def _alone(cls, value: FixtureIds | None, info: ValidationInfo) -> FixtureIds | None:
        if value is not None and info.data.get("fixture_id") is not None:
            raise ValueError(f"goes without fixture_id, which is {info.data['fixture_id']}: give one of them")
        if value is not None and info.data.get("source_mode") == "live":
            raise ValueError("a live competition follows one fixture: name it by fixture_id")
        return value

    def snapshot(self) -> CompetitionConfigSnapshot:
        """Return the configuration as it is stored; without ``fixture_ids`` unless it has them."""
        unset = {"fixture_ids"} if self.fixture_ids is None else None
        return cast("CompetitionConfigSnapshot", self.model_dump(mode="json", exclude=unset))

    def window(self) -> Window:
        """``pre_match`` over all markets with a horizon of 60 s, or ``fixed_duration`` with a ``scoring_window``."""
        if self.scoring_window is None:
            return Window()
        return Window(end_rule="fixed_duration", duration_s=duration_s_of(self.scoring_window))


class AgentEntry(Body):
    """An agent as its owner registers it; unknown fields are never stored.

    References
    ----------
    Interface specification, "AgentEntry".
    """

    agent_id: _Text
    strategy: _Text
    config: dict[str, Any] = Field(default_factory=dict)
    proof_mode: Annotated[str, Field(max_length=64)] = "reproducible"
    instance_id: _Text | None = None


# The statuses of a competition, and the rights to change one.


class CompetitionStatus(StrEnum):
    """``draft`` -> ``open`` -> ``running`` -> ``finalized`` -> ``completed``; ``draft`` may start at once."""

    DRAFT = "draft"
    OPEN = "open"
    RUNNING = "running"
    FINALIZED = "finalized"
    COMPLETED = "completed"


MUTABLE = (CompetitionStatus.DRAFT, CompetitionStatus.OPEN)


def require(row: CompetitionRow | None, competition_id: str) -> CompetitionRow:
    if row is None:
        raise UnknownCompetitionError(f"unknown competition {competition_id!r}")
    return row


def require_owned(row: CompetitionRow | None, competition_id: str, caller: str) -> CompetitionRow:
    found = require(row, competition_id)
    if found["owner"] != caller:
        raise NotOwnerError(f"competition {competition_id} belongs to another principal")
    return found


def require_startable(row: CompetitionRow) -> None:
    if row["status"] not in MUTABLE:
        error = NotStartableError("not_startable", f"competition {row['competition_id']} is {row['status']} and can't start")
        raise until_over(error) if row["status"] == CompetitionStatus.RUNNING else error
