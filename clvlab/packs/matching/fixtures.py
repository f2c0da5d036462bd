"""Fixtures as sources list them, and what comes of matching them."""

from __future__ import annotations

from dataclasses import dataclass, field

from clvlab.law.markets import Market


@dataclass(frozen=True)
class ListedFixture:
    """A fixture as one source lists it.

    Attributes
    ----------
    markets
        What it has, as far as its sides are understood.
    """

    fixture_id: int
    names: tuple[str, ...]
    kickoff_ts_ms: int | None
    markets: tuple[Market, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Pair:
    """A fixture of the first source, and the same one of the second.

    Attributes
    ----------
    turned
        Whether the second source names the teams the other way round.
    alike
        Likeness of the names, of the less alike team.
    kickoff_gap_s
        By how much the second source has it later.
    price_gap_bps
        The largest difference of a side's probability when both are last known before either kicks off.
    """

    first: int
    second: int
    swapped: bool
    alike: float
    kickoff_gap_s: int
    price_gap_bps: int


@dataclass(frozen=True, slots=True)
class RefusedMatch:
    """Fixtures of which some may be the same, and why none was taken."""

    first: tuple[int, ...]
    second: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class MatchResult:
    """What two sources have in common.

    Attributes
    ----------
    pairs
        By fixture of the first source, each fixture in one at most.
    refused
        What may be the same, and was not taken.
    first_alone, second_alone
        Fixtures that nothing in the other source is like.
    """

    pairs: tuple[Pair, ...]
    refused: tuple[RefusedMatch, ...]
    first_alone: tuple[int, ...]
    second_alone: tuple[int, ...]
