"""Replay: every decision beside the state it acted on and the close it is scored against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import polars as pl

from clvlab.errors import DecisionError
from clvlab.law.closing import Window, fixture_closes, market_closes
from clvlab.law.schema import Action, Schema
from clvlab.law.tape import Tape, last_row_at
from clvlab.proof.canonical import decimal_text
from clvlab.proof.events import CLOSE_EVENTS, PROPOSAL_EVENTS, SEALED_ORDER, SIDES

_MARKET = ["fixture_id", "market_key"]
_PPM = 1_000_000


@dataclass(frozen=True, slots=True)
class Replay:
    """What is sealed but for the verdicts of the gate: ``PROPOSAL_EVENTS`` and ``CLOSE_EVENTS``."""

    decisions: pl.DataFrame
    closes: pl.DataFrame


def replay(tape: Tape, decisions: pl.DataFrame, window: Window, *, errors: int = 0) -> Replay:
    """Put decisions in sealed order and look up their states.

    Parameters
    ----------
    tape
        The ticks.
    decisions
        ``DECISIONS`` of all agents, as ``locate`` found them on this tape.
    window
        Where fixtures close.
    errors
        Number of lines about failed agents, which stand between decisions and closes.
    """
    return numbered([looked_up(tape, decisions, window)], errors=errors)


def looked_up(tape: Tape, decisions: pl.DataFrame, window: Window) -> Replay:
    """Look up the states of decisions on some fixtures, as ``replay`` does of all; ``seq`` is not numbered yet.

    Steps: 1. sort; 2. read the states acted on; 3. close every market that a BACK names.
    """
    named = decisions.sort(SEALED_ORDER, nulls_last=False)
    back = named["action"] == Action.BACK
    acted_on = pl.select(pl.when(back).then(named["market_row"])).to_series()
    events = named.with_columns(
        *_states(tape, acted_on, named["n_sides"]),
        confidence_ppm=confidence_ppm(),
        confidence_raw=_confidence_raw(named),
        seq=pl.lit(0),
    )

    # Markets that somebody backed: an agent can't make evidence grow by waiting.
    closes = market_closes(tape, backed(named), fixture_closes(tape, window))
    states = _states(tape, closes["close_row"], closes["n_sides"])
    return Replay(_cast(events, PROPOSAL_EVENTS), _cast(closes.with_columns(*states, seq=pl.lit(0)), CLOSE_EVENTS))


def numbered(parts: Sequence[Replay], *, errors: int = 0) -> Replay:
    """Put what was looked up on some fixtures after others together, in sealed order.

    Parameters
    ----------
    parts
        Of fixtures that follow each other, as ``looked_up`` returns them.
    errors
        As for ``replay``.
    """
    decisions = pl.concat([part.decisions for part in parts])
    if len(parts) > 1:
        decisions = decisions.sort(SEALED_ORDER, nulls_last=False)
    closes = pl.concat([part.closes for part in parts])
    number = pl.int_range(1, pl.len() + 1)
    return Replay(decisions.with_columns(seq=number), closes.with_columns(seq=number + decisions.height + errors))


def backed(decisions: pl.DataFrame) -> pl.DataFrame:
    """Return the markets that somebody backed, each once."""
    back = (pl.col("action") == Action.BACK) & pl.col("market_key").is_not_null()
    return decisions.filter(back).select(_MARKET).unique()


def _cast(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    return frame.select(pl.col(column).cast(dtype) for column, dtype in schema.items())


def locate(tape: Tape, decisions: pl.DataFrame) -> pl.DataFrame:
    """Find the market and tick of each decision.

    Parameters
    ----------
    tape
        The ticks.
    decisions
        ``DECISIONS`` as checked by the law.

    Returns
    -------
    pl.DataFrame
        Row by row, with ``ts_ms`` and ``market_row``: the market's last message at the tick, on its first side.

    Raises
    ------
    DecisionError
        A decision at a tick that does not exist.
    """
    first_sides = tape.series.with_row_index("series").filter(pl.col("side_no") == 0)
    markets = first_sides.select(*_MARKET, "market_start", "n_sides", "series")
    found = decisions.join(markets, on=_MARKET, how="left", maintain_order="left")
    # The market's own last message up to the tick: at a tick of another market it may be old, and is never a later one.
    row = last_row_at(tape.key, found["market_start"], found["series"], found["tick_seq"])
    found = found.with_columns(
        market_row=row, message_seq=tape.rows["tick_seq"].gather(row), ts_ms=tape.rows["ts_ms"].gather(row)
    ).with_columns(ts_ms=pl.when(pl.col("message_seq") == pl.col("tick_seq")).then("ts_ms"))
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


def _states(tape: Tape, row: pl.Series, n_sides: pl.Series) -> pl.DataFrame:
    """Read the whole market at each row of its first side: tick, time, suspension and the list of its sides."""
    rows = tape.rows
    series = rows["series"].gather(row)
    length = tape.series["rows"].gather(series)
    asked = pl.DataFrame({"row": row, "series": series, "length": length, "n_sides": n_sides}).with_row_index("asked")
    # One row per side: the sides of a market are consecutive series of equal length.
    sides = (
        asked.filter(pl.col("row").is_not_null())
        .with_columns(number=pl.int_ranges(pl.col("n_sides")))
        .explode("number")
        .select("asked", row=pl.col("row") + pl.col("number") * pl.col("length"), series=pl.col("series") + pl.col("number"))
    )
    listed = (
        sides.select(
            "asked",
            odds_milli=rows["odds_milli"].gather(sides["row"]).cast(pl.Int64),
            prob_bps=rows["prob_bps"].gather(sides["row"]).cast(pl.Int64),
            side=tape.series["side"].gather(sides["series"]),
        )
        .group_by("asked", maintain_order=True)
        .agg(sides=pl.struct("odds_milli", "prob_bps", "side"))
    )
    return asked.join(listed, on="asked", how="left", maintain_order="left").select(
        state_tick_seq=rows["tick_seq"].gather(row),
        state_ts_ms=rows["ts_ms"].gather(row),
        state_suspended=rows["suspended"].gather(row),
        sides=pl.col("sides").cast(SIDES),
    )


def confidence_ppm() -> pl.Expr:
    """Turn a claimed confidence to parts per million, half up; null where it is no probability."""
    claimed = pl.col("confidence")
    return pl.when(claimed.is_between(0.0, 1.0)).then((claimed * _PPM + 0.5).floor()).cast(pl.Int64)


def _confidence_raw(decisions: pl.DataFrame) -> pl.Series:
    """Spell the claims of confidence that are no probability."""
    # A claim is sealed as it was made, however absurd, and never scored: tidied up, it could not be held against anybody.
    claimed = pl.col("confidence")
    sane = claimed.is_between(0.0, 1.0) & claimed.is_not_nan()
    raw = decisions.filter(claimed.is_not_null() & ~sane)["confidence"].unique()
    spelled = {value: _spelled(value) for value in raw}
    return decisions["confidence"].replace_strict(spelled, default=None, return_dtype=pl.String)


def _spelled(value: float) -> str:
    return decimal_text(value) if isfinite(value) else str(value)
