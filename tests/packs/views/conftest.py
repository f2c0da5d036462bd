"""Small packs of what real ones hold: several leagues, markets, suspensions, quiet markets, fixtures without a kickoff."""

import random

import polars as pl
import pytest

from clvlab.law.schema import TICKS
from clvlab.packs.manifest import Fixture, PackManifest
from clvlab.packs.rows import RESULTS
from clvlab.packs.writer import write_pack

DAY_S = 86_400
START_S = 1_767_225_600  # 2026-01-01
SIDES = {"1X2||": ("draw", "part1", "part2"), "OU||line=2.5": ("over", "under"), "OU||line=3.5": ("over", "under")}


def drawn_ticks(seed, fixtures, messages=40):
    """``TICKS`` of fixtures by their kickoffs in seconds, drawn from a seed."""
    draw, rows = random.Random(seed), []
    for fixture_id, kickoff_s in fixtures.items():
        now = kickoff_s - draw.randrange(4, 20) * 3600
        markets = draw.sample(sorted(SIDES), draw.randint(1, 3))
        for seq in range(draw.randint(0, messages)):
            now += draw.choice([0, 30, 600, 3600])
            market = draw.choice(markets)
            suspended, in_running = draw.random() < 0.1, now > kickoff_s + 300
            cuts = sorted(draw.sample(range(500, 9500), len(SIDES[market]) - 1))
            probs = [high - low for low, high in zip([0, *cuts], [*cuts, 10_000], strict=True)]
            margin = draw.choice([1.02, 1.05, 1.4])
            for side, prob in zip(SIDES[market], probs, strict=True):
                odds = None if draw.random() < 0.05 else max(1001, round(10_000_000 / prob / margin))
                prices = (None, None) if suspended else (prob, odds)
                rows.append((fixture_id, seq, now * 1000, in_running, market, side, *prices, suspended))
    return pl.DataFrame(rows, schema=TICKS, orient="row")


def write(folder, seed, ids, leagues=("E0", "SP1"), provenance="synthetic-drawn", **labels):
    """Write a pack of these fixtures, one a day, in leagues in turn."""
    draw = random.Random(seed)
    known = {number: START_S + number % 1000 * DAY_S for number in ids}
    fixtures = tuple(
        Fixture(
            fixture_id=number,
            names=(f"home {number}", f"away {number}"),
            source_id=f"{leagues[at % len(leagues)]}|2025-1{draw.randint(0, 1)}-01|home {number}|away {number}",
            kickoff_ts_ms=None if draw.random() < 0.1 else kickoff * 1000,
        )
        for at, (number, kickoff) in enumerate(sorted(known.items()))
    )
    ticks = drawn_ticks(seed, known)
    results = pl.DataFrame([(number, "1X2||", "draw", "won", None) for number in known], schema=RESULTS, orient="row")
    manifest = PackManifest(pack_id=folder.name, provenance=provenance, fixtures=fixtures, **labels)
    write_pack(ticks, manifest, folder, results=results)
    return folder


@pytest.fixture
def written(tmp_path):
    """Writes a pack of drawn ticks by name, and returns its folder."""
    return lambda name, seed=1, ids=range(1, 13), **labels: write(tmp_path / name, seed, ids, **labels)
