"""What callers ask for: the typed bodies of the use cases, with their bounds and defaults."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt

from clvlab.application.durations import duration_s_of
from clvlab.errors import WindowError
from clvlab.law.closing import Window

MAX_ROSTER_SIZE = 1000
_MAX_INT = 2**53 - 1
# No control characters: an id must survive logs, headers and databases.
_Text = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
_Token = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


def _duration(text: str) -> str:
    try:
        Window(end_rule="fixed_duration", duration_s=duration_s_of(text))
    except WindowError as error:
        raise ValueError(str(error)) from error
    return text


class CompetitionConfig(BaseModel):
    """A competition as its owner asks for it; unknown fields are ignored and never stored.

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

    model_config = ConfigDict(frozen=True)

    competition_type: _Token
    source_mode: Literal["replay", "live"]
    market_scope: _Text
    roster_size: Annotated[StrictInt, Field(ge=2, le=MAX_ROSTER_SIZE)]
    execution_mode: Literal["paper", "dry_run"] = "paper"
    pack_id: _Text | None = None
    fixture_id: Annotated[StrictInt, Field(ge=-_MAX_INT, le=_MAX_INT)] | None = None
    scoring_window: Annotated[str, Field(max_length=64), AfterValidator(_duration)] | None = None
    division: _Text | None = None

    def window(self) -> Window:
        """``pre_match`` over all markets with a horizon of 60 s, or ``fixed_duration`` with a ``scoring_window``."""
        if self.scoring_window is None:
            return Window()
        return Window(end_rule="fixed_duration", duration_s=duration_s_of(self.scoring_window))


class AgentEntry(BaseModel):
    """An agent as its owner puts it on a roster; unknown fields are ignored and never stored.

    References
    ----------
    Interface specification, "AgentEntry".
    """

    model_config = ConfigDict(frozen=True)

    agent_id: _Text
    strategy: _Text
    config: dict[str, Any] = Field(default_factory=dict)
    proof_mode: Annotated[str, Field(max_length=64)] = "reproducible"
    instance_id: _Text | None = None
