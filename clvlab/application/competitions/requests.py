"""What callers ask for: the typed bodies of the use cases, with their bounds and defaults."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    StrictInt,
    model_validator,
)

from clvlab.application.durations import duration_s_of
from clvlab.errors import WindowError
from clvlab.law.closing import Window
from clvlab.law.schema import SAFE_INTEGER

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
    """A body of which unknown fields are never stored, and their names told."""

    model_config = ConfigDict(frozen=True)

    _ignored: frozenset[str] = PrivateAttr(default=frozenset())

    @model_validator(mode="wrap")
    @classmethod
    def _noted(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        made = handler(given)
        if isinstance(given, dict):
            made.note(frozenset(given) - frozenset(cls.model_fields))
        return made

    def note(self, names: frozenset[str]) -> None:
        """Note names of fields that were given and are not known."""
        self._ignored = names

    @property
    def ignored(self) -> frozenset[str]:
        """The names that were noted."""
        return self._ignored


class CompetitionConfig(Body):
    """A competition as its owner asks for it; unknown fields are never stored.

    Attributes
    ----------
    competition_type
        Any token of letters, digits, ``-`` and ``_``.
    source_mode
        ``live`` is accepted and can't start without a feed.
    market_scope, division
        Stored and echoed, without effect.
    roster_size
        Most agents that may register, 2 to ``MAX_ROSTER_SIZE``.
    execution_mode
        ``paper``, or ``dry_run``: the gate is evaluated and no venue is asked.
    pack_id, fixture_id
        What is replayed; a null fixture is the lowest of the pack.
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
    fixture_id: Annotated[StrictInt, Field(ge=-SAFE_INTEGER, le=SAFE_INTEGER)] | None = None
    scoring_window: Annotated[str, Field(max_length=64), AfterValidator(_duration)] | None = None
    division: _Text | None = None

    def window(self) -> Window:
        """``pre_match`` over all markets with a horizon of 60 s, or ``fixed_duration`` with a ``scoring_window``."""
        if self.scoring_window is None:
            return Window()
        return Window(end_rule="fixed_duration", duration_s=duration_s_of(self.scoring_window))


class AgentEntry(Body):
    """An agent as its owner puts it on a roster; unknown fields are never stored.

    References
    ----------
    Interface specification, "AgentEntry".
    """

    agent_id: _Text
    strategy: _Text
    config: dict[str, Any] = Field(default_factory=dict)
    proof_mode: Annotated[str, Field(max_length=64)] = "reproducible"
    instance_id: _Text | None = None
