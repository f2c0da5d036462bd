"""Coherence of evidence: whether one tape could have given all of its ticks, states and closes.

Every fixture has one sequence of messages, each about one market and at one time. A decision names its tick and the market's
last message; a close names the last message inside its window. So the lines of a run say much about each other, which whoever
rewrites one of them must keep to.
"""

from __future__ import annotations

import polars as pl

from clvlab.errors import EvidenceError
from clvlab.law.closing import LAST_OPEN_MAX_AGE_MS
from clvlab.law.schema import CloseKind, ClosingPolicy

_MARKET = ["fixture_id", "market_key"]
_LAST_TICK = 2**31 - 1
_AFTER_LAST = [CloseKind.TAPE_END.value, CloseKind.STOP.value]  # windows that end after the last tick, at its time

_OTHER_SIDES = "a market has other sides in another message of its fixture"
_OTHER_MESSAGE = "two states of one tick differ: a tick is one message, about one market"


def check_coherence(
    decisions: pl.DataFrame, closes: pl.DataFrame, closing_policy: ClosingPolicy, duration_s: int | None
) -> None:
    """Refuse evidence that no tape gives.

    Parameters
    ----------
    decisions, closes
        ``DECISION_EVENTS`` and ``CLOSE_EVENTS``, of which every line alone is well-formed.
    closing_policy, duration_s
        As sealed.

    Raises
    ------
    EvidenceError
        Two lines contradict each other.
    """
    if closes.select(pl.struct(_MARKET).is_duplicated().any()).item():
        raise EvidenceError("a market closes twice")
    _check_times(decisions, closes, duration_s)

    states = _states(decisions, closes)
    if states.select((pl.col("sides").is_not_null() & pl.col("market").is_null()).any()).item():
        raise EvidenceError("a market with a state has no MARKET_CLOSE")
    messages = _messages(states)
    acted = states.drop("sides").head(decisions.height).filter(pl.col("market").is_not_null())
    _check_latest(messages, acted, closes, closing_policy)


def _states(decisions: pl.DataFrame, closes: pl.DataFrame) -> pl.DataFrame:
    """Put the states of decisions, then those of closes, one under the other; a market is the row of its close."""
    own = closes.select(*_MARKET).with_row_index("market").with_columns(action=pl.lit("BACK"))
    asked = decisions.select(*_MARKET, "action").join(own, on=[*_MARKET, "action"], how="left", maintain_order="left")
    columns = ["market", "fixture_id", "tick_seq", "state_tick_seq", "state_ts_ms", "state_suspended", "sides"]
    at_close = closes.with_columns(own["market"], tick_seq=pl.col("end_seq") - 1)
    return pl.concat([decisions.with_columns(asked["market"]).select(columns), at_close.select(columns)])


def _check_times(decisions: pl.DataFrame, closes: pl.DataFrame, duration_s: int | None) -> None:
    """Require one time for each tick, times that never fall, and windows that end where those times say."""
    ends = closes.select("fixture_id", "end_seq", "close_ts_ms", "close_kind").unique()
    kind, tick, ts, close = (pl.col(name) for name in ("close_kind", "tick_seq", "ts_ms", "close_ts_ms"))
    stated = ends.filter(kind.is_in([CloseKind.IN_RUNNING.value, *_AFTER_LAST])).select(
        "fixture_id", tick_seq=pl.col("end_seq") - kind.is_in(_AFTER_LAST).cast(pl.Int64), ts_ms=close
    )
    known = [
        frame.select("fixture_id", tick_seq=frame[f"{state}tick_seq"], ts_ms=frame[f"{state}ts_ms"]).drop_nulls()
        for frame, state in ((decisions, ""), (decisions, "state_"), (closes, "state_"), (stated, ""))
    ]
    ticks = pl.concat(known)
    if not (ticks["tick_seq"].is_between(0, _LAST_TICK).all() and ends["end_seq"].is_between(0, _LAST_TICK + 1).all()):
        raise EvidenceError("a tick has a number below 0, or of more than 31 bits")
    fixtures = ticks.select("fixture_id").unique().with_row_index("fixture")
    ends = fixtures.join(ends, on="fixture_id", how="left", maintain_order="left")
    ticks = ticks.join(fixtures, on="fixture_id", how="left", maintain_order="left")
    ticks = ticks.select("fixture", "tick_seq", "ts_ms", key=pl.col("fixture").cast(pl.Int64) * 2**32 + tick).sort("key")
    same, falls = (pl.col(name) == pl.col(name).shift(1) for name in ("key", "fixture"))
    if ticks.select((same & (ts != ts.shift(1))).any()).item():
        raise EvidenceError("one tick has two times")
    if ticks.select((falls & (ts < ts.shift(1))).any()).item():
        raise EvidenceError("time falls from one tick to a later one")
    at = ticks.hstack(ends.select(pl.exclude("fixture_id", "fixture").gather(ticks["fixture"])))
    inside = tick < pl.col("end_seq")
    wrong = (
        (kind.is_in(_AFTER_LAST) & ~inside)
        | ((kind == CloseKind.KICKOFF) & (inside != (ts < close)))
        | ((kind == CloseKind.DURATION) & ((inside != (ts <= close)) | (ts < close - 1000 * (duration_s or 0))))
    )
    if at.select(wrong.any()).item():
        raise EvidenceError("a window does not end where the times of its ticks say")


