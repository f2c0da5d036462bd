"""The layer of books: the prices of each book, in a pack that keeps them next to the consensus."""

from __future__ import annotations

from functools import partial

import polars as pl

from clvlab.errors import PackFormatError
from clvlab.law.schema import BOOKS, ODDS_MILLI, conform
from clvlab.law.tape import Tape
from clvlab.packs.files import NO_PRICE, layer_digests
from clvlab.packs.invariants import SUM_TOLERANCE_BPS, name_is_wrong, refuse

STREAM = ("fixture_id", "market_key", "side", "book")
_MESSAGE = ("fixture_id", "market_key", "book", "tick_seq")
_TIMES = ("fixture_id", "tick_seq", "ts_ms")


def sorted_books(books: pl.DataFrame) -> pl.DataFrame:
    return conform(books, BOOKS, "BOOKS").sort(*STREAM, "tick_seq")


def at_their_times(rows: pl.LazyFrame, tape: Tape) -> pl.LazyFrame:
    """Return ``BOOK_ROWS`` as ``BOOKS``, each row with the time of its tick; lazy."""
    times = pl.defer(partial(_times, tape), schema={name: BOOKS[name] for name in _TIMES})
    return rows.join(times, on=_TIMES[:2], how="left", maintain_order="left").select(*BOOKS)


def _times(tape: Tape) -> pl.DataFrame:
    return tape.messages.select(_TIMES)


def check_books(books: pl.DataFrame, tape: Tape) -> None:
    """Refuse sorted ``BOOKS`` that break a rule of the pack format or contradict the ticks of the same fixtures."""
    key = books.select(*STREAM, "tick_seq")
    if not key.equals(key.sort(pl.all())):
        raise PackFormatError("books are not sorted by fixture, market, side, book and tick")
    times = tape.messages.select("fixture_id", "tick_seq", tick_ts_ms="ts_ms")
    sides = tape.series.select("fixture_id", "market_key", "side", "n_sides")
    rows = (
        books.lazy()
        .join(times.lazy(), on=["fixture_id", "tick_seq"], how="left", maintain_order="left")
        .join(sides.lazy(), on=["fixture_id", "market_key", "side"], how="left", maintain_order="left")
        .collect(engine="in-memory")
    )
    refuse(rows, _row_rules())
    messages = rows.group_by(_MESSAGE, maintain_order=True).agg(
        pl.first("n_sides", "suspended"),
        sides=pl.len(),
        suspensions=pl.col("suspended").n_unique(),
        priced=pl.col("prob_bps").count(),
        total=pl.col("prob_bps").cast(pl.Int64).sum(),
    )
    refuse(messages, _message_rules())


def _row_rules() -> dict[str, pl.Expr]:
    again = pl.all_horizontal(pl.col(*STREAM, "tick_seq") == pl.col(*STREAM, "tick_seq").shift(1))
    return {
        "a row of a book must not have a null but in its prices": pl.any_horizontal(
            pl.col(*STREAM, "tick_seq", "suspended").is_null()
        ),
        "a book must have a name of 1 to 200 bytes and no control character": name_is_wrong("book"),
        "a book must speak of markets and sides that have ticks": pl.col("n_sides").is_null(),
        "a book must speak at a tick of its fixture, at that tick's time": pl.col("tick_ts_ms").is_null()
        | pl.col("tick_ts_ms").ne_missing(pl.col("ts_ms")),
        "a book must speak once of a side at a tick": again,
        "prob_bps of a book must be 0 to 10000": ~pl.col("prob_bps").is_between(0, 10_000),
        "odds_milli of a book must be 1001 to 100000000": ~pl.col("odds_milli").is_between(*ODDS_MILLI),
        "a suspended message of a book must not carry a probability": pl.col("suspended") & pl.col("prob_bps").is_not_null(),
    }


def _message_rules() -> dict[str, pl.Expr]:
    full = pl.col("priced") == pl.col("n_sides")
    return {
        "a message of a book must have all sides of its market": pl.col("sides") != pl.col("n_sides"),
        "the sides of a book's message must agree on suspended": pl.col("suspensions") != 1,
        f"the sides that a book prices must sum to 10000 +- {SUM_TOLERANCE_BPS}": full
        & ((pl.col("total") - 10_000).abs() > SUM_TOLERANCE_BPS),
        "a message of a book without any price must be marked suspended": (pl.col("priced") == 0) & ~pl.col("suspended"),
    }


def book_digests(books: pl.DataFrame) -> dict[int, str]:
    """Return fixture_id -> ``sha256:<hex>`` of its sorted ``BOOK_ROWS``, laid out as in ``docs/reference/pack-format.md``.

    ``BOOKS`` has the same digests. Fixtures without books are left out.
    """
    price = pl.col("prob_bps", "odds_milli").fill_null(NO_PRICE)
    return layer_digests(books, STREAM, [pl.col("tick_seq"), price, pl.col("suspended").cast(pl.UInt8)])
