"""As ``test_fuzz``, for sources of which there are only samples, and for telling any of them."""

import random
import tempfile
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clvlab.errors import SourceError
from clvlab.packs.importers.recognition import recognised
from clvlab.packs.imports import import_options
from tests.length import length
from tests.packs.importers.test_fuzz import COLUMNS, becomes_a_pack_or_an_error, damaged
from tests.samples import oddsharvester, oddsportal, pmxt

ASSETS = {
    "fixtures": [
        {"id": "a", "names": ["A", "B"], "kickoff": "2026-03-01T15:00:00Z", "markets": {"X||": {"yes": "7"}}},
    ]
}
CANDLES = {"ticker": "7", "candlesticks": [
    {"end_period_ts": 1_772_370_000 + 60 * n, "yes_bid": {"close": "0.4000"}, "yes_ask": {"close": 42}} for n in range(3)
]}  # fmt: skip
TRADE = {"trade_id": "t", "ticker": "7", "created_time": "2026-03-01T14:00:00Z", "yes_price": 44, "taker_side": "yes"}
DOCUMENTS = {
    "kalshi": [CANDLES, {"trades": [TRADE]}, {"markets": [{"ticker": "7", "title": "A vs B", "result": "no"}]},
               {"7": {"_yes": [[40, 1]], "_no": [[58, 1]]}}],
    "oddsharvester": oddsharvester.rows()[:1],
}  # fmt: skip
TABLES = {
    "oddsharvester": oddsharvester.as_csv(oddsharvester.rows(histories=False)[:1]),
    "oddsportal": oddsportal.text(),
    "trades": "trade_id,ticker,created_time,yes_price,taker_side\nt,7,2026-03-01T14:00:00Z,44,yes\nu,7,1772373600,0.44,no\n",
}
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
BOOKS = pl.DataFrame(
    [pmxt.book(NOON, "7", 40, 42), *(pmxt.change(NOON + timedelta(seconds=n), "7", 40 + n, n % 2, "BUY") for n in (0, 1, 2))],
    schema=pmxt.SCHEMA,
    orient="row",
).to_arrow()
ROWS = pa.table(
    {"ticker": ["7"] * 4, "created_time": [NOON] * 4, "yes_price": [44, 45, 1, 99], "taker_side": ["yes", "no"] * 2}
)


def options(dice, source):
    mapping = ASSETS if source in ("kalshi", "pmxt", "trades") else None
    return import_options(lenient=dice.random() < 0.8, mapping=mapping, time_zone=dice.choice([None, "UTC"]))


def tried(source, path, content, dice):
    path.write_bytes(content)
    with suppress(SourceError):
        recognised([path])
    becomes_a_pack_or_an_error(source, path, path.parent, options(dice, source))


@pytest.mark.parametrize("source", DOCUMENTS)
@settings(max_examples=length(15, 400))
@given(seed=st.integers(0, 2**32))
def test_a_damaged_document_becomes_a_pack_or_an_error_of_ours(source, seed):
    dice = random.Random(seed)
    documents = damaged(DOCUMENTS[source], dice)
    some = documents if isinstance(documents, list) else [documents]
    content = orjson.dumps(some) if dice.random() < 0.5 else b"\n".join(orjson.dumps(one) for one in some)
    with tempfile.TemporaryDirectory() as folder:
        tried(source, Path(folder) / "x_2026-03-01T140000Z.json", content, dice)


@pytest.mark.parametrize("source", TABLES)
@settings(max_examples=length(15, 400))
@given(seed=st.integers(0, 2**32))
def test_a_damaged_table_becomes_a_pack_or_an_error_of_ours(source, seed):
    dice = random.Random(seed)
    content = bytearray(TABLES[source].encode())
    for _ in range(dice.randint(1, 6)):
        at = dice.randrange(len(content))
        content[at : at + dice.randint(0, 3)] = dice.choice([b"", b",", b"\n", b'"', b"\xff", b"\x00", b"-", b"9", b"e9", b"["])
    with tempfile.TemporaryDirectory() as folder:
        tried(source, Path(folder) / "x.csv", bytes(content), dice)


@pytest.mark.parametrize("source", ["pmxt", "trades"])
@settings(max_examples=length(15, 400))
@given(seed=st.integers(0, 2**32))
def test_parquet_of_any_column_types_becomes_a_pack_or_an_error_of_ours(source, seed):
    dice = random.Random(seed)
    table = BOOKS if source == "pmxt" else ROWS
    columns = dict(zip(table.column_names, table.columns, strict=True))
    for name in dice.sample(sorted(columns), dice.randint(0, 2)):
        columns[name] = dice.choice(COLUMNS)
    if dice.random() < 0.1:
        del columns[dice.choice(sorted(columns))]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    content = bytearray(sink.getvalue().to_pybytes())
    if dice.random() < 0.2:
        content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    with tempfile.TemporaryDirectory() as folder:
        tried(source, Path(folder) / "polymarket_orderbook_2026-03-01T12.parquet", bytes(content), dice)
