"""Books of shares that are made up: how they stand at first, and how each message changes them, the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

CENT = 10
"""In thousandths of a dollar, in which prices are written here."""
_DEPTH = 4
_WIDE = 8 * CENT  # from here on, quotes come nearer


def iso_time(ts_ms: int) -> str:
    """Write a time as the exchanges do."""
    return datetime.fromtimestamp(ts_ms / 1000, UTC).isoformat()


@dataclass(frozen=True, slots=True)
class LadderChange:
    """A level of a share's book from here on; a size of 0 empties it."""

    share: str
    ts_ms: int
    is_bid: bool
    price: int
    size: int


@dataclass
class Ladders:
    """Books of shares; what is known of them is the levels, and when each share last changed.

    Attributes
    ----------
    levels
        Of each share: whether bid, and price -> size.
    ts_ms
        Of each share.
    """

    levels: dict[str, dict[tuple[bool, int], int]] = field(default_factory=dict)
    ts_ms: dict[str, int] = field(default_factory=dict)

    def apply(self, change: LadderChange) -> int:
        """Make a change; return how much larger the level is."""
        book = self.levels.setdefault(change.share, {})
        level = change.is_bid, change.price
        before = book.pop(level, 0)
        if change.size:
            book[level] = change.size
        self.ts_ms[change.share] = change.ts_ms
        return change.size - before

    def side(self, share: str, *, is_bid: bool) -> dict[int, int]:
        """Return the levels of one side by price."""
        return {price: size for (bid, price), size in sorted(self.levels.get(share, {}).items()) if bid is is_bid}

    def best(self, share: str) -> tuple[int, int]:
        """Return the best bid and ask; 0 and 1000 where there is none."""
        return max(self.side(share, is_bid=True), default=0), min(self.side(share, is_bid=False), default=1000)


@dataclass(frozen=True, slots=True)
class LadderScript:
    """What a development server sends: books as they stand at first, then changes."""

    opening: Sequence[LadderChange]
    changes: Sequence[LadderChange]


def synthetic_script(
    shares: Iterable[str], messages: int, *, seed: int = 0, start_ms: int = 1_900_000_000_000, closes: bool = False
) -> LadderScript:
    """Make books that move up and down by levels of a cent, and are never crossed.

    Parameters
    ----------
    shares
        Whose books.
    messages
        How many changes.
    seed
        The same seed gives the same script.
    start_ms
        Provider's time of the first one; the others follow a tenth of a second apart.
    closes
        Whether all levels go at the end, as where a market is suspended over the close.
    """
    chance, names, ladders = random.Random(seed), list(shares), Ladders()  # noqa: S311  # a script, no secret
    opening = []
    for share in names:
        middle = chance.randrange(20, 80) * CENT
        for step in range(1, _DEPTH + 1):
            for is_bid in (True, False):
                price = middle - step * CENT if is_bid else middle + step * CENT
                opening.append(LadderChange(share, start_ms, is_bid, price, chance.randrange(10, 500)))
    for change in opening:
        ladders.apply(change)
    changes: list[LadderChange] = []
    for number in range(messages):
        change = _step(chance, ladders, chance.choice(names), start_ms + 100 * (number + 1))
        ladders.apply(change)
        changes.append(change)
    if closes:
        left = [(share, *level) for share in names for level in ladders.levels[share]]
        end = start_ms + 100 * (messages + 1)
        changes += [LadderChange(share, end + n, is_bid, price, 0) for n, (share, is_bid, price) in enumerate(left)]
    return LadderScript(opening, changes)


def _step(chance: random.Random, ladders: Ladders, share: str, ts_ms: int) -> LadderChange:
    """Empty the best level now and then, or set one near it; on no side the last one goes."""
    bid, ask = ladders.best(share)
    is_bid = chance.random() < 0.5
    best, own = (bid, 1) if is_bid else (ask, -1)
    is_wide = ask - bid > _WIDE
    if chance.random() < (0.05 if is_wide else 0.3) and len(ladders.side(share, is_bid=is_bid)) > 1:
        return LadderChange(share, ts_ms, is_bid, best, 0)
    price = best + own * CENT * chance.randrange(0 if is_wide else -_DEPTH, 3)
    if not (0 < price < ask if is_bid else bid < price < 100 * CENT):
        price = best
    return LadderChange(share, ts_ms, is_bid, price, chance.randrange(10, 500))
