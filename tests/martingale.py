"""Tapes whose truth is known: prices that are exact martingales, with a drift or an edge of a known size if one is asked for.

Prices are integers in basis points and nothing is ever rounded. At each message two sides of a market are drawn, and a fair
coin says which of them gains ``STEP_BPS`` from the other. Where either outcome would leave ``BOUNDS_BPS``, nothing moves, so
that both are always equally likely: the expected change of every side is zero, given everything before.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from clvlab.law.schema import DECISIONS, FIXTURES, TICKS
from clvlab.law.tape import Tape

STEP_BPS = 30
BOUNDS_BPS = (300, 9_700)
MARKET = "1X2_PARTICIPANT_RESULT||"
INTERVAL_MS = 600_000
_DAY_MS = 86_400_000


def martingale_tape(
    fixtures: int,
    ticks: int,
    seed: int,
    *,
    drift_bps: int = 0,
    momentum_bps: int = 0,
    sides: Sequence[str] = ("home", "draw", "away"),
) -> Tape:
    """Return a tape of one market a fixture, whose prices are a martingale.

    Parameters
    ----------
    fixtures, ticks
        How many, and messages of each; fixtures have the ids 1 .. ``fixtures``. A message comes every ``INTERVAL_MS``, the last
        one that long before kickoff. Odds are fair, up to the rounding to thousandths.
    seed
        The same seed gives the same tape.
    drift_bps
        What the opening favourite of every fixture gains from first to last message on average, at the others' expense: spread
        evenly over messages, exact where there is room for it. Ties go to the first in byte order.
    momentum_bps
        What ``risers`` gains: with the chance ``momentum_bps / (momentum_bps + STEP_BPS)`` a message repeats the move before
        it, so that after a rise so much more is expected to come. Less within a dozen messages of the last, and at the bounds.
    sides
        Two or more names.

    Examples
    --------
    >>> tape = martingale_tape(2, 50, 0)
    >>> tape.ticks().group_by("fixture_id", "tick_seq").agg(pl.col("prob_bps").sum()).collect()["prob_bps"].unique().to_list()
    [10000]
    """
    if len(set(sides)) < 2 or fixtures < 1 or ticks < 1 or momentum_bps < 0:
        raise ValueError(f"no tape of {fixtures} fixtures, {ticks} ticks, sides {sides} and momentum {momentum_bps} bps")
    rng, sides = np.random.default_rng(seed), sorted(sides)
    prices = _prices(rng, fixtures, ticks, len(sides), drift_bps, momentum_bps)
    fixture, tick, side = (part.ravel() for part in np.indices(prices.shape))
    kickoffs = _DAY_MS * (1 + np.arange(fixtures)) + INTERVAL_MS * ticks
    frame = pl.DataFrame(
        {
            "fixture_id": fixture + 1,
            "tick_seq": tick,
            "ts_ms": kickoffs[fixture] - INTERVAL_MS * (ticks - tick),
            "in_running": np.zeros(fixture.size, dtype=bool),
            "market_key": pl.repeat(MARKET, fixture.size, eager=True),
            "side": pl.Series(sides).gather(side),
            "prob_bps": prices.ravel(),
            "odds_milli": (20_000_000 + prices.ravel()) // (2 * prices.ravel()),
            "suspended": np.zeros(fixture.size, dtype=bool),
        },
        schema_overrides=TICKS,
    )
    return Tape.from_ticks(frame, pl.DataFrame({"fixture_id": np.arange(fixtures) + 1, "kickoff_ts_ms": kickoffs}, FIXTURES))


def favourites(tape: Tape, tick_seq: int = 0, agent_id: str = "favourites") -> pl.DataFrame:
    """Return ``DECISIONS`` that back the likeliest side of each fixture at one message: they earn 0, or the drift to come."""
    ticks = tape.ticks().filter(pl.col("tick_seq") == tick_seq)
    best = ticks.sort("prob_bps", "side", descending=[True, False]).unique("fixture_id", keep="first", maintain_order=True)
    return _backs(best.sort("fixture_id"), agent_id)


def risers(tape: Tape, every: int = 1, agent_id: str = "risers") -> pl.DataFrame:
    """Return ``DECISIONS`` that back, at every so many messages, the side that has just risen; it earns 0, or the momentum."""
    rise = pl.col("prob_bps") - pl.col("prob_bps").shift(1).over("fixture_id", "side", order_by="tick_seq")
    risen = tape.ticks().with_columns(rise=rise).filter(pl.col("rise") > STEP_BPS // 2, pl.col("tick_seq") % every == 0)
    return _backs(risen.sort("fixture_id", "tick_seq", "side"), agent_id)


def backed_clv(tape: Tape, decisions: pl.DataFrame) -> pl.DataFrame:
    """Return ``fixture_id, clv_bps`` of decisions, by the last price of each series; the law is not asked."""
    last = pl.col("prob_bps").last().over("fixture_id", "side", order_by="tick_seq")
    priced = tape.ticks().with_columns(clv_bps=last - pl.col("prob_bps")).collect()
    return decisions.join(priced, on=["fixture_id", "tick_seq", "market_key", "side"]).select("fixture_id", "clv_bps")


def _backs(ticks: pl.LazyFrame, agent_id: str) -> pl.DataFrame:
    given = {"agent_id": pl.lit(agent_id), "action": pl.lit("BACK"), "stake": pl.lit(100)}
    frame = ticks.collect().with_columns(**given)
    return pl.DataFrame(
        {name: frame[name] if name in frame.columns else [None] * frame.height for name in DECISIONS}, DECISIONS
    )


def _prices(rng, fixtures, ticks, n_sides, drift_bps, momentum_bps):
    """Walk all fixtures at once; ``(fixtures, ticks, sides)`` in basis points."""
    low, high = BOUNDS_BPS
    own = np.arange(fixtures)
    openings = 10_000 // n_sides + np.zeros((fixtures, n_sides), dtype=np.int64)
    openings[:, 0] += 10_000 - openings.sum(1)
    for _ in range(40):  # openings differ from fixture to fixture: the same fair exchange, in larger steps
        openings = _exchanged(openings, _moves(rng, fixtures, n_sides) * 5, low, high)
    favourite = openings.argmax(1)
    prices = np.empty((fixtures, ticks, n_sides), dtype=np.int64)
    prices[:, 0] = now = openings
    move = _moves(rng, fixtures, n_sides)
    repeats = momentum_bps / (momentum_bps + STEP_BPS)
    for tick in range(1, ticks):
        again = rng.random(fixtures) < repeats
        move = np.where(again[:, None], move, _moves(rng, fixtures, n_sides))
        now = _exchanged(now, move, low, high)
        for taken in range(_due(drift_bps, tick - 1, ticks), _due(drift_bps, tick, ticks)):
            step = np.zeros_like(now)
            step[own, favourite] += np.sign(drift_bps)
            step[own, (favourite + 1 + taken % (n_sides - 1)) % n_sides] -= np.sign(drift_bps)
            now = _exchanged(now, step, low, high)
        prices[:, tick] = now
    return prices


def _due(drift_bps, tick, ticks):
    return abs(drift_bps) * tick // max(ticks - 1, 1)


def _moves(rng, fixtures, n_sides):
    """A pair of sides for each fixture: the first drawn gains what the other loses."""
    first = rng.integers(0, n_sides, fixtures)
    other = (first + rng.integers(1, n_sides, fixtures)) % n_sides
    moves = np.zeros((fixtures, n_sides), dtype=np.int64)
    moves[np.arange(fixtures), first] = STEP_BPS
    moves[np.arange(fixtures), other] = -STEP_BPS
    return moves


def _exchanged(prices, moves, low, high):
    """Make the moves of those fixtures where neither they nor their opposites leave the bounds."""
    reach = np.abs(moves)
    room = ((prices - reach >= low) & (prices + reach <= high)).all(1)
    return prices + np.where(room[:, None], moves, 0)