def _messages(states: pl.DataFrame) -> pl.DataFrame:
    """Return the states that are there, each of which must be one message, with the sides that its market always has."""
    if (states["sides"].list.len() < 2).any():
        raise EvidenceError("a market has at least two sides")
    priced = states["sides"].list.eval(pl.element().struct.field("prob_bps").is_not_null()).list.any()
    if (priced == states["state_suspended"]).any():
        raise EvidenceError("a state is suspended exactly when it has no probability")
    size = pl.col("sides").list.len().cast(pl.Int64).fill_null(1)  # no state explodes to a null
    placed = states.select(pl.exclude("sides"), absent=pl.col("sides").is_null(), size=size, start=size.cum_sum() - size)
    first = pl.col("start", "size", "market", "state_suspended").first()
    messages = placed.filter(~pl.col("absent")).with_columns(
        first.over("market").name.prefix("market_"), first.over("fixture_id", "state_tick_seq").name.prefix("tick_")
    )
    if (messages["size"] != messages["market_size"]).any():
        raise EvidenceError(_OTHER_SIDES)
    if not all(messages[name].equals(messages[f"tick_{name}"]) for name in ("market", "state_suspended")):
        raise EvidenceError(_OTHER_MESSAGE)
    # Price by price: each beside the one at its place in the first state of its market, and of its tick.
    starts = ["start", "market_start", "tick_start"]
    places = messages.select(pl.int_ranges(start, pl.col(start) + pl.col("size")).alias(start) for start in starts)
    at, of_market, of_tick = places.explode(starts).get_columns()
    prices = states.select("sides").explode("sides").unnest("sides")
    names = prices["side"].cast(pl.Categorical).to_physical()
    if not names.gather(at).equals(names.gather(of_market), null_equal=True):
        raise EvidenceError(_OTHER_SIDES)
    if not all(prices[name].gather(at).equals(prices[name].gather(of_tick)) for name in ("odds_milli", "prob_bps")):
        raise EvidenceError(_OTHER_MESSAGE)
    return messages


def _check_latest(messages: pl.DataFrame, acted: pl.DataFrame, closes: pl.DataFrame, policy: ClosingPolicy) -> None:
    """Require each state to be the last message of its market, and each close the one that its policy takes."""
    last = _last(messages, acted)
    if not acted["state_tick_seq"].equals(last["state_tick_seq"]):
        raise EvidenceError("a state is not the last message of its market that other lines know of")
    inside = closes.select(tick_seq=pl.col("end_seq") - 1).with_row_index("market")
    last = _last(messages, inside)
    close = last["state_tick_seq"]
    if policy == ClosingPolicy.LAST_OPEN:
        last_open = _last(messages.filter(~pl.col("state_suspended")), inside)
        young = closes["close_ts_ms"] - last_open["state_ts_ms"] <= LAST_OPEN_MAX_AGE_MS
        behind = last["state_suspended"] & young
        close = pl.select(pl.when(behind).then(last_open["state_tick_seq"]).otherwise(close)).to_series()
    if not closes["state_tick_seq"].equals(close):
        raise EvidenceError("a close is not the last message inside its window that other lines know of")


def _last(messages: pl.DataFrame, asked: pl.DataFrame) -> pl.DataFrame:
    """Return the last message of each asked market up to its tick, row by row; nulls where there is none."""
    market, tick = pl.col("market").cast(pl.Int64), pl.col("state_tick_seq")
    ordered = messages.with_columns(key=market * 2**32 + tick).sort("key")
    row = ordered["key"].search_sorted(asked.select(market * 2**32 + pl.col("tick_seq")).to_series(), side="right")
    row = pl.select(row=row.cast(pl.Int64) - 1).select(pl.when(pl.col("row") >= 0).then("row")).to_series()
    found = ordered.select(pl.col("market", "state_tick_seq", "state_ts_ms", "state_suspended").gather(row))
    own = found["market"] == asked["market"]
    return found.select(pl.when(own).then(pl.exclude("market")))
