"""Bodies of seats."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypeAliasType

from clvlab.api.answer import Answer, BodyAnswer, Hash, JsonObject, one_of

BlindMode = TypeAliasType(
    "BlindMode",
    Annotated[
        str,
        one_of(
            "open",
            "aliased",
            "held-back",
            "live",
            description="`open` hides nothing. `aliased` hides names, ids, dates and the order of sides, but not prices "
            "and gaps. `held-back` hides the same, over a pack that is held back. `live` follows a future "
            "match.",
        ),
    ],
)
SeatStatus = TypeAliasType(
    "SeatStatus",
    Annotated[
        str,
        one_of(
            "playing",
            "finished",
            "sealed",
            "abandoned",
            description="`finished`: every tick is answered, and the run is being sealed.",
        ),
    ],
)
_Quote = Annotated[
    list[str | int | None],
    Field(
        description="Name, probability in basis points, and decimal odds x 1000; `null` for a missing price.",
        examples=[["s-16f9fbf6de0c159d", 2617, 3641]],
    ),
]


class SeatFixture(Answer):
    """Facts about a fixture that were known beforehand; `null` where the source lacks one."""

    kickoff_ts_ms: Annotated[int | None, Field(description="The announced kickoff, UTC.")]
    home: str | None
    away: str | None
    league: str | None
    season: str | None
    source_id: str | None


class SeatView(Answer):
    """A tick as an entrant sees it: one price update of one market of one fixture."""

    tick: Annotated[int, Field(ge=1, description="Number of the tick in its seat.")]
    fixture: Annotated[int | str, Field(description="Id of the fixture, or its alias.")]
    market: Annotated[str, Field(description="Key of the market, or its alias.")]
    sides: Annotated[list[_Quote], Field(description="Sides in byte order of their names.")]
    suspended: Annotated[bool, Field(description="Whether no side has a probability.")]
    in_running: Annotated[bool, Field(description="Whether the fixture is in play.")]
    time_ms: Annotated[
        int, Field(description="Milliseconds since 1970 UTC if `open` or `live`; otherwise since the first tick of the seat.")
    ]
    tick_seq: NotRequired[
        Annotated[int, Field(description="Number of the price update of the fixture; only if `open` or `live`.")]
    ]
    about: NotRequired[Annotated[SeatFixture, Field(description="Facts about the fixture; only if `open`.")]]


class SeatTick(Answer):
    """An open tick, which waits for an answer."""

    view: SeatView
    salt: Annotated[
        str,
        Field(
            pattern="^[0-9a-f]{64}$",
            description="Random text that is hashed with the view into the chain.",
            examples=["a5c8" * 16],
        ),
    ]


class SeatReceipt(Answer):
    """A link of the chain of a seat, stored before the next tick is sent."""

    tick: Annotated[int, Field(ge=0, description="Number of the answered tick; 0 before the first one.")]
    head: Annotated[Hash, Field(description="Head of the chain after this tick.")]
    missed: Annotated[bool, Field(description="Whether the answer came too late, so that no decision was recorded.")]
    decisions: Annotated[list[JsonObject], Field(description="The decisions as recorded and hashed.")]
    receipt: Annotated[str | None, Field(description="The head in a note that the log signed; `null` if the log has no key.")]


class SeatAnswer(Answer):
    """A receipt and the next tick."""

    seat_id: str
    answered: SeatReceipt
    done: Annotated[bool, Field(description="Whether this was the last tick.")]
    next: SeatTick | None
    waiting: NotRequired[Annotated[bool, Field(description="Whether the next tick is still awaited; only if `live`.")]]


class SeatStart(BodyAnswer, SeatAnswer):
    """A new seat and its first tick. The run log holds its commitment already."""

    run_id: str
    blind: BlindMode
    blind_commitment: Annotated[
        Hash,
        Field(description="Commitment to the secret that hides names and draws fixtures. The secret is published at the seal."),
    ]
    tick_s: Annotated[int, Field(description="Seconds for an answer to a tick; a later one is missed.")]
    seat_s: Annotated[int, Field(description="Seconds without an answer after which the seat is abandoned.")]


class SeatSummary(Answer):
    """A seat in a list."""

    seat_id: str
    agent_id: str
    run_id: str
    pack_id: str
    competition_id: Annotated[str | None, Field(description="The competition of seats that it is in.")]
    blind: BlindMode
    status: SeatStatus
    cause: Annotated[str | None, Field(description="Cause of the abandonment.")]
    answered: Annotated[int, Field(description="Number of answered ticks.")]
    created_ts_ms: int
    updated_ts_ms: int


class SeatListResponse(Answer):
    """Newest first."""

    seats: list[SeatSummary]
    next_cursor: str | None


class SeatsTaken(Answer):
    """Seats that an owner took. The service counts them, and no log signs the counts."""

    over_pack: Annotated[
        int, Field(description="Number of seats over the pack of this seat; for a live seat, over current live matches.")
    ]
    abandoned: Annotated[int, Field(description="Number of these seats that were abandoned.")]
    of_owner: Annotated[int, Field(description="Number of seats over any pack.")]
    packs: Annotated[int, Field(description="Number of packs of these seats.")]


class SeatInfo(SeatSummary):
    """A seat. It has its open tick while it plays, and its secret and fixtures once its run is sealed."""

    blind_commitment: Hash
    content_hash: Annotated[Hash | None, Field(description="Content hash of the pack; `null` for a live seat before the seal.")]
    commit_index: Annotated[int, Field(description="Index of the entry of the run log that commits to its run.")]
    head: Hash
    tick_s: int
    seat_s: int
    next: SeatTick | None
    taken: SeatsTaken
    secret: Annotated[str | None, Field(description="Secret of the seat, in hexadecimal; `null` before the seal.")]
    fixture_ids: Annotated[
        list[int] | None, Field(description="Ids of the fixtures; `null` before the seal unless nothing is hidden.")
    ]


class HeldPackInfo(Answer):
    """A pack that is or was held back for seats. Each of its fixtures is dealt to one seat only."""

    pack_id: str
    content_hash: Hash
    fixtures: Annotated[int, Field(description="Number of its fixtures.")]
    dealt: Annotated[int, Field(description="Number of fixtures that were dealt to seats.")]
    fixtures_hash: Annotated[Hash, Field(description="Hash of the salted list of its fixtures, which is published afterwards.")]
    held_index: Annotated[int, Field(description="Index of the entry of the run log that holds it back.")]
    released_index: Annotated[
        int | None, Field(description="Index of the entry that publishes the list; `null` while seats are taken.")
    ]


class HeldPackList(Answer):
    """Oldest first."""

    packs: list[HeldPackInfo]


class HeldFixture(Answer):
    """A fixture of a pack that was held back; `digest` covers its ticks."""

    fixture_id: int
    names: list[str]
    source_id: str | None
    kickoff_ts_ms: int | None
    digest: Hash | None


class HeldFixtures(Answer):
    """The salted list of a pack's fixtures. The SHA-256 of its canonical bytes is `fixtures_hash` of the log's entry."""

    fixtures: list[HeldFixture]
    salt: Annotated[str, Field(pattern="^[0-9a-f]{64}$", examples=["a5c8" * 16])]


class ProvedEntry(Answer):
    """An entry of the run log, and the hashes that prove it under the checkpoint of the bundle."""

    entry: str
    index: int
    proof: list[str]


class ChainTick(Answer):
    """A link of the chain: the digest of a tick, the recorded decisions, and the head after them."""

    tick: Hash
    decisions: list[JsonObject]
    missed: bool
    head: Hash


class SeatChain(Answer):
    """The whole chain of a sealed seat, as in part `seat.json` of the bundle of its run."""

    schema: str
    header: JsonObject
    blind: BlindMode
    secret: str
    ticks: list[ChainTick]
    entries: list[ProvedEntry]
    held: NotRequired[Annotated[list[ProvedEntry], Field(description="Only if `held-back`: the entries about its pack.")]]
