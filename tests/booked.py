"""Random packs that keep what each book says, and what anybody would compute of them by hand."""

from __future__ import annotations

from random import Random

import polars as pl

from clvlab.law.schema import BOOKS, TICKS
from clvlab.packs.manifest import Fixture, PackManifest
from clvlab.packs.writer import write_pack

MARKETS = {"1X2||": ("draw", "part1", "part2"), "OU||line=2.5": ("over", "under")}
NAMES = ("ash", "birch", "cedar")
HOUR_MS = 3_600_000


def shares(random: Random, sides: int) -> list[int]:
    """Probabilities that add up to 10000."""
    cuts = sorted(random.sample(range(500, 9500), sides - 1))
    return [last - first for first, last in zip([0, *cuts], [*cuts, 10_000], strict=True)]


def prices(random: Random, sides: int, payout: int = 9_700_000) -> list[tuple[int | None, int | None, bool]]:
    """Of each side: probability, odds, suspended."""
    if random.random() < 0.15:
        return [(None, None, True)] * sides
    return [(prob, payout // prob, False) for prob in shares(random, sides)]


def rows_of(seed: int, fixtures: int = 3, messages: int = 40, payout: int = 9_700_000):
    """Rows of ``TICKS`` and of ``BOOKS``: at each tick some of the books say something; the sides pay ``payout`` in all."""
    random, ticks, books = Random(seed), [], []
    for fixture in range(1, fixtures + 1):
        for seq in range(messages):
            market = random.choice(list(MARKETS))
            sides, ts = MARKETS[market], seq * HOUR_MS // 10
            for side, own in zip(sides, prices(random, len(sides), payout), strict=True):
                ticks.append((fixture, seq, ts, False, market, side, *own))
            for book in random.sample(NAMES, random.randrange(len(NAMES) + 1)):
                for side, own in zip(sides, prices(random, len(sides)), strict=True):
                    books.append((fixture, market, side, book, seq, ts, *own))
    return ticks, books


def frames(seed: int, **sizes: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """``TICKS`` and ``BOOKS``, the books in a random order."""
    ticks, books = rows_of(seed, **sizes)
    Random(seed).shuffle(books)
    return pl.DataFrame(ticks, schema=TICKS, orient="row"), pl.DataFrame(books, schema=BOOKS, orient="row")


def manifest(fixtures: int = 3, kickoff_ts_ms: int | None = 4 * HOUR_MS - 1, pack_id: str = "booked") -> PackManifest:
    known = [
        Fixture(
            fixture_id=one,
            names=(f"Home {one}", f"Away {one}"),
            source_id=f"E0|2025-0{one}-01|a|b",
            kickoff_ts_ms=kickoff_ts_ms,
        )
        for one in range(1, fixtures + 1)
    ]
    return PackManifest(pack_id=pack_id, provenance="unknown", fixtures=tuple(known))


def write_booked(folder, seed: int = 1, pack_id: str = "booked", **sizes: int):
    ticks, books = frames(seed, **sizes)
    return write_pack(ticks, manifest(sizes.get("fixtures", 3), pack_id=pack_id), folder, books=books)
