"""Both implementations over what a stream of Betfair had on offer."""

from fractions import Fraction
from random import Random

import polars as pl
import pytest

from clvlab.law.closing import Window, fixture_closes
from clvlab.packs.verification import verify_pack
from clvlab.sources.importer import import_source
from clvlab.sources.source import Options
from clvlab.statistics.fills import ORDERS, offers_of, taken
from tests.length import few
from tests.plain_fills import fills

pytestmark = pytest.mark.realdata


@few(1)
@pytest.mark.parametrize("name", ["1.197931750", "1.197931751", "1.200806927"])
def test_both_implementations_agree_on_every_file_with_depth(realdata, tmp_path, name):
    import_source("betfair", [realdata / "betfair-stream" / f"{name}.bz2"], tmp_path / "deep", options=Options(ladders=True))
    pack, random = verify_pack(tmp_path / "deep"), Random(name)
    tape, ladders = pack.tape(), pack.ladders().collect()
    ticks, closes = tape.ticks().collect(), fixture_closes(tape, Window())
    chosen = ticks.sample(min(150, ticks.height), seed=5).sort("ts_ms", "market_key", "side")
    orders = (
        chosen.join(closes, on="fixture_id", how="left", maintain_order="left")
        .with_columns(
            seq=pl.int_range(pl.len()),
            agent_id=pl.Series([random.choice("xy") for _ in range(chosen.height)]),
            limit_odds_milli=pl.Series([random.choice([None, 1500, 3000]) for _ in range(chosen.height)], dtype=pl.Int64),
        )
        .select(pl.col(column).cast(dtype) for column, dtype in ORDERS.items())
    )
    offers = offers_of(tape, ladders, orders)
    plain_ticks, plain_ladders = ticks.to_dicts(), ladders.sort("ts_ms").to_dicts()

    outcomes = set()
    for how in (
        {"stake_cents": 1000},
        {"stake_cents": 40_000, "delay_ms": 3000},
        {"stake_cents": 1_000_000, "delay_ms": 60_000, "max_age_ms": 30_000},
    ):
        found = taken(offers, **how).rows(named=True)
        plain = fills(plain_ticks, plain_ladders, orders.to_dicts(), **how)
        for one, other in zip(found, plain, strict=True):
            assert one["outcome"] == other["outcome"]
            assert one["filled_cents"] == other["filled_cents"]
            assert Fraction(one["payout"], 1000) == other["payout"]
            assert one["crossed"] == other["crossed"]
            outcomes.add(one["outcome"])

    assert {"filled", "partly_filled"} <= outcomes
