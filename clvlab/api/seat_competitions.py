"""Bodies of competitions of seats."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from typing_extensions import TypeAliasType

from clvlab.api.answer import Answer, BodyAnswer, EndRule, Hash, one_of
from clvlab.api.seats import BlindMode

SeatCompetitionStatus = TypeAliasType(
    "SeatCompetitionStatus",
    Annotated[str, one_of("open", "closed", description="`closed`: no seat can be taken; those that play go on.")],
)


class SeatCounts(Answer):
    """Seats by what became of them: each one that was taken is in one of these numbers."""

    playing: Annotated[int, Field(description="Still answered, or being sealed.")]
    sealed: int
    abandoned: Annotated[int, Field(description="Given up, or left alone.")]


class SeatCompetitionSummary(Answer):
    """A competition of seats in a list."""

    competition_id: str
    name: str
    owner: Annotated[str, Field(description="Its organiser.")]
    pack_id: str
    blind: BlindMode
    status: SeatCompetitionStatus
    closes_ts_ms: Annotated[int | None, Field(description="When it closes or was closed; `null` until then if no end is set.")]
    entrants: int
    seats: SeatCounts
    created_ts_ms: int
    updated_ts_ms: int


class SeatCompetitionListResponse(Answer):
    """Newest first."""

    competitions: list[SeatCompetitionSummary]
    next_cursor: str | None


class SeatRulesInfo(Answer):
    """Rules that all seats of a competition share; a request for a seat in it leaves them out."""

    fixture_ids: Annotated[
        list[int] | str | None, Field(description='Ids, or "all"; `null`: the secret of each seat draws one.', examples=["all"])
    ]
    window_id: str
    end_rule: EndRule
    duration_s: int | None
    min_clv_horizon_s: int
    market_allowlist: list[str]
    close_source: str | None
    tick_s: Annotated[int, Field(description="Seconds for an answer to a tick.")]
    seat_s: Annotated[int, Field(description="Seconds without an answer after which a seat is abandoned.")]
    max_stake: Annotated[int | None, Field(description="Largest stake of a decision; `null` allows any.")]


class SeatEntrant(Answer):
    """An agent of an owner, with all of its seats in a competition. Results are of sealed seats alone."""

    rank: Annotated[int | None, Field(description="By mean CLV; `null` with scored decisions on fewer than five fixtures.")]
    agent_id: str
    owner: str
    seats: SeatCounts
    answered: Annotated[int, Field(description="Answered ticks of the seats that play.")]
    ticks: Annotated[
        int | None,
        Field(description="All ticks of the seats that play; `null` unless nothing is hidden, as it would tell what is ahead."),
    ]
    fixtures: Annotated[int, Field(description="Fixtures that count; of each fixture the first seat that is over counts.")]
    decisions: Annotated[int, Field(description="Scored decisions on them.")]
    mean_clv_bps: float | None
    low: Annotated[float | None, Field(description="95 % interval over fixtures; `null` with fewer than five.")]
    high: float | None
    run_ids: Annotated[list[str], Field(description="Runs of its newest sealed seats, at most 20, the newest first.")]


class OwnerPack(Answer):
    """All seats of an owner over a pack, in competitions and outside of them."""

    owner: str
    pack_id: Annotated[str | None, Field(description="`null` for all packs that are not in the catalog together.")]
    seats: SeatCounts


class SeatPower(Answer):
    """How many fixtures would show an edge, with a power of 80 %, at the spread of the sealed results of a competition."""

    edge_bps: int
    fixtures: Annotated[
        int | None, Field(description="Median over the entrants with an interval; `null` if there are too few results.")
    ]
    entrants: Annotated[int, Field(description="Number of those entrants.")]


class SeatCompetitionInfo(BodyAnswer, SeatCompetitionSummary):
    """A competition of seats: its rules, its entrants by rank, and what their owners took elsewhere."""

    content_hash: Hash
    rules: SeatRulesInfo
    hindsight_possible: Annotated[bool, Field(description="Whether entrants may hold the prices that they are scored by.")]
    standing: Annotated[
        list[SeatEntrant], Field(description="The first 1,000: ranked ones, then the others by fixtures, most first.")
    ]
    owners: Annotated[list[OwnerPack], Field(description="Of the owners in `standing`.")]
    power: SeatPower
