"""The layer of ladders: the offers on each side of a market, level by level, in a pack that keeps them next to its ticks."""

from __future__ import annotations

import numpy as np
import polars as pl

from clvlab.errors import PackFormatError
from clvlab.law.schema import ODDS_MILLI, Schema, conform
from clvlab.law.tape import Tape
from clvlab.packs.files import NO_PRICE, layer_digests
from clvlab.packs.invariants import MAX_TS_MS, refuse

LADDER = ("fixture_id", "market_key", "side")
LEVEL_COUNT = 10
"""Levels of a side that an import keeps."""

# One row per change of one level, sorted by fixture_id, market_key, side, level, ts_ms. Level 0 is the best offer. A row holds
# from its time until the next row of its level; null odds and stake say that nothing is offered there. ``odds_milli`` are the
# odds x 1000 at which the side can be backed, and ``stake_cents`` is the stake that can be placed at them, in hundredths of the
# venue's unit.
LADDERS: Schema = {
    "fixture_id": pl.Int64,
    "market_key": pl.String,
    "side": pl.String,
    "level": pl.Int8,
    "ts_ms": pl.Int64,
    "odds_milli": pl.Int32,
    "stake_cents": pl.Int64,
}
_KEY = (*LADDER, "level", "ts_ms")
_OFFER = ("odds_milli", "stake_cents")


def sorted_ladders(ladders: pl.DataFrame) -> pl.DataFrame:
    return conform(ladders, LADDERS, "LADDERS").sort(_KEY)


def check_ladders(ladders: pl.DataFrame, tape: Tape, levels: int = LEVEL_COUNT) -> None:
    """Refuse ``LADDERS`` that break a rule of the pack format or contradict the series of the same fixtures.

    Raises
    ------
    PackFormatError
        The rows are not sorted, or break a rule; the error names fixture, market, side and time.
    """
    if not ladders.select(_KEY).equals(ladders.select(_KEY).sort(_KEY)):
        raise PackFormatError("ladders are not sorted by fixture, market, side, level and time")
    known = tape.series.select(*LADDER, n_sides="n_sides")
    rows = ladders.join(known, on=LADDER, how="left", maintain_order="left")
    refuse(rows, _row_rules(levels))
    refuse(_states(ladders, levels), _STATE_RULES)


def _row_rules(levels: int) -> dict[str, pl.Expr]:
    level = (*LADDER, "level")
    again = pl.all_horizontal(pl.col(level) == pl.col(level).shift(1)).fill_null(value=False)
    same = pl.all_horizontal(pl.col(_OFFER).eq_missing(pl.col(_OFFER).shift(1)))
    odds, stake = map(pl.col, _OFFER)
    return {
        "a row of a ladder must name its side, level and time": pl.any_horizontal(pl.col(_KEY).is_null()),
        "a ladder must be of a market and side that have ticks": pl.col("n_sides").is_null(),
        f"a level of a ladder must be 0 to {levels - 1}": ~pl.col("level").is_between(0, levels - 1),
        "ts_ms of a ladder must be a time in milliseconds": ~pl.col("ts_ms").is_between(0, MAX_TS_MS),
        "a level of a ladder must not change twice at one time": again & (pl.col("ts_ms") == pl.col("ts_ms").shift(1)),
        "odds_milli of a ladder must be 1001 to 100000000": ~odds.is_between(*ODDS_MILLI),
        "stake_cents of a ladder must be 1 or more": stake < 1,
        "an offer of a ladder must have odds and a stake": odds.is_null() != stake.is_null(),
        "a row of a ladder must change its level": pl.when(again).then(same).otherwise(odds.is_null()),
    }


_STATE_RULES = {
    "the levels of a ladder must have no hole": pl.col("hole"),
    "the odds of a ladder must fall from level to level": pl.col("rise"),
}


def _states(ladders: pl.DataFrame, levels: int) -> pl.DataFrame:
    """Return one row per change of a ladder, with whether its levels have a hole then, or odds that do not fall."""
    by_time = ladders.sort(*LADDER, "ts_ms", "level")
    number = by_time.select(pl.struct(*LADDER, "ts_ms").rle_id()).to_series().to_numpy()
    states = by_time.filter(by_time.select(pl.struct(*LADDER, "ts_ms").is_first_distinct()).to_series())
    first = by_time.with_row_index("row").select(pl.col("row").min().over(LADDER)).to_series().to_numpy()
    # The latest row of each level at each time, counted from 1; one before the first row of the ladder is of another ladder.
    latest = np.zeros((states.height, levels), dtype=np.int64)
    latest[number, by_time["level"].to_numpy()] = np.arange(1, by_time.height + 1)
    start = np.zeros(states.height, dtype=np.int64)
    start[number] = first
    np.maximum.accumulate(latest, axis=0, out=latest)
    latest[latest <= start[:, None]] = 0
    odds = np.concatenate([[0], by_time["odds_milli"].fill_null(0).to_numpy()])[latest]
    better, worse = odds[:, :-1], odds[:, 1:]
    return states.with_columns(
        hole=pl.Series(((worse > 0) & (better == 0)).any(axis=1)),
        rise=pl.Series(((better > 0) & (worse >= better)).any(axis=1)),
    )


def ladder_digests(ladders: pl.DataFrame) -> dict[int, str]:
    """Return fixture_id -> ``sha256:<hex>`` of its sorted ``LADDERS``, laid out as in ``docs/reference/pack-format.md``.

    Fixtures without ladders are left out.
    """
    return layer_digests(ladders, LADDER, [pl.col("level", "ts_ms"), pl.col(_OFFER).fill_null(NO_PRICE)])
