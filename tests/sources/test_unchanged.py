"""Dropping what an exchange says again, against a loop over messages, and against the closes of everything it said."""

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from clvlab.law.closing import Window, fixture_closes, market_closes
from clvlab.law.schema import FIXTURES, TICKS, ClosingPolicy
from clvlab.law.tape import Tape
from clvlab.sources.betfair.history import changes
from clvlab.sources.books import number_messages
from tests.length import length

MINUTE = 60_000
_STATES = ((4000, 2500, False), (4000, 2400, False), (None, None, True))


def rows_of(seed):
    """Rows of three events that mostly repeat themselves, and their kickoffs."""
    rng = np.random.default_rng(seed)
    rows, kickoffs = [], {}
    for event in "abc":
        plays = int(rng.integers(0, 400_000)) if rng.random() < 0.6 else None
        kickoffs[event] = int(rng.integers(0, 400_000)) if rng.random() < 0.7 else None
        for market in ("X", "Y")[: rng.integers(1, 3)]:
            moments = np.unique(rng.choice([0, 1_000, 30_000, 59_999, MINUTE, 100_000], int(rng.integers(1, 25))).cumsum())
            state = _STATES[0]
            for ts_ms in moments.tolist():
                if rng.random() < 0.25:
                    state = _STATES[rng.integers(0, 3)]
                prob, odds, suspended = state
                playing = plays is not None and ts_ms >= plays and not (market == "Y" and rng.random() < 0.2)
                for side, p in (("no", prob), ("yes", None if prob is None else 10_000 - prob)):
                    rows.append((event, market, side, ts_ms, playing, p, odds, suspended))
    names = {"event": pl.String, "market_key": pl.String, "side": pl.String, "ts_ms": pl.Int64, "in_running": pl.Boolean}
    names |= {"prob_bps": pl.Int32, "odds_milli": pl.Int32, "suspended": pl.Boolean}
    frame = pl.DataFrame(rows, schema=names, orient="row").sample(fraction=1, shuffle=True, seed=seed)
    return frame, kickoffs


def plainly(rows, kickoffs):
    """Return (event, market, time) of the messages that are left, found one after the other."""
    states, plays = {}, {}
    for event, market, side, ts_ms, playing, *state in sorted(rows.iter_rows(), key=repr):
        states.setdefault((event, market), {}).setdefault(ts_ms, {})[side] = (playing, *state)
        if playing:
            plays[event] = min(ts_ms, plays.get(event, ts_ms))
    left = set()
    for (event, market), own in states.items():
        times, start, kept = sorted(own), None, None
        for ts_ms, before, after in zip(times, [None, *times], [*times[1:], None], strict=False):
            if before is None or own[ts_ms] != own[before]:
                start = kept = ts_ms
                keep = True
            else:
                keep = (ts_ms - start) // MINUTE != (kept - start) // MINUTE
                kept = ts_ms if keep else kept
            now = own[ts_ms]["no"]
            turns = after is None or (own[after]["no"][0], own[after]["no"][3]) != (now[0], now[3])
            ends = [end for end in (plays.get(event), kickoffs[event]) if end is not None]
            crosses = after is not None and any(ts_ms < end <= after or ts_ms <= end < after for end in ends)
            if keep or turns or crosses:
                left.add((event, market, ts_ms))
    return left


def tape_of(rows, kickoffs):
    ids = dict(zip("abc", (1, 2, 3), strict=True))
    ticks = rows.with_columns(
        fixture_id=pl.col("event").replace_strict(ids, return_dtype=pl.Int64), tick_seq=pl.lit(0, pl.Int32)
    ).select(*TICKS)
    return Tape.from_ticks(
        number_messages(ticks),
        pl.DataFrame({"fixture_id": list(ids.values()), "kickoff_ts_ms": list(kickoffs.values())}, schema=FIXTURES),
        closing_policy=ClosingPolicy.LAST_OPEN,
    )


def closes_of(tape):
    """Return where windows end, the closing message of every market, and whether each message is inside, all by time."""
    ends = fixture_closes(tape, Window())
    markets = tape.series.filter(side_no=0).select("fixture_id", "market_key")
    found = market_closes(tape, markets, ends)
    row = found["close_row"]
    closes = found.select("fixture_id", "market_key", "close_ts_ms").with_columns(
        tape.rows.select(pl.col("ts_ms", "prob_bps", "odds_milli", "suspended").gather(row))
    )
    inside = tape.ticks().collect().join(ends.select("fixture_id", "end_seq"), on="fixture_id")
    messages = inside.select("fixture_id", "market_key", "side", "ts_ms", inside=pl.col("tick_seq") < pl.col("end_seq"))
    return ends.drop("end_seq"), closes, messages


@pytest.mark.parametrize("seed", range(length(60, 600)))
def test_a_loop_over_messages_drops_the_same_and_every_market_closes_by_the_same_message(seed):
    rows, kickoffs = rows_of(seed)

    left, dropped = changes(rows, kickoffs)

    every = set(rows.select("event", "market_key", "ts_ms").unique().iter_rows())
    kept = set(left.select("event", "market_key", "ts_ms").iter_rows())
    assert (kept, dropped) == (plainly(rows, kickoffs), len(every) - len(kept))
    assert left.height == 2 * len(kept)
    whole, thin = closes_of(tape_of(rows, kickoffs)), closes_of(tape_of(left, kickoffs))
    for without, own in zip(thin[:2], whole[:2], strict=True):
        assert_frame_equal(without, own)
    assert_frame_equal(thin[2], whole[2].join(thin[2], on=["fixture_id", "market_key", "side", "ts_ms"], how="semi"),
                       check_row_order=False)  # fmt: skip


def test_the_generated_messages_repeat_themselves_enough_to_tell():
    shares = [
        dropped / rows.height * 2 for rows, kickoffs in map(rows_of, range(20)) for _, dropped in [changes(rows, kickoffs)]
    ]

    assert 0.05 < sum(shares) / 20 < 0.9
    assert min(shares) < max(shares)
