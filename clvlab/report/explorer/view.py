"""One market of one fixture as frames, up to the position of a replay.

A market is prepared once; each move of the replay or zoom is a slice of it, thinned to the pixels of a screen.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import polars as pl

from clvlab.law.closing import Window, fixture_closes, market_closes
from clvlab.law.schema import Action, Reason, Schema
from clvlab.law.tape import Tape
from clvlab.words import market_name, side_name

# Thinning to the pixels of a picture, with extremes.


def thin(rows: pl.DataFrame, span_ms: tuple[int, int], width: int) -> pl.DataFrame:
    """Return the first, last, lowest and highest row of each side and pixel. They draw the same picture as all rows.

    References
    ----------
    Jugel, Jerzak, Hackenbroich, Markl: "M4: A Visualization-Oriented Time Series Data Aggregation", VLDB 2014.
    """
    if rows.height <= 4 * width:
        return rows
    pixel = _pixel(span_ms, width)
    row, prob = pl.col("row"), pl.col("prob_bps")
    kept = (
        rows.lazy()
        .with_row_index("row")
        .group_by("side", pixel)
        .agg(
            first=row.first(),
            last=row.last(),
            low=row.get(prob.arg_min(), null_on_oob=True),
            high=row.get(prob.arg_max(), null_on_oob=True),
        )
        .select(pl.concat_list("first", "last", "low", "high").explode().drop_nulls().unique().sort())
        .collect(engine="in-memory")
        .to_series()
    )
    return rows[kept]


def _pixel(span_ms: tuple[int, int], width: int) -> pl.Expr:
    low, high = span_ms
    return ((pl.col("ts_ms") - low) * width // max(high - low, 1)).alias("pixel")


def pool(marks: pl.DataFrame, span_ms: tuple[int, int], width: int) -> pl.DataFrame:
    """Pool marks within eight pixels and a hundredth of the height, because they would cover each other."""
    if marks.height <= width // 8:
        return marks
    cell = ["side", "outcome", _pixel(span_ms, width // 8), (pl.col("prob_bps") // 100).alias("height")]
    cells = marks.group_by(cell, maintain_order=True).agg(pl.col("n").sum().alias("many"), pl.all().first())
    return cells.with_columns(n="many").select(marks.columns)


def suspensions(past: pl.DataFrame, now_ms: int, span_ms: tuple[int, int], width: int) -> pl.DataFrame:
    """Return the times without a price, joined where less than a pixel apart."""
    low, high = span_ms
    until = pl.col("ts_ms").shift(-1, fill_value=now_ms)
    gap = pl.col("from_ts_ms") - pl.col("to_ts_ms").shift(1)
    return (
        past.select("suspended", from_ts_ms="ts_ms", to_ts_ms=until)
        .filter("suspended", pl.col("to_ts_ms") >= low, pl.col("from_ts_ms") <= high)
        .with_columns(run=(gap > (high - low) / width).fill_null(value=True).cum_sum())
        .group_by("run", maintain_order=True)
        .agg(pl.first("from_ts_ms").clip(low), pl.last("to_ts_ms").clip(None, high))
        .drop("run")
    )


WIDTH = 800  # pixels across a picture


class MarkOutcome(StrEnum):
    """The outcome of a decision, as far as it is known."""

    BEAT = "beat the close"
    BEHIND = "behind the close"
    UNMOVED = "unmoved"
    PENDING = "pending"
    INVALID = "invalid"
    OPEN = "not closed yet"


# Points of the drawn lines, by side and time; ``prob_bps`` is `None` while the market is suspended.
LINES: Schema = {"side": pl.String, "ts_ms": pl.Int64, "prob_bps": pl.Int32}

# Drawn decisions: the first of each pixel, side and outcome, and their number ``n``. ``prob_bps`` is the entry probability,
# or 0 if the decision found no price.
MARKS: Schema = {
    "seq": pl.Int64,
    "agent_id": pl.String,
    "tick_seq": pl.Int64,
    "ts_ms": pl.Int64,
    "side": pl.String,
    "prob_bps": pl.Int64,
    "clv_bps": pl.Int64,
    "reason": pl.String,
    "outcome": pl.String,
    "n": pl.Int64,
}


@dataclass(frozen=True, slots=True)
class Close:
    """The close of a market, and its closing probabilities, if it is not suspended."""

    ts_ms: int
    kind: str
    prob_bps: dict[str, int | None]


@dataclass(frozen=True)
class MarketView:
    """A market at one moment of its replay.

    Attributes
    ----------
    fixture_id, market_key, sides, teams
        The market, and the names of its fixture's teams, if known.
    lines, marks
        ``LINES`` and ``MARKS``.
    suspensions
        (from_ts_ms, to_ts_ms), at least a pixel apart.
    span_ms, whole_ms
        First and last time of the picture, and of the market.
    now_ms
        The time of the replay; `None` at the end.
    close
        The close; `None` before it, or if there is no close.
    position, messages
        Number of messages replayed, and of all messages.
    decided
        ``MARKS`` of the decisions on the market so far, one row each, without WAITs.
    """

    fixture_id: int
    market_key: str
    sides: tuple[str, ...]
    lines: pl.DataFrame
    marks: pl.DataFrame
    suspensions: pl.DataFrame
    span_ms: tuple[int, int]
    whole_ms: tuple[int, int]
    now_ms: int | None
    close: Close | None
    position: int
    messages: int
    decided: pl.DataFrame
    teams: tuple[str, ...] = ()

    @property
    def market(self) -> str:
        """Name of the market."""
        return market_name(self.market_key)

    def side(self, side: str | None) -> str:
        """Return the name of a side; a side whose name another side has too stays as it is."""
        if side is None:
            return "no side"
        name = side_name(self.market_key, side, self.teams)
        same = [one for one in self.sides if one != side and side_name(self.market_key, one, self.teams) == name]
        return side if same else name


@dataclass(frozen=True)
class ReplayMarket:
    """One market of a fixture, prepared for replay; made by ``market``.

    Attributes
    ----------
    fixture_id, market_key, sides, teams
        The market, and the names of its fixture's teams, if known.
    rows
        (message, side, ts_ms, prob_bps), in order of side and message.
    messages
        (tick_seq, ts_ms, suspended), one row per message.
    marks
        ``MARKS``, one row per decision, without anything hidden.
    close
        The close; `None` if the fixture has no window.
    end_ms
        Time of the fixture's last message; the last state is drawn until then.
    """

    fixture_id: int
    market_key: str
    sides: tuple[str, ...]
    rows: pl.DataFrame
    messages: pl.DataFrame
    marks: pl.DataFrame
    close: Close | None
    end_ms: int
    teams: tuple[str, ...] = ()

    @cached_property
    def span_ms(self) -> tuple[int, int]:
        """From the first message or decision to the last message or the close; at least a second."""
        times = pl.concat([self.messages["ts_ms"], self.marks["ts_ms"], pl.Series([self.end_ms])])
        low, high = times.min(), times.max()
        return _whole(low), max(_whole(high), self.close.ts_ms if self.close else 0, _whole(low) + 1000)

    def view(self, position: int | None = None, span_ms: tuple[int, int] | None = None, width: int = WIDTH) -> MarketView:
        """Return the market after a number of messages, all by default, in the detail of ``width`` pixels."""
        total = self.messages.height
        count = total if position is None else min(max(position, 0), total)
        whole = count == total
        past = self.messages.head(count)
        now_ms = self.end_ms if whole else _whole(past["ts_ms"].max())
        low, high = span_ms or self.span_ms
        known = self.close if self.close and (whole or now_ms >= self.close.ts_ms) else None
        marks = self.marks if whole else self.marks.filter(pl.col("tick_seq") <= (past["tick_seq"].max() if count else -1))
        if known is None:
            marks = marks.with_columns(
                clv_bps=pl.lit(None, pl.Int64), reason=pl.lit(None, pl.String), outcome=pl.lit(MarkOutcome.OPEN.value)
            )
        return MarketView(
            fixture_id=self.fixture_id,
            market_key=self.market_key,
            sides=self.sides,
            lines=self._lines(count, now_ms, (low, high), width),
            marks=pool(marks.filter(pl.col("ts_ms").is_between(low, high)), (low, high), width),
            suspensions=suspensions(past, now_ms, (low, high), width),
            span_ms=(low, high),
            whole_ms=self.span_ms,
            now_ms=None if whole else now_ms,
            close=known,
            position=count,
            messages=total,
            decided=marks,
            teams=self.teams,
        )

    def _lines(self, count: int, now_ms: int, span_ms: tuple[int, int], width: int) -> pl.DataFrame:
        """Thin the messages of the span and its neighbours, and carry the last state to now."""
        times = self.messages["ts_ms"]
        first = max(int(times.search_sorted(span_ms[0], side="left")) - 1, 0)
        after = min(int(times.search_sorted(span_ms[1], side="right")) + 1, count)
        past = self.rows.filter(pl.col("message").is_between(first, after - 1))
        carried = after == count and count > 0 and now_ms > times[count - 1]
        ends = past.filter(pl.col("message") == count - 1, pl.lit(carried)).with_columns(ts_ms=pl.lit(now_ms, pl.Int64))
        return _hold(pl.concat([thin(past, span_ms, width), ends]).sort("side", "ts_ms", maintain_order=True)).select(*LINES)


def _hold(points: pl.DataFrame) -> pl.DataFrame:
    """Hold each price until the message that suspends it; its line ends there."""
    before = pl.col("prob_bps").shift(1).over("side")
    held = points.with_columns(held=before).filter(pl.col("prob_bps").is_null(), pl.col("held").is_not_null())
    ends = held.with_columns(prob_bps="held").drop("held")
    return pl.concat([ends, points]).sort("side", "ts_ms", maintain_order=True)


def market(tape: Tape, window: Window, market_key: str, decisions: pl.DataFrame, teams: tuple[str, ...] = ()) -> ReplayMarket:
    """Prepare one market."""
    fixture_id = tape.binding.fixture_ids[0]
    series = tape.series.filter(pl.col("market_key") == market_key)
    parts = [
        tape.rows.slice(start, rows).select(
            pl.int_range(pl.len()).alias("message"), pl.lit(side).alias("side"), "tick_seq", "ts_ms", "prob_bps", "suspended"
        )
        for side, start, rows in series.select("side", "start", "rows").iter_rows()
    ]
    rows = pl.concat(parts) if parts else _no_rows()
    own = decisions.filter(pl.col("action") == Action.BACK, pl.col("market_key").eq_missing(market_key))
    return ReplayMarket(
        fixture_id,
        market_key,
        tuple(series["side"]),
        rows.select("message", "side", "ts_ms", pl.when(~pl.col("suspended")).then("prob_bps").alias("prob_bps")),
        (parts[0] if parts else rows).select("tick_seq", "ts_ms", "suspended"),
        own.with_columns(prob_bps=pl.col("entry_prob_bps").fill_null(0), outcome=_outcome(), n=pl.lit(1, pl.Int64)).select(
            pl.col(name).cast(dtype) for name, dtype in MARKS.items()
        ),
        _close(tape, window, market_key, series["side"]),
        _whole(tape.rows["ts_ms"].max()),
        teams,
    )


def _whole(value: Any) -> int:
    """Return a value of Polars as int; 0 for an empty column."""
    return 0 if value is None else int(value)


def _no_rows() -> pl.DataFrame:
    names = {"message": pl.Int64, "side": pl.String, "tick_seq": pl.Int32, "ts_ms": pl.Int64, "prob_bps": pl.Int32}
    return pl.DataFrame(schema=names | {"suspended": pl.Boolean})


def _outcome() -> pl.Expr:
    scored = pl.col("reason") == Reason.SCORED
    return (
        pl.when(~pl.col("valid"))
        .then(pl.lit(MarkOutcome.INVALID.value))
        .when(~scored)
        .then(pl.lit(MarkOutcome.PENDING.value))
        .when(pl.col("clv_bps") > 0)
        .then(pl.lit(MarkOutcome.BEAT.value))
        .when(pl.col("clv_bps") < 0)
        .then(pl.lit(MarkOutcome.BEHIND.value))
        .otherwise(pl.lit(MarkOutcome.UNMOVED.value))
    )


def _close(tape: Tape, window: Window, market_key: str, sides: pl.Series) -> Close | None:
    ends = fixture_closes(tape, window)
    if ends.is_empty():
        return None
    wanted = pl.DataFrame({"fixture_id": ends["fixture_id"], "market_key": [market_key]})
    tape = tape.at_source(window.close_source)
    found = market_closes(tape, wanted, ends).row(0, named=True)
    probs: dict[str, int | None] = dict.fromkeys(sides)
    if found["close_row"] is not None:
        own = tape.series.filter(pl.col("market_key") == market_key)
        at = tape.rows[(own["start"] + (found["close_row"] - found["market_start"])).to_list()]
        if not at["suspended"][0]:
            probs = dict(zip(own["side"], at["prob_bps"], strict=True))
    return Close(found["close_ts_ms"], found["close_kind"], probs)
