"""The rules of ticks, checked when a pack is written and when it is verified."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import polars as pl

from clvlab.errors import PackFormatError
from clvlab.law.schema import ODDS_MILLI
from clvlab.law.tape import Tape

MAX_NAME_BYTES = 200
_CONTROL = r"[\x00-\x1f\x7f]"
MAX_TS_MS = 2**53 // 1000 * 1000
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
    refuse(tape.series, _name_rules())
    names = tape.series.with_row_index("series").select("series", "fixture_id", "market_key", "side")
    refuse(tape.rows, _row_rules(), names)

    # All sides of a market have a row in each of its messages, at the same offset.
    length, start, market_start = (tape.series[name].to_numpy() for name in ("rows", "start", "market_start"))
    first = np.arange(tape.rows.height) - np.repeat(start - market_start, length)
    shared = {name: tape.rows[name].to_numpy() for name in ("tick_seq", "ts_ms", "in_running", "suspended")}
    differs = {name: values != values[first] for name, values in shared.items()}
    if any(found.any() for found in differs.values()):
        rules = {f"the sides of a message must agree on {name}": pl.col(f"not_same_{name}") for name in differs}
        refuse(tape.rows.with_columns(**{f"not_same_{name}": found for name, found in differs.items()}), rules, names)
    refuse(_messages(tape, first), _message_rules(), names.drop("side"))


def _name_rules() -> dict[str, pl.Expr]:
    name = pl.col("market_key", "side")
    size = pl.col("rows")
    return {
        "market_key and side must not be null": pl.any_horizontal(name.is_null()),
        f"market_key and side must have 1 to {MAX_NAME_BYTES} bytes and no control character": pl.any_horizontal(
            name_is_wrong("market_key", "side")
        ),
        "a market must have at least two sides": pl.col("n_sides") < 2,
        "every message of a market must write one row per side": size
        != size.gather(pl.int_range(pl.len()) - pl.col("side_no")),
    }


def _row_rules() -> dict[str, pl.Expr]:
    later = pl.col("series") == pl.col("series").shift(1)
    return {
        "tick_seq must not be negative": pl.col("tick_seq") < 0,
        "two rows of a side must not share a tick": later & (pl.col("tick_seq") <= pl.col("tick_seq").shift(1)),
        "prob_bps must be 0 to 10000": ~pl.col("prob_bps").is_between(0, 10_000),
        "odds_milli must be 1001 to 100000000": ~pl.col("odds_milli").is_between(*ODDS_MILLI),
        "ts_ms must be a time in milliseconds": ~pl.col("ts_ms").is_between(0, MAX_TS_MS),
        "tick_seq, ts_ms, in_running and suspended must not be null": pl.any_horizontal(
            pl.col("tick_seq", "ts_ms", "in_running", "suspended").is_null()
        ),
        "a suspended message must not carry a probability": pl.col("suspended") & pl.col("prob_bps").is_not_null(),
    }


def _messages(tape: Tape, first: npt.NDArray[np.int64]) -> pl.DataFrame:
    """Return one row per message, in order of (fixture_id, tick_seq), with its market's sum and number of priced sides.

    ``first`` is the row of the first side of each row's message.
    """
    series = tape.series.with_row_index("series").with_columns(fixture=pl.col("fixture_id").rle_id())
    markets = series.filter(pl.col("side_no") == 0)
    number, fixture, n_sides = (
        np.repeat(markets[name].to_numpy(), markets["rows"].to_numpy()) for name in ("series", "fixture", "n_sides")
    )
    is_first = np.repeat((series["side_no"] == 0).to_numpy(), series["rows"].to_numpy())
    prob = tape.rows["prob_bps"]
    lacking, total = (
        np.bincount(rows, weights, minlength=len(first))[is_first].astype(np.int64)
        for rows, weights in ((first[prob.is_null().to_numpy()], None), (first, prob.fill_null(0).to_numpy()))
    )
    rows = tape.rows.select("tick_seq", "ts_ms", "suspended").filter(is_first)
    order = _order(fixture, rows["tick_seq"].to_numpy())
    return rows.with_columns(series=number, fixture=fixture, priced=n_sides - lacking, lacking=lacking, total=total)[order]


def _order(fixture: npt.NDArray[np.uint32], tick_seq: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Return the order of messages by fixture and tick; ticks that count 0, 1, 2, ... have their places without a sort."""
    count = np.bincount(fixture, minlength=1)
    order = np.full(len(fixture), -1)
    if ((tick_seq >= 0) & (tick_seq < count[fixture])).all():
        order[(np.cumsum(count) - count)[fixture] + tick_seq] = np.arange(len(fixture))
    return order if (order >= 0).all() else np.lexsort((tick_seq, fixture))


def _message_rules() -> dict[str, pl.Expr]:
    same_fixture = pl.col("fixture") == pl.col("fixture").shift(1)
    expected_seq = pl.when(same_fixture).then(pl.col("tick_seq").shift(1) + 1).otherwise(0)
    full = pl.col("lacking") == 0
    return {
        "a tick must have one market, and ticks of a fixture must count 0, 1, 2, ...": pl.col("tick_seq")
        != expected_seq.fill_null(0),
        "time must not go backwards": same_fixture & (pl.col("ts_ms") < pl.col("ts_ms").shift(1)),
        f"the sides of a priced market must sum to 10000 +- {SUM_TOLERANCE_BPS}": full
        & ((pl.col("total") - 10_000).abs() > SUM_TOLERANCE_BPS),
        "a message without any price must be marked suspended": (pl.col("priced") == 0) & ~pl.col("suspended"),
    }


def refuse(frame: pl.DataFrame, rules: dict[str, pl.Expr], names: pl.DataFrame | None = None) -> None:
    """Raise ``PackFormatError`` for the first rule that a row breaks, with that row; ``names`` adds columns by ``series``."""
    broken = frame.select(rule.any().alias(text) for text, rule in rules.items())
    for text, rule in rules.items():
        if broken[text].item():
            bad = frame.filter(rule)
            first = bad.head(1) if names is None else bad.head(1).join(names, on="series")
            columns = (
                "fixture_id", "market_key", "side", "book", "level", "tick_seq", "ts_ms", "prob_bps", "odds_milli",
                "stake_cents", "total",
            )  # fmt: skip
            row = first.select(column for column in columns if column in first.columns).row(0, named=True)
            raise PackFormatError(f"{text}: {bad.height} row(s), the first is {row}")
