"""Bodies of the replay pack catalog."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field

from clvlab.api.answer import Answer, Hash


class ReplayPackInfo(Answer):
    """A hash-verified, allowlisted pack."""

    pack_id: Annotated[str, Field(examples=["starter"])]
    content_hash: Hash
    provenance: Annotated[
        str, Field(description="Origin of the odds; `genuine-<provider>` only if verified.", examples=["synthetic-clvlab"])
    ]
    is_genuine: bool
    grade: Annotated[
        str,
        Field(
            description="`not shown`, or `self-consistent` if the odds follow from the pack's raw messages.",
            examples=["not shown"],
        ),
    ]
    fixtures: Annotated[list[int], Field(examples=[[90000000, 90000001]])]
    created_ts_ms: NotRequired[Annotated[int, Field(description="End of its capture; absent if the pack names none.")]]
    updated_ts_ms: NotRequired[Annotated[int, Field(description="The same as `created_ts_ms`, because a pack never changes.")]]


class ReplayPackListResponse(Answer):
    """The catalog."""

    packs: list[ReplayPackInfo]


class PackMarket(Answer):
    """A market of a fixture."""

    market_key: str
    sides: list[str]
    ticks: Annotated[int, Field(description="Number of price updates of this market.")]


class PackFixture(Answer):
    """A fixture of a pack."""

    fixture_id: int
    names: list[str]
    source_id: Annotated[str | None, Field(description="Id of the fixture at its source.")]
    announced_ts_ms: Annotated[int | None, Field(description="First announced kickoff, which agents see.")]
    kickoff_ts_ms: Annotated[int | None, Field(description="Kickoff that ends the `pre_match` window.")]
    first_ts_ms: Annotated[int | None, Field(description="Time of the first tick; `null` without ticks.")]
    last_ts_ms: int | None
    ticks: Annotated[int, Field(description="Number of price updates of all its markets.")]
    markets: list[PackMarket]


class CaptureGap(Answer):
    """A period in which the capture missed price updates."""

    from_ts_ms: int
    to_ts_ms: int


class Spread(Answer):
    """Distribution of a quantity; each quantile is an observed value."""

    n: int
    min: int
    p05: int
    median: int
    p95: int
    max: int


class RefusedRows(Answer):
    """Rows of the source that were refused for one reason."""

    reason: str
    count: int
    examples: list[str]


class PackQuality(Answer):
    """The quality report of an import."""

    schema: str
    files: int
    messages: int
    refused: list[RefusedRows]
    notes: dict[str, int]
    fixtures: int
    fixtures_without_ticks: int
    fixtures_without_kickoff: int
    markets: int
    ticks: int
    in_running_ticks: int
    suspended_ticks: int
    books_per_tick: Spread | None
    book_overround_bps: Spread | None
    price_overround_bps: Spread | None
    largest_gap_s: Annotated[Spread | None, Field(description="Longest silence of each market before its close.")]
    first_tick_before_kickoff_s: Spread | None
    last_tick_before_kickoff_s: Spread | None
    closing_age_s: Spread | None
    markets_without_close: int
    markets_suspended_at_close: int
    margin_fallbacks: int


class PackFixturesResponse(Answer):
    """Fixtures of a pack, in order of `fixture_id`."""

    pack_id: str
    content_hash: Hash
    kickoff: Annotated[
        Literal["scheduled", "actual"],
        Field(description="`scheduled`: announced before the match; `actual`: known only afterwards."),
    ]
    gaps: Annotated[list[CaptureGap], Field(description="Gaps of the capture.")]
    quality: Annotated[PackQuality | None, Field(description="`null` for a pack that was not imported.")]
    fixtures: list[PackFixture]
    total: Annotated[int, Field(description="Number of matching fixtures, on all pages.")]
    next_cursor: Annotated[str | None, Field(description="Pass it as `cursor` for the next page; `null` at the end.")]


# Bodies of uploaded packs.


class UploadedPack(Answer):
    """A pack that the caller uploaded."""

    pack_id: Annotated[str, Field(examples=["mine"])]
    content_hash: Hash
    provenance: Annotated[
        str, Field(description="Origin of the odds; `genuine-<provider>` only if verified.", examples=["imported-table"])
    ]
    is_genuine: bool
    grade: Annotated[
        str,
        Field(
            description="`not shown`, or `self-consistent` if the odds follow from the pack's raw messages.",
            examples=["not shown"],
        ),
    ]
    fixtures: list[int]
    bytes: Annotated[int, Field(description="Size of all its files, in bytes.")]
    admitted: Annotated[bool, Field(description="Whether the catalog has it, so that runs over it count on the leaderboard.")]
    owner: str
    created_ts_ms: int
    updated_ts_ms: Annotated[int, Field(description="The time of the upload, because a pack never changes.")]


class UploadedPackList(Answer):
    """The caller's packs, by id."""

    packs: list[UploadedPack]
