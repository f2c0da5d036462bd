"""Replay: each decision with the state it acted on and the close that scores it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
import polars as pl

from clvlab.errors import DecisionError
from clvlab.law.closing import Window, fixture_closes, market_closes
from clvlab.law.lines import ints_of, known, listed_sides, spread, starts
from clvlab.law.positions import SEALED_ORDER
from clvlab.law.schema import Action, Schema
from clvlab.law.tape import Tape, last_row_at
from clvlab.proof.canonical import decimal_text
from clvlab.proof.events import CLOSE_EVENTS, PROPOSAL_EVENTS

_MARKET = ["fixture_id", "market_key"]
_PPM = 1_000_000


@dataclass(frozen=True, slots=True)
class Replay:
    """Decisions and closes before the gate's verdicts: ``PROPOSAL_EVENTS`` and ``CLOSE_EVENTS``."""

    decisions: pl.DataFrame
    closes: pl.DataFrame


def replay(tape: Tape, decisions: pl.DataFrame, window: Window, *, errors: int = 0) -> Replay:
    """Return located decisions in sealed order with their states. ``errors`` lines come between decisions and closes."""
    return with_seq([with_states(tape, decisions, window)], errors=errors)


def with_states(tape: Tape, decisions: pl.DataFrame, window: Window) -> Replay:
    """Return the states of decisions on some fixtures, without the numbers of ``seq``.

    1. Sort. 2. Read the states acted on. 3. Close every market that a BACK names.
    """
    named = decisions.sort(SEALED_ORDER, nulls_last=False)
    own = tape.at_source(window.close_source)  # a book's distance from the consensus is not movement
    if own is not tape:
        named = named.with_columns(*market_rows(own, named))
    back = named["action"] == Action.BACK
    acted_on = named["market_row"].zip_with(back, nulls(named.height))
    events = {
        **{column.name: column for column in named},
        **_states(own, acted_on, named["n_sides"]),
        "confidence_ppm": named.select(confidence_ppm()).to_series(),
        "confidence_raw": _confidence_raw(named["confidence"]),
    }

    # Only backed markets are closed, so that an agent can't make evidence grow by waiting.
    closes = market_closes(own, backs_only(named), fixture_closes(tape, window))
    closing = {**{column.name: column for column in closes}, **_states(own, closes["close_row"], closes["n_sides"])}
    return Replay(_frame(events, PROPOSAL_EVENTS, named.height), _frame(closing, CLOSE_EVENTS, closes.height))


def with_seq(parts: Sequence[Replay], *, errors: int = 0) -> Replay:
    """Join the parts of consecutive fixtures in sealed order and number them."""
    decisions = pl.concat([part.decisions for part in parts])
    if len(parts) > 1:
        decisions = decisions.sort(SEALED_ORDER, nulls_last=False)
    closes = pl.concat([part.closes for part in parts])
    number = pl.int_range(1, pl.len() + 1)
    return Replay(decisions.with_columns(seq=number), closes.with_columns(seq=number + decisions.height + errors))


def backs_only(decisions: pl.DataFrame) -> pl.DataFrame:
    back = (pl.col("action") == Action.BACK) & pl.col("market_key").is_not_null()
    return decisions.lazy().filter(back).select(_MARKET).unique().collect(engine="in-memory")


def _frame(columns: Mapping[str, pl.Series], schema: Schema, height: int) -> pl.DataFrame:
    unnumbered = pl.Series([0]).new_from_index(0, height)
    return pl.DataFrame({name: columns.get(name, unnumbered).cast(dtype) for name, dtype in schema.items()})


