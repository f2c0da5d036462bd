import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clvlab.errors import SourceError
from clvlab.odds.consensus import Consensus
from clvlab.sources.books import QUOTES, batches, book_ticks
from clvlab.sources.source import ImportStats, Options, fixture_ids_of
from tests.length import length

MESSAGE = st.tuples(
    st.integers(0, 60),
    st.sampled_from("abc"),
    st.sampled_from(["x||", "y||"]),
    st.lists(st.one_of(st.none(), st.floats(1.5, 4.0)), min_size=2, max_size=2),
)


def quotes(messages):
    """``QUOTES`` of (minute, book, market, odds of home and away), every market starting with a whole message."""
    latest = {(minute, book, market): odds for minute, book, market, odds in messages}
    opening = {(0, "start", market): [2.0, 2.0] for market in ("x||", "y||")}
    rows = [
        ("e", market, side, book, minute * 60_000, minute * 60_000, False, price, "f", 1)
        for (minute, book, market), odds in (opening | latest).items()
        for side, price in zip(("away", "home"), odds, strict=True)
    ]
    return pl.DataFrame(rows, schema=QUOTES, orient="row")


def ticks(rows):
    return book_ticks(rows, fixture_ids_of(["e"]), Options(), Consensus(min_books=2, max_age_s=600), ImportStats()).ticks


@settings(max_examples=length(20, 60))
@given(messages=st.lists(MESSAGE, max_size=30), cut=st.integers(0, 60))
def test_ticks_of_what_was_known_at_a_time_are_the_first_ticks_of_all(messages, cut):
    everything = quotes(messages)

    early = ticks(everything.filter(pl.col("ts_ms") <= cut * 60_000))

    assert ticks(everything).filter(pl.col("ts_ms") <= cut * 60_000).equals(early)


def test_an_event_with_more_rows_than_any_has_is_refused():
    with pytest.raises(SourceError, match="no fixture has that many"):
        list(batches({"a": 10**9}, {"a": 1}, 8))


def test_batches_keep_the_order_of_fixture_ids_and_their_size():
    ids = {"a": 3, "b": 1, "c": 2}

    assert list(batches({"a": 5, "b": 4, "c": 4}, ids, 8)) == [["b", "c"], ["a"]]
    assert list(batches({"a": 50}, ids, 8)) == [["a"]]
    assert list(batches({}, ids, 8)) == []


def test_a_message_beyond_the_overround_is_suspended_and_counted():
    rows = quotes([(0, "ash", "x||", (1.9, 1.9)), (0, "birch", "x||", (1.9, 1.9)), (1, "ash", "x||", (1.2, 1.2))])
    rows = rows.filter(market_key="x||")
    found = {}
    for limit in (None, 0.5):
        account = ImportStats()
        rules, options = Consensus(min_books=3, max_age_s=600), Options(max_overround=limit, books=True)
        found[limit] = book_ticks(rows, fixture_ids_of(["e"]), options, rules, account), account.notes

    (whole, _), (bound, notes) = found[None], found[0.5]
    assert whole.ticks["suspended"].to_list() == [False] * 4
    assert bound.ticks["suspended"].to_list() == [False, False, True, True]
    assert bound.books.filter(book="ash", tick_seq=1)["suspended"].to_list() == [True, True]
    assert notes["book messages beyond max_overround, taken as suspended"] == 1
