"""The rules of ticks, checked when a pack is written and when it is verified."""

from __future__ import annotations

import re

import polars as pl

from clvlab.errors import PackFormatError
from clvlab.law.schema import ODDS_MILLI
from clvlab.law.tape import Tape

MAX_NAME_BYTES = 200
_CONTROL = r"[\x00-\x1f\x7f]"
_MAX_TS_MS = 2**53 // 1000
SUM_TOLERANCE_BPS = 50


def is_name(text: str) -> bool:
    return 1 <= len(text.encode(errors="replace")) <= MAX_NAME_BYTES and not re.search(_CONTROL, text)


def name_is_wrong(*columns: str) -> pl.Expr:
    name = pl.col(*columns)
    return ~name.str.len_bytes().is_between(1, MAX_NAME_BYTES) | name.str.contains(_CONTROL)


def check_order(tape: Tape, pack_id: str) -> None:
    names = tape.series.select("fixture_id", "market_key", "side")
    if not names.equals(names.sort(names.columns)) or names.is_duplicated().any():
        raise PackFormatError(f"the series of {pack_id!r} are not sorted by fixture, market and side")
    if not tape.key.equals(tape.key.sort()):
        raise PackFormatError(f"the ticks of {pack_id!r} are not sorted by series and tick")


def check(tape: Tape) -> None:
    """Refuse ticks that break a rule of the pack format; the error names the first broken rule and a row."""
    named = tape.series.with_row_index("series").select(
        "series", "fixture_id", "market_key", "side", "start", "market_start", "side_no", "n_sides", series_rows="rows"
    )
    refuse(named, _name_rules())
    rows = tape.rows.with_row_index("row").join(named, on="series", maintain_order="left")
    refuse(rows, _row_rules())

    # All sides of a market have a row in each of its messages, at the same offset.
    first = rows["market_start"] + rows["row"] - rows["start"]
    same = {column: rows[column] == rows[column].gather(first) for column in ("tick_seq", "ts_ms", "in_running", "suspended")}
    refuse(
        rows.with_columns(pl.Series(f"same_{column}", equal) for column, equal in same.items()),
        {f"the sides of a message must agree on {column}": ~pl.col(f"same_{column}") for column in same},
    )
    refuse(_messages(rows), _message_rules())


def _name_rules() -> dict[str, pl.Expr]:
    name = pl.col("market_key", "side")
    size = pl.col("series_rows")
    return {
        "market_key and side must not be null": pl.any_horizontal(name.is_null()),
        f"market_key and side must have 1 to {MAX_NAME_BYTES} bytes and no control character": pl.any_horizontal(
            name_is_wrong("market_key", "side")
        ),
        "a market must have at least two sides": pl.col("n_sides") < 2,
        "every message of a market must write one row per side": size != size.first().over("fixture_id", "market_key"),
    }


def _row_rules() -> dict[str, pl.Expr]:
    later = pl.col("series") == pl.col("series").shift(1)
    return {
        "tick_seq must not be negative": pl.col("tick_seq") < 0,
        "two rows of a side must not share a tick": later & (pl.col("tick_seq") <= pl.col("tick_seq").shift(1)),
        "prob_bps must be 0 to 10000": ~pl.col("prob_bps").is_between(0, 10_000),
        "odds_milli must be 1001 to 100000000": ~pl.col("odds_milli").is_between(*ODDS_MILLI),
        "ts_ms must be a time in milliseconds": ~pl.col("ts_ms").is_between(0, _MAX_TS_MS * 1000),
        "tick_seq, ts_ms, in_running and suspended must not be null": pl.any_horizontal(
            pl.col("tick_seq", "ts_ms", "in_running", "suspended").is_null()
        ),
        "a suspended message must not carry a probability": pl.col("suspended") & pl.col("prob_bps").is_not_null(),
    }


def _messages(rows: pl.DataFrame) -> pl.DataFrame:
    """Return one row per message, in order of (fixture_id, tick_seq), with its market's sum and number of priced sides."""
    # Rows of one message are adjacent once sorted by market and position.
    position = pl.col("row") - pl.col("start")
    return (
        rows.lazy()
        .select(
            "fixture_id", "market_start", "market_key", "n_sides", "tick_seq", "ts_ms", "suspended", "prob_bps", at=position
        )
        .group_by("market_start", "at")
        .agg(
            pl.first("fixture_id", "market_key", "n_sides", "tick_seq", "ts_ms", "suspended"),
            priced=pl.col("prob_bps").count(),
            total=pl.col("prob_bps").cast(pl.Int64).sum(),
        )
        .sort("fixture_id", "tick_seq", "market_key")
        .collect(engine="in-memory")
    )


def _message_rules() -> dict[str, pl.Expr]:
    same_fixture = pl.col("fixture_id") == pl.col("fixture_id").shift(1)
    expected_seq = pl.when(same_fixture).then(pl.col("tick_seq").shift(1) + 1).otherwise(0)
    full = pl.col("priced") == pl.col("n_sides")
    return {
        "a tick must have one market, and ticks of a fixture must count 0, 1, 2, ...": pl.col("tick_seq")
        != expected_seq.fill_null(0),
        "time must not go backwards": same_fixture & (pl.col("ts_ms") < pl.col("ts_ms").shift(1)),
        f"the sides of a priced market must sum to 10000 +- {SUM_TOLERANCE_BPS}": full
        & ((pl.col("total") - 10_000).abs() > SUM_TOLERANCE_BPS),
        "a message without any price must be marked suspended": (pl.col("priced") == 0) & ~pl.col("suspended"),
    }


def refuse(frame: pl.DataFrame, rules: dict[str, pl.Expr]) -> None:
    """Raise ``PackFormatError`` for the first rule that a row breaks, with that row."""
    broken = frame.select(rule.any().alias(text) for text, rule in rules.items())
    for text, rule in rules.items():
        if broken[text].item():
            bad = frame.filter(rule)
            columns = ("fixture_id", "market_key", "side", "book", "tick_seq", "ts_ms", "prob_bps", "odds_milli", "total")
            row = bad.select(column for column in columns if column in bad.columns).row(0, named=True)
            raise PackFormatError(f"{text}: {bad.height} row(s), the first is {row}")