def locate(tape: Tape, decisions: pl.DataFrame) -> pl.DataFrame:
    """Return decisions with ``ts_ms`` and ``market_row``, their market's last message at the tick."""
    tick_seq, ts_ms = (pl.lit(tape.rows[name]).gather("market_row") for name in ("tick_seq", "ts_ms"))
    found = decisions.hstack(market_rows(tape, decisions)).with_columns(
        ts_ms=pl.when(tick_seq == pl.col("tick_seq")).then(ts_ms)
    )
    if found["ts_ms"].null_count():  # decisions at a tick of another market
        elsewhere = tape.messages.select("fixture_id", "tick_seq", tick_ts_ms="ts_ms")
        found = (
            found.join(elsewhere, on=["fixture_id", "tick_seq"], how="left", maintain_order="left")
            .with_columns(pl.coalesce("ts_ms", "tick_ts_ms"))
            .drop("tick_ts_ms")
        )
        absent = found.filter(pl.col("ts_ms").is_null())
        if absent.height:
            first = absent.select("agent_id", "fixture_id", "tick_seq").row(0, named=True)
            raise DecisionError(f"{absent.height} decision(s) at a tick that does not exist, the first is {first}")
    return found


def market_rows(tape: Tape, decisions: pl.DataFrame) -> pl.DataFrame:
    """Return for each decision the row of its market's last message, on the first side, and the number of sides."""
    markets = tape.series.lazy().with_row_index("series").filter(pl.col("side_no") == 0)
    found = (
        decisions.lazy()
        .select(*_MARKET, "tick_seq")
        .join(markets.select(*_MARKET, "market_start", "n_sides", "series"), on=_MARKET, how="left", maintain_order="left")
        .collect(engine="in-memory")
    )
    # The market's own last message up to the tick is read. At a tick of another market it may be old, but never later.
    row = last_row_at(tape.key, found["market_start"], found["series"], found["tick_seq"])
    return pl.DataFrame([found["market_start"], found["n_sides"], found["series"], row.alias("market_row")])


def _states(tape: Tape, row: pl.Series, n_sides: pl.Series) -> dict[str, pl.Series]:
    """Return tick, time, suspension and list of sides of the market at each row of its first side."""
    rows, at_row = tape.rows, ints_of(row)
    there = np.flatnonzero(known(at_row))
    first, size = at_row[there], ints_of(n_sides)[there]
    series = rows["series"][first].to_numpy().astype(np.int64)
    # There is one row per side, because the sides of a market are consecutive series of equal length.
    state = np.repeat(np.arange(len(there)), size)
    number = np.arange(len(state)) - starts(size)[state]
    at = first[state] + number * tape.series["rows"][series].to_numpy()[state]
    prices = {
        "odds_milli": rows["odds_milli"][at].cast(pl.Int64),
        "prob_bps": rows["prob_bps"][at].cast(pl.Int64),
        "side": tape.series["side"][series[state] + number],
    }
    place = spread(np.arange(len(there)), there, len(row), len(there))  # of the null at the end
    sides = listed_sides(pl.DataFrame(prices), size)[place]
    return {
        "state_tick_seq": taken(rows["tick_seq"], row),
        "state_ts_ms": taken(rows["ts_ms"], row),
        "state_suspended": taken(rows["suspended"], row),
        "sides": sides,
    }


def confidence_ppm() -> pl.Expr:
    """Return a stated confidence in parts per million, rounded half up; null unless it is a probability."""
    claimed = pl.col("confidence")
    return pl.when(claimed.is_between(0.0, 1.0)).then((claimed * _PPM + 0.5).floor()).cast(pl.Int64)


def _confidence_raw(claimed: pl.Series) -> pl.Series:
    # A claim is sealed as it was made, even if absurd, and never scored. A corrected claim would hide the agent's error.
    absurd = ~((claimed >= 0) & (claimed <= 1))  # NaN is above every number
    if not absurd.any():
        return nulls(len(claimed), pl.String)
    texts = {value: _text(value) for value in claimed.filter(absurd).unique()}
    return claimed.replace_strict(texts, default=None, return_dtype=pl.String)


def _text(value: float) -> str:
    return decimal_text(value) if isfinite(value) else str(value)


def taken(column: pl.Series, rows: pl.Series) -> pl.Series:
    return column[rows.cast(pl.UInt32)]  # Polars takes an unsigned index as it is


def nulls(count: int, dtype: type[pl.DataType] = pl.Int64) -> pl.Series:
    return pl.Series([None], dtype=dtype).new_from_index(0, count)
