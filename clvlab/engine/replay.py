"""Replay: each decision with the state it acted on and the close that scores it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import fields, replace
from math import isfinite
from typing import Any, TypeVar

import numpy as np
import polars as pl

from clvlab.errors import DecisionError
from clvlab.law.closing import Window, fixture_closes, market_closes
from clvlab.law.lines import (
    NONE,
    Categorical,
    Closes,
    Decisions,
    Ints,
    MarketStates,
    find,
    frame_of,
    ints_of,
    known,
    ranges,
    recoded,
    starts,
    take,
    texts_of,
)
from clvlab.law.positions import SEALED_ORDER
from clvlab.law.schema import Action
from clvlab.law.tape import Tape
from clvlab.proof.canonical import decimal_text
from clvlab.proof.events import Claims, Events

_MARKET = ["fixture_id", "market_key"]
_OF_MARKET = {"market_start": "start", "n_sides": "n_sides", "series": "series"}  # column of a decision, and of its market
_PPM = 1_000_000


def replay(tape: Tape, decisions: pl.DataFrame, window: Window, *, errors: int = 0) -> Events:
    """Return located decisions in sealed order with their states. ``errors`` lines come between decisions and closes."""
    return with_seq([with_states(tape, decisions, window)], errors=errors)


def with_states(tape: Tape, decisions: pl.DataFrame, window: Window) -> Events:
    """Return the events of decisions on some fixtures, before the gate's verdicts and without their final ``seq``.

    1. Sort. 2. Read the states acted on. 3. Close every market that a BACK names.
    """
    named = decisions.sort(SEALED_ORDER, nulls_last=False)
    own = tape.at_source(window.close_source)  # a book's distance from the consensus is not movement
    if own is not tape:
        named = named.with_columns(*market_rows(own, named))
    back = named["action"] == Action.BACK
    # Only backed markets are closed, so that an agent can't make evidence grow by waiting.
    backed = named.filter(back & named["market_key"].is_not_null()).select(*_MARKET).unique()
    closes = market_closes(own, backed, fixture_closes(tape, window))
    entry = _states(own, np.where(back.to_numpy(), ints_of(named["market_row"]), NONE), ints_of(named["n_sides"]))
    closing = _states(own, ints_of(closes["close_row"]), ints_of(closes["n_sides"]))
    keys, closed_keys = texts_of(named["market_key"], closes["market_key"])
    side, entry_side, closing_side = recoded(texts_of(named["side"])[0], entry.side, closing.side)
    unjudged: Categorical[tuple[str, ...]] = Categorical(np.full(named.height, -1), [])
    return Events(
        Decisions(
            texts_of(named["agent_id"])[0],
            ints_of(named["fixture_id"]),
            ints_of(named["tick_seq"]),
            ints_of(named["ts_ms"]),
            texts_of(named["action"])[0],
            keys,
            side,
            ints_of(named["stake"]),
            ints_of(named["limit_odds_milli"]),
            ints_of(named.select(confidence_ppm()).to_series()),
            replace(entry, side=entry_side),
            pre=unjudged,
            post=unjudged,
        ),
        Closes(
            ints_of(closes["fixture_id"]),
            closed_keys,
            ints_of(closes["end_seq"]),
            ints_of(closes["close_ts_ms"]),
            texts_of(closes["close_kind"])[0],
            replace(closing, side=closing_side),
        ),
        Claims(named["reason"].to_list(), _confidence_raw(named["confidence"]), ints_of(named["claimed_edge_bps"])),
        np.arange(named.height),
        np.arange(closes.height),
    )


def with_seq(parts: Sequence[Events], *, errors: int = 0) -> Events:
    """Join the parts of different fixtures in sealed order and number them."""
    whole = parts[0]
    if len(parts) > 1:
        whole = _joined(parts)
        # Each part is in sealed order, and no two of them share a fixture.
        whole = of_rows(whole, np.lexsort((whole.decisions.fixture_id, whole.decisions.ts_ms)))
    first_close = len(whole.decisions) + errors + 1
    numbers = np.arange(1, len(whole.decisions) + 1), np.arange(first_close, first_close + len(whole.closes))
    return replace(whole, decision_seqs=numbers[0], close_seqs=numbers[1])


def of_rows(events: Events, decisions: Ints, closes: Ints | None = None) -> Events:
    """Return events of some rows; all closes by default."""
    return Events(
        _taken(events.decisions, decisions),
        events.closes if closes is None else _taken(events.closes, closes),
        _taken(events.claims, decisions),
        events.decision_seqs[decisions],
        events.close_seqs if closes is None else events.close_seqs[closes],
    )


def without_agents(events: Events, agent_ids: Collection[str]) -> Events:
    """Return events without the decisions of some agents, and without markets that no other agent backs."""
    made, closes = events.lines
    own = np.flatnonzero(made.agent_id.map(lambda agent_id: agent_id not in agent_ids, default=True))
    backs = own[made.action.equals(Action.BACK)[own]]
    backed = set(zip(made.fixture_id[backs].tolist(), made.market_key.codes[backs].tolist(), strict=True))
    markets = zip(closes.fixture_id.tolist(), closes.market_key.codes.tolist(), strict=True)
    return of_rows(events, own, np.flatnonzero([market in backed for market in markets]))


_Columns = TypeVar("_Columns", Decisions, Closes, Claims)
_Lines = TypeVar("_Lines", Decisions, Closes)


def _taken(columns: _Columns, rows: Ints) -> _Columns:
    return replace(columns, **{one.name: _rows_of(getattr(columns, one.name), rows) for one in fields(columns)})


def _rows_of(column: Any, rows: Ints) -> Any:
    if isinstance(column, np.ndarray):
        return column[rows]
    if isinstance(column, Categorical):
        return column.take(rows)
    if isinstance(column, MarketStates):
        return _states_in(column, rows)
    return [column[row] for row in rows.tolist()]


def _states_in(states: MarketStates, lines: Ints) -> MarketStates:
    if not len(states.line) or not len(lines):
        return replace(states, **{one.name: _rows_of(getattr(states, one.name), lines[:0]) for one in fields(states)})
    place = find(states.line, lines)
    line = np.flatnonzero(place >= 0)
    own = place[line]
    prices = ranges(starts(states.size)[own], states.size[own])
    return MarketStates(
        line,
        states.tick_seq[own],
        states.ts_ms[own],
        states.suspended[own],
        states.size[own],
        states.side.take(prices),
        states.prob_bps[prices],
        states.odds_milli[prices],
    )


def _joined(parts: Sequence[Events]) -> Events:
    """Return the events of some parts end to end."""
    made, closes = ([getattr(part, name) for part in parts] for name in ("decisions", "closes"))
    return Events(
        _concatenated([*_shifted(made)]),
        _concatenated([*_shifted(closes)]),
        _concatenated([part.claims for part in parts]),
        np.concatenate([part.decision_seqs for part in parts]),
        np.concatenate([part.close_seqs for part in parts]),
    )


def _shifted(parts: Sequence[_Lines]) -> Iterator[_Lines]:
    """Yield lines whose states name the rows of lines that stand after each other."""
    first = 0
    for part in parts:
        yield replace(part, states=replace(part.states, line=part.states.line + first))
        first += len(part)


def _concatenated(parts: Sequence[Any]) -> Any:
    first = parts[0]
    if isinstance(first, np.ndarray):
        return np.concatenate(parts)
    if isinstance(first, Categorical):
        common = recoded(*parts)
        return Categorical(np.concatenate([part.codes for part in common]), common[0].values)
    if isinstance(first, list):
        return [value for part in parts for value in part]
    return replace(first, **{one.name: _concatenated([getattr(part, one.name) for part in parts]) for one in fields(first)})


def locate(tape: Tape, decisions: pl.DataFrame) -> pl.DataFrame:
    """Return decisions with ``ts_ms`` and ``market_row``, their market's last message at the tick."""
    markets = market_rows(tape, decisions)
    row = markets["market_row"]
    here = tape.rows["tick_seq"].gather(row) == decisions["tick_seq"]
    found = decisions.hstack(markets).with_columns(pl.when(here).then(tape.rows["ts_ms"].gather(row)).alias("ts_ms"))
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
    market = tape.markets.find(ints_of(decisions["fixture_id"]), texts_of(decisions["market_key"])[0])
    columns = {name: take(getattr(tape.markets, own), market, NONE) for name, own in _OF_MARKET.items()}
    # The market's own last message up to the tick is read. At a tick of another market it may be old, but never later.
    columns["market_row"] = tape.markets.last_rows(tape.key.to_numpy(), market, ints_of(decisions["tick_seq"]))
    return frame_of(columns, dict.fromkeys(columns, pl.Int64))


