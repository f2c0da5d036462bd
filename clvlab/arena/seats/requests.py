"""Requests about seats: a new seat, and the answer to a tick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictInt, model_validator

from clvlab.agents.proposals import Claimed
from clvlab.agents.template import limit
from clvlab.arena.competitions.requests import Body
from clvlab.arena.deploys.config import Allowlist, FixtureIds
from clvlab.errors import SeatRulesError
from clvlab.law.actions import MAX_NAME_BYTES, MAX_REASON_BYTES
from clvlab.law.closing import Window
from clvlab.law.schema import SAFE_INTEGER, Action
from clvlab.log.seats import DEFAULT_STAKE, Blind
from clvlab.proof.canonical import JsonObject

MAX_DECISIONS = 64
_Text = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
_Seconds = Annotated[StrictInt, Field(ge=1, le=366 * 86_400)]


@dataclass(frozen=True, slots=True)
class SeatLimits:
    """Limits of seats, as an operator sets them.

    Attributes
    ----------
    ticks
        Most messages of one seat.
    decision_bytes
        Most bytes of all decisions of one seat, as recorded.
    tick_s, seat_s
        Longest deadlines in seconds, which also hold where a request names none: of one tick, and of a seat without an answer.
    live_s
        Longest time in seconds from the arrival of a message at a live seat to its answer.
    held_fixtures
        Most fixtures of one pack that is held back that one owner is dealt.
    log_ticks, log_s
        The run log gets the head of a chain after so many ticks, and at the first answer after so many seconds.
    """

    ticks: int = 100_000
    decision_bytes: int = 16 << 20
    tick_s: int = 3_600
    seat_s: int = 86_400
    live_s: int = 5
    held_fixtures: int = 1_000
    log_ticks: int = 500
    log_s: int = 60


class SeatRules(Body):
    """What a seat plays and how: of one seat, or of all seats of a competition.

    Attributes
    ----------
    pack_id, fixture_ids
        Replayed pack, and its fixtures or ``all``; null draws one fixture by the secret of the seat.
    blind
        ``open`` hides nothing; ``aliased`` hides names, ids, dates and the order of sides; ``held-back`` is aliased over a pack
        that is held back, and deals one fixture that no other seat gets; ``live`` follows a match on the service's feed.
    window_id, end_rule, duration_s, min_clv_horizon_s, market_allowlist, close_source
        The scoring window, as of a backtest.
    tick_s, seat_s
        Deadlines in seconds, up to those of the operator, which are the default: of one tick, and of a seat without an answer.
    max_stake
        Largest stake of a decision, at least 100, which is the stake of a decision that names none; null allows any.
    """

    pack_id: _Text | None = None
    fixture_ids: FixtureIds | None = None
    blind: Blind = Blind.ALIASED
    window_id: _Text = "full"
    end_rule: Literal["pre_match", "fixed_duration", "manual_stop"] = "pre_match"
    duration_s: _Seconds | None = None
    min_clv_horizon_s: Annotated[StrictInt, Field(ge=0, le=366 * 86_400)] = Window().min_clv_horizon_s
    market_allowlist: Annotated[Allowlist, Field(min_length=1)] = Field(default=[""])
    close_source: _Text | None = None
    tick_s: _Seconds | None = None
    seat_s: _Seconds | None = None
    max_stake: Annotated[StrictInt, Field(ge=DEFAULT_STAKE, le=SAFE_INTEGER)] | None = None

    @model_validator(mode="after")
    def _dealt(self) -> Self:
        if self.blind is Blind.HELD_BACK and self.fixture_ids is not None:
            raise ValueError("a held-back seat names no fixture_ids: one is dealt to it")
        if self.blind is Blind.LIVE and self.pack_id is not None:
            raise ValueError("a live seat follows the feed, and names no pack_id")
        if self.blind is Blind.LIVE and self.fixture_ids is not None and len({*self.fixture_ids}) != 1:
            raise ValueError("a live seat follows one fixture: name one in fixture_ids, or none for the next to kick off")
        return self

    def within(self, limits: SeatLimits) -> Self:
        """Return the rules with the deadlines of the operator where they name none or longer ones."""
        tick_s, seat_s = min(self.tick_s or limits.tick_s, limits.tick_s), min(self.seat_s or limits.seat_s, limits.seat_s)
        made = self.model_copy(update={"tick_s": tick_s, "seat_s": seat_s})
        made.note(self.ignored)
        return made


class SeatRequest(SeatRules):
    """A seat over the past prices of a pack; unknown fields are never stored.

    Attributes
    ----------
    agent_id
        Name of the agent, as on the leaderboard.
    competition_id
        A competition of seats, whose rules are those of the seat; a request that names another rule is refused.
    """

    agent_id: _Text
    competition_id: _Text | None = None

    def under(self, rules: SeatRules) -> SeatRequest:
        """Return the request with the rules of its competition; ``SeatRulesError`` if it names another one."""
        wanted = {name: getattr(rules, name) for name in SeatRules.model_fields}
        for name in sorted(self.model_fields_set & wanted.keys()):
            own = getattr(self, name)
            if own is not None and own != wanted[name]:
                rule = f"{name} of competition {self.competition_id} is {_rule_text(wanted[name])}"
                raise SeatRulesError(f"{rule}, not {_rule_text(own)}: leave it out")
        made = self.model_copy(update=wanted)
        made.note(self.ignored)
        return made


def _rule_text(value: object) -> str:
    return f"{value!s:.80}" if value is not None else "null"


class SeatCompetitionRequest(SeatRules):
    """A competition of seats, as its organiser asks for it; unknown fields are never stored.

    Attributes
    ----------
    name
        What its page is called.
    closes_ts_ms
        When the last seat may be taken, in UTC milliseconds; null leaves that to the organiser.
    """

    name: _Text
    closes_ts_ms: Annotated[StrictInt, Field(ge=0, le=SAFE_INTEGER)] | None = None

    @model_validator(mode="after")
    def _hides(self) -> SeatCompetitionRequest:
        if self.blind is Blind.LIVE:
            raise ValueError("a competition of seats is over a pack, and live seats have none until the match ends")
        if self.blind.hides and isinstance(self.fixture_ids, list):
            raise ValueError(
                f"{self.blind} competitions name no fixture_ids, which would be known beforehand: leave them out for one drawn "
                'by the secret of each seat, or say "all"'
            )
        return self

    def rules(self) -> JsonObject:
        """Return the rules as they are stored."""
        return self.model_dump(mode="json", include=set(SeatRules.model_fields))


class _Proposal(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    market: Annotated[str | None, limit(MAX_NAME_BYTES)] = None
    side: Annotated[str | None, limit(MAX_NAME_BYTES)] = None
    stake: int | None = Field(default=None, ge=1, le=SAFE_INTEGER)
    limit_odds_milli: int | None = Field(default=None, ge=0, le=2**31 - 1)
    reason: Annotated[str | None, limit(MAX_REASON_BYTES)] = None
    confidence: Claimed = None
    claimed_edge_bps: int | None = Field(default=None, ge=-SAFE_INTEGER, le=SAFE_INTEGER)


class SeatDecision(_Proposal):
    """One decision at a tick, in the names that the seat shows.

    Attributes
    ----------
    action
        ``BACK`` with a side, or ``WAIT`` with neither market nor side, stake nor limit.
    market, side
        A market of the fixture that was shown already; null means the market of the tick.
    stake
        Integer units; 100 if null.
    limit_odds_milli
        Smallest accepted decimal odds x 1000, or null.
    reason, confidence, claimed_edge_bps
        Recorded, never scored; a confidence may be any number, and is kept as decimal text.
    """

    action: Literal["BACK", "WAIT"]

    @model_validator(mode="after")
    def _complete(self) -> SeatDecision:
        if self.action == Action.BACK and self.side is None:
            raise ValueError("a BACK needs a side")
        own = (self.market, self.side, self.stake, self.limit_odds_milli)
        if self.action == Action.WAIT and any(value is not None for value in own):
            raise ValueError("a WAIT has no market, side, stake or limit_odds_milli")
        return self

    def recorded(self, market: str) -> JsonObject:
        """Return the decision as it is recorded and hashed, at a tick of a market: without nulls, with market and stake."""
        values = {name: value for name, value in self.model_dump().items() if value is not None}
        return {"market": market, "stake": DEFAULT_STAKE, **values} if self.action == Action.BACK else values


class SeatAction(_Proposal):
    """The answer to a tick: ``decisions``, or the fields of one decision in their place; neither is silence.

    Attributes
    ----------
    tick
        Number of the open tick.
    decisions
        At most 64; an empty list is silence.
    action, market, side, stake, limit_odds_milli, reason, confidence, claimed_edge_bps
        One decision, as in ``decisions``.
    """

    tick: int = Field(ge=1, le=SAFE_INTEGER)
    decisions: Annotated[list[SeatDecision], Field(max_length=MAX_DECISIONS, fail_fast=True)] = Field(default=[])
    action: Literal["BACK", "WAIT"] | None = None

    @property
    def proposals(self) -> list[SeatDecision]:
        """The decisions, in either form."""
        return self.decisions if self.action is None else [SeatDecision(**self._alone())]

    def _alone(self) -> JsonObject:
        own = self.model_dump(include={*SeatDecision.model_fields})
        return {name: value for name, value in own.items() if value is not None}

    @model_validator(mode="after")
    def _one_form(self) -> SeatAction:
        alone = self._alone()
        if alone and self.decisions:
            raise ValueError(f"{min(alone)} goes without decisions: give one of them")
        if alone and self.action is None:
            raise ValueError(f"{min(alone)} goes with an action: BACK or WAIT")
        if alone:
            SeatDecision(**alone)
        return self
