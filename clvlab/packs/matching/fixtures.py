"""Fixtures as sources list them, and results of their matching."""

from __future__ import annotations

from dataclasses import dataclass, field

from clvlab.law.markets import Market


@dataclass(frozen=True)
class ListedFixture:
    """A fixture as one source lists it; ``markets`` has the markets whose sides are understood."""

    fixture_id: int
    names: tuple[str, ...]
    kickoff_ts_ms: int | None
    markets: tuple[Market, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Pair:
    """A fixture of the first source and the same match in the second.

    Attributes
    ----------
    swapped
        Whether the second source names the teams in reverse order.
    alike
        Likeness of the less alike team's names.
    kickoff_gap_s
        Kickoff of the second source minus that of the first.
    price_gap_bps
        Largest difference of a side's probability, at the last time before both kickoffs when both sources have a price.
    """

    first: int
    second: int
    swapped: bool
    alike: float
    kickoff_gap_s: int
    price_gap_bps: int


@dataclass(frozen=True, slots=True)
class RefusedMatch:
    """Fixtures of two sources that may share a match, and the reason why no pair was taken."""

    first: tuple[int, ...]
    second: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class MatchResult:
    """The common fixtures of two sources.

    Attributes
    ----------
    pairs
        Pairs by fixture of the first source; each fixture is in one pair at most.
    refused
        Possible pairs that were not taken.
    first_alone, second_alone
        Fixtures without a similar one in the other source.
    """

    pairs: tuple[Pair, ...]
    refused: tuple[RefusedMatch, ...]
    first_alone: tuple[int, ...]
    second_alone: tuple[int, ...]