def _states(tape: Tape, row: Ints, n_sides: Ints) -> MarketStates:
    """Return the states of the lines whose market has a message, given the row of its first side."""
    line = np.flatnonzero(known(row))
    first, size = row[line], n_sides[line]
    series = ints_of(tape.rows["series"][first])
    # There is one row per side, because the sides of a market are consecutive series of equal length.
    number = np.arange(size.sum()) - np.repeat(starts(size), size)
    at = np.repeat(first, size) + number * np.repeat(ints_of(tape.series["rows"])[series], size)
    return MarketStates(
        line,
        ints_of(tape.rows["tick_seq"][first]),
        ints_of(tape.rows["ts_ms"][first]),
        tape.rows["suspended"][first].to_numpy(),
        size,
        texts_of(tape.series["side"])[0].take(np.repeat(series, size) + number),
        ints_of(tape.rows["prob_bps"][at]),
        ints_of(tape.rows["odds_milli"][at]),
    )


def confidence_ppm() -> pl.Expr:
    """Return a stated confidence in parts per million, rounded half up; null unless it is a probability."""
    claimed = pl.col("confidence")
    return pl.when(claimed.is_between(0.0, 1.0)).then((claimed * _PPM + 0.5).floor()).cast(pl.Int64)


def _confidence_raw(claimed: pl.Series) -> list[str | None]:
    # A claim is sealed as it was made, even if absurd, and never scored. A corrected claim would hide the agent's error.
    return [None if value is None or 0 <= value <= 1 else _text(value) for value in claimed.to_list()]


def _text(value: float) -> str:
    return decimal_text(value) if isfinite(value) else str(value)
