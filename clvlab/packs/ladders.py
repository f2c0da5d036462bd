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
LADDER_KEY = (*LADDER, "level", "ts_ms")
_OFFER = ("odds_milli", "stake_cents")


def sorted_ladders(ladders: pl.DataFrame) -> pl.DataFrame:
    frame = conform(ladders, LADDERS, "LADDERS")
    if frame.select(pl.any_horizontal(pl.col(LADDER_KEY).is_null().any())).item():
        return frame.sort(LADDER_KEY)  # the check refuses such rows
    codes = {name: frame[name].cast(pl.Enum(frame[name].unique().sort())).to_physical() for name in LADDER[1:]}
    by_number = frame.with_columns(**codes)  # three times as fast as a sort of texts
    return frame[np.lexsort([by_number[name].to_numpy() for name in reversed(LADDER_KEY)])]


def check_ladders(ladders: pl.DataFrame, tape: Tape, levels: int = LEVEL_COUNT) -> None:
    """Refuse ``LADDERS`` that break a rule of the pack format or contradict the series of the same fixtures.

    Raises
    ------
    PackFormatError
        The rows are not sorted, or break a rule; the error names fixture, market, side and time.
    """
    number = ladders.select(pl.struct(LADDER).rle_id().cast(pl.Int64)).to_series()
    names = ladders.select(LADDER).filter(number.is_first_distinct())
    if not names.equals(names.sort(LADDER)) or names.is_duplicated().any():
        raise PackFormatError("ladders are not sorted by fixture, market, side, level and time")
    sides = names.join(tape.series.select(*LADDER, "n_sides"), on=LADDER, how="left", maintain_order="left")
    rows = ladders.with_columns(number.alias("ladder"), n_sides=sides["n_sides"].gather(number))
    refuse(rows, _row_rules(levels))
    _check_states(rows)


def _row_rules(levels: int) -> dict[str, pl.Expr]:
    ladder, level, ts_ms, odds, stake = map(pl.col, ("ladder", "level", "ts_ms", *_OFFER))
    again = (ladder == ladder.shift(1)).fill_null(value=False)
    same_level = again & (level == level.shift(1))
    same = pl.all_horizontal(pl.col(_OFFER).eq_missing(pl.col(_OFFER).shift(1)))
    return {
        "a row of a ladder must name its side, level and time": pl.any_horizontal(pl.col(LADDER_KEY).is_null()),
        "ladders must be sorted by fixture, market, side, level and time": (again & (level < level.shift(1)))
        | (same_level & (ts_ms < ts_ms.shift(1))),
        "a ladder must be of a market and side that have ticks": pl.col("n_sides").is_null(),
        f"a level of a ladder must be 0 to {levels - 1}": ~level.is_between(0, levels - 1),
        "ts_ms of a ladder must be a time in milliseconds": ~ts_ms.is_between(0, MAX_TS_MS),
        "a level of a ladder must not change twice at one time": same_level & (ts_ms == ts_ms.shift(1)),
        "odds_milli of a ladder must be 1001 to 100000000": ~odds.is_between(*ODDS_MILLI),
        "stake_cents of a ladder must be 1 or more": stake < 1,
        "an offer of a ladder must have odds and a stake": odds.is_null() != stake.is_null(),
        "a row of a ladder must change its level": pl.when(same_level).then(same).otherwise(odds.is_null()),
    }


def _check_states(rows: pl.DataFrame) -> None:
    """Refuse ladders whose levels have a hole at some time, or odds that do not fall from level to level."""
    ladder, level, ts_ms = (rows[name].to_numpy() for name in ("ladder", "level", "ts_ms"))
    order = np.lexsort((ts_ms, ladder))
    ladder, level, ts_ms = ladder[order], level[order], ts_ms[order]
    begins = np.ones(rows.height, dtype=np.bool_)
    begins[1:] = (ladder[1:] != ladder[:-1]) | (ts_ms[1:] != ts_ms[:-1])
    at = np.flatnonzero(begins)
    event, first = np.cumsum(begins) - 1, np.searchsorted(ladder, ladder[at])
    odds = np.concatenate([[0], rows["odds_milli"].fill_null(0).to_numpy()[order]])
    hole = rise = np.zeros(len(at), dtype=np.bool_)
    better = np.full(len(at), ODDS_MILLI[1] + 1)  # above level 0 there is no offer to compare with
    for own in range(int(level.max(initial=-1)) + 1):  # two levels at a time, as a matrix of all may not fit in memory
        changed = np.flatnonzero(level == own)
        # The latest row of the level at each time, counted from 1; one up to the start of the ladder is of another ladder.
        latest = np.zeros(len(at), dtype=np.int64)
        latest[event[changed]] = changed + 1
        np.maximum.accumulate(latest, out=latest)
        worse = odds[np.where(latest > first, latest, 0)]
        hole, rise = hole | ((worse > 0) & (better == 0)), rise | ((better > 0) & (worse >= better))
        better = worse
    if hole.any() or rise.any():
        states = rows[order[at]].select(*LADDER, "ts_ms").with_columns(hole=pl.Series(hole), rise=pl.Series(rise))
        rules = {
            "the levels of a ladder must have no hole": pl.col("hole"),
            "the odds of a ladder must fall from level to level": pl.col("rise"),
        }
        refuse(states, rules)


def ladder_digests(ladders: pl.DataFrame) -> dict[int, str]:
    """Return fixture_id -> ``sha256:<hex>`` of its sorted ``LADDERS``, laid out as in ``docs/reference/pack-format.md``.

    Fixtures without ladders are left out.
    """
    return layer_digests(ladders, LADDER, [pl.col("level", "ts_ms"), pl.col(_OFFER).fill_null(NO_PRICE)])
