"""Bodies of competitions of seats."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from typing_extensions import TypeAliasType

from clvlab.api.answer import Answer, BodyAnswer, EndRule, Hash, one_of
from clvlab.api.seats import BlindMode

SeatCompetitionStatus = TypeAliasType(
    "SeatCompetitionStatus",
    Annotated[str, one_of("open", "closed", description="`closed`: no new seat can be taken; playing seats continue.")],
)


class SeatCounts(Answer):
    """Number of seats by outcome. Each seat is in one of these numbers."""

    playing: Annotated[int, Field(description="Number of seats that are still answered or being sealed.")]
    sealed: int
    abandoned: Annotated[int, Field(description="Number of seats that were given up or not answered in time.")]


class SeatCompetitionSummary(Answer):
    """A competition of seats in a list."""

    competition_id: str
    name: str
    owner: Annotated[str, Field(description="DID of the organiser.")]
    pack_id: str
    blind: BlindMode
    status: SeatCompetitionStatus
    closes_ts_ms: Annotated[
        int | None, Field(description="Time of its close; `null` for an open competition without a set end.")
    ]
    entrants: int
    seats: SeatCounts
    created_ts_ms: int
    updated_ts_ms: int


class SeatCompetitionListResponse(Answer):
    """Newest first."""

    competitions: list[SeatCompetitionSummary]
    next_cursor: str | None


class SeatRulesInfo(Answer):
    """Rules that all seats of a competition share. A request for such a seat omits them."""

    fixture_ids: Annotated[
        list[int] | str | None,
        Field(description='Ids, or "all"; `null` if the secret of each seat draws one.', examples=["all"]),
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
    """An agent of an owner, with all of its seats in a competition. Only sealed seats have results."""

    rank: Annotated[
        int | None, Field(description="Rank by mean CLV; `null` with scored decisions on fewer than five fixtures.")
    ]
    agent_id: str
    owner: str
    seats: SeatCounts
    answered: Annotated[int, Field(description="Number of answered ticks of the playing seats.")]
    ticks: Annotated[
        int | None,
        Field(description="Number of all ticks of the playing seats; `null` unless nothing is hidden."),
    ]
    fixtures: Annotated[
        int, Field(description="Number of fixtures that count. For each fixture, the first finished seat counts.")
    ]
    decisions: Annotated[int, Field(description="Number of scored decisions on these fixtures.")]
    mean_clv_bps: float | None
    low: Annotated[
        float | None, Field(description="Lower end of the 95 % interval over fixtures; `null` with fewer than five fixtures.")
    ]
    high: float | None
    run_ids: Annotated[list[str], Field(description="Runs of its newest sealed seats, at most 20, the newest first.")]


class OwnerPack(Answer):
    """All seats of an owner over a pack, in competitions and outside of them."""

    owner: str
    pack_id: Annotated[str | None, Field(description="`null` stands for all packs outside of the catalog.")]
    seats: SeatCounts


class SeatPower(Answer):
    """Number of fixtures that show an edge with a power of 80 %, from the spread of the sealed results."""

    edge_bps: int
    fixtures: Annotated[
        int | None, Field(description="Median over the entrants with an interval; `null` if there are too few results.")
    ]
    entrants: Annotated[int, Field(description="Number of entrants with an interval.")]


class SeatCompetitionInfo(BodyAnswer, SeatCompetitionSummary):
    """A competition of seats: its rules, its entrants by rank, and all seats of their owners."""

    content_hash: Hash
    rules: SeatRulesInfo
    hindsight_possible: Annotated[bool, Field(description="Whether entrants may contain the closing prices.")]
    standing: Annotated[
        list[SeatEntrant], Field(description="The first 1,000 entrants: ranked ones, then the others by number of fixtures.")
    ]
    owners: Annotated[list[OwnerPack], Field(description="Seats of the owners in `standing`.")]
    power: SeatPower
