"""Whatever a source holds, an import gives a pack or one of our errors, and leaves nothing half written."""

import copy
import math
import random
import tempfile
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock_time
from decimal import Decimal
from pathlib import Path

import numpy as np
import orjson
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clvlab.errors import ClvlabError, SourceError
from clvlab.packs.verification import verify_pack
from clvlab.sources.importer import import_source
from clvlab.sources.recognition import recognition_of
from clvlab.sources.source import Options
from tests.length import length
from tests.samples import oddsharvester, oddsportal, pmxt

DEFINITION = {
    "status": "OPEN", "inPlay": False, "marketTime": "2022-04-15T06:00:00.000Z", "eventId": "9", "eventTypeId": "2",
    "marketType": "MATCH_ODDS", "numberOfWinners": 1, "bettingType": "ODDS", "eventName": "Ash v Elm",
    "runners": [{"id": 1, "status": "ACTIVE", "name": "Ash", "hc": 0}, {"id": 2, "status": "ACTIVE", "name": "Elm"}],
}  # fmt: skip
FULL = {"id": 1, "atb": [[1.9, 10]], "atl": [[2.1, 10]], "ltp": 2.0}
BEST = {"id": 2, "batb": [[0, 1.9, 10]], "batl": [[0, 2.1, 9]]}
OPENING = {"id": "1.1", "img": True, "marketDefinition": DEFINITION, "rc": [FULL, BEST]}
STREAM = [
    {"op": "mcm", "clk": None, "pt": 1_650_000_000_000, "mc": [OPENING]},
    {"op": "mcm", "clk": "x", "pt": 1_650_000_001_000, "mc": [{"id": "1.1", "rc": [{"id": 1, "atb": [[1.9, 0], [1.8, 3]]}]}]},
]
SNAPSHOT = {"timestamp": "2026-07-04T12:00:00Z", "data": [{
    "id": "e", "sport_key": "s", "commence_time": "2026-07-04T17:00:00Z", "home_team": "Ash", "away_team": "Elm",
    "bookmakers": [{"key": "a", "title": "A", "last_update": "2026-07-04T11:59:00Z", "markets": [
        {"key": "spreads", "last_update": "2026-07-04T11:59:00Z", "outcomes": [
            {"name": "Ash", "price": 1.9, "point": -1.5}, {"name": "Elm", "price": 1.9, "point": 1.5}]}]}],
}]}  # fmt: skip
MESSAGE = {
    "FixtureId": 7, "MessageId": "a", "Ts": 1_700_000_000_000, "Bookmaker": "TXLineStablePriceDemargined", "InRunning": False,
    "SuperOddsType": "OU", "MarketParameters": "line=1.5", "MarketPeriod": None, "PriceNames": ["over", "under"],
    "Prices": [2833, 1545], "Pct": ["35.298", "64.725"],
}  # fmt: skip
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
    "betfair": ("1.1", STREAM),
    "kalshi": ("x_2026-03-01T140000Z.json", [
        CANDLES, {"trades": [TRADE]}, {"markets": [{"ticker": "7", "title": "A vs B", "result": "no"}]},
        {"7": {"_yes": [[40, 1]], "_no": [[58, 1]]}},
    ]),
    "oddsharvester": ("x.json", oddsharvester.rows()[:1]),
    "the-odds-api": ("x.json", [SNAPSHOT]),
    "txline": ("odds_7.jsonl", [MESSAGE, MESSAGE | {"MessageId": "b", "Ts": 1_700_000_001_000}]),
}  # fmt: skip
TABLES = {
    "csv": "fixture,time,side,odds,kickoff,result\nm,2026-01-02T12:00:00Z,a,2.0,2026-01-02T13:00:00Z,won\n"
    "m,2026-01-02T12:00:00Z,b,2.0,2026-01-02T13:00:00Z,lost\n",
    "football-data": "Div,Date,Time,HomeTeam,AwayTeam,FTHG,FTAG,FTR,PSCH,PSCD,PSCA,AHCh,PCAHH,PCAHA\n"
    "E0,13/08/2021,20:00,Ash,Elm,2,1,H,2.0,3.5,4.0,-0.5,1.9,1.9\n",
    "oddsharvester": oddsharvester.as_csv(oddsharvester.rows(histories=False)[:1]),
    "oddsportal": oddsportal.text(),
    "trades": "trade_id,ticker,created_time,yes_price,taker_side\nt,7,2026-03-01T14:00:00Z,44,yes\nu,7,1772373600,0.44,no\n",
}
VALUES = [
    None,
    True,
    -1,
    0,
    1e308,
    2**60,
    "",
    "x",
    "\x00",
    "NaN",
    [],
    [1],
    [[1, 2]],
    {},
    {"id": 1},
    0.5,
    "2026-01-01",
    "Infinity",
]


def places(value, path=()):
    """Every place in a document, its own included."""
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


def damaged(documents, dice):
    """A copy with one to three places replaced or taken away."""
    found = copy.deepcopy(documents)
    for _ in range(dice.randint(1, 3)):
        *path, last = dice.choice([place for place in places(found) if place])
        parent = found
        for key in path:
            parent = parent[key]
        if isinstance(parent, dict) and dice.random() < 0.3:
            del parent[last]
        else:
            parent[last] = copy.deepcopy(dice.choice(VALUES))
    return found


def becomes_a_pack_or_an_error(source, path, folder, **options):
    before = {entry.name for entry in folder.iterdir()}
    with suppress(SourceError):
        recognition_of([path])
    try:
        import_source(source, [path], folder / "p", Options(**options))
    except ClvlabError:
        assert {entry.name for entry in folder.iterdir()} == before
    else:
        verify_pack(folder / "p")


def check(source, name, content, dice):
    mapping = ASSETS if source in ("kalshi", "pmxt", "trades") else None
    options = {"lenient": dice.random() < 0.8, "mapping": mapping, "time_zone": dice.choice([None, "UTC"]), "min_books": 1}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        becomes_a_pack_or_an_error(source, path, Path(folder), **options)


@pytest.mark.parametrize("source", DOCUMENTS)
@settings(max_examples=length(20, 400))
@given(seed=st.integers(0, 2**32))
def test_a_damaged_document_becomes_a_pack_or_an_error_of_ours(source, seed):
    dice = random.Random(seed)
    name, documents = DOCUMENTS[source]
    found = damaged(documents, dice)
    some = found if isinstance(found, list) else [found]
    is_list = source in ("kalshi", "oddsharvester") and dice.random() < 0.5
    check(source, name, orjson.dumps(some) if is_list else b"\n".join(orjson.dumps(one) for one in some), dice)


@pytest.mark.parametrize("source", TABLES)
@settings(max_examples=length(20, 400))
@given(seed=st.integers(0, 2**32))
def test_a_damaged_table_becomes_a_pack_or_an_error_of_ours(source, seed):
    dice = random.Random(seed)
    content = bytearray(TABLES[source].encode())
    for _ in range(dice.randint(1, 6)):
        at = dice.randrange(len(content))
        content[at : at + dice.randint(0, 3)] = dice.choice(
            [b"", b",", b"\n", b'"', b"\xff", b"\x00", b"-", b"9", b"e9", b"nan", b"["]
        )
    check(source, "x.csv", bytes(content), dice)


POLYMARKET = [
    [{"fixture_id": 7, "event_slug": "a-b", "home_team": "A", "away_team": "B", "kickoff_ts": 1_700_001_000}],
    *(
        [
            {"ts": 1_700_000_000 + at, "fixture_id": 7, "market_ref": f"1X2|{side}|full", "native_price": price}
            for at, price in ((0, 0.33), (600, 0.35))
        ]
        for side in ("home", "draw", "away")
    ),
]


@settings(max_examples=length(20, 60))
@given(seed=st.integers(0, 2**32))
def test_a_damaged_price_history_becomes_a_pack_or_an_error_of_ours(seed):
    dice = random.Random(seed)
    fixtures, *sides = damaged(POLYMARKET, dice)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        (source / "7").mkdir(parents=True)
        (source / "fixtures.json").write_bytes(orjson.dumps(fixtures))
        for name, quotes in zip(("home", "draw", "away"), sides, strict=False):
            lines = quotes if isinstance(quotes, list) else [quotes]
            (source / "7" / f"{name}.jsonl").write_bytes(b"\n".join(orjson.dumps(line) for line in lines))
        becomes_a_pack_or_an_error("polymarket", source, Path(folder), lenient=dice.random() < 0.8)


NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
NAIVE = [datetime(2026, 1, 2, 12)] * 4  # noqa: DTZ001 - that is the point
CLOCK = [NOON, NOON, NOON + timedelta(minutes=5), NOON + timedelta(minutes=5)]
BOOKS = pl.DataFrame(
    [pmxt.book(NOON, "7", 40, 42), *(pmxt.change(NOON + timedelta(seconds=n), "7", 40 + n, n % 2, "BUY") for n in (0, 1, 2))],
    schema=pmxt.SCHEMA,
    orient="row",
).to_arrow()
PARQUET = {
    "parquet": {
        "fixture": ["m"] * 4, "time": CLOCK, "side": ["a", "b"] * 2, "market": ["x||"] * 4, "odds": [2.0, 1.9, 2.1, 1.8],
        "book": ["k"] * 4, "kickoff": [NOON + timedelta(hours=3)] * 4, "in_running": [False] * 4, "home": ["Ash"] * 4,
        "away": ["Elm"] * 4, "result": ["won", "lost"] * 2, "updated": CLOCK,
    },
    "the-odds-api": {
        "event_id": ["e"] * 4, "commence_time": [NOON + timedelta(hours=3)] * 4, "bookmaker": ["a"] * 4,
        "market": ["totals"] * 4, "outcome": ["Over", "Under"] * 2, "point": [2.5] * 4, "market_last_update": CLOCK,
        "snapshot_commit_time": CLOCK, "price_decimal": [2.0, 1.9, 2.1, 1.8],
    },
    "pmxt": dict(zip(BOOKS.column_names, BOOKS.columns, strict=True)),
    "trades": {"ticker": ["7"] * 4, "created_time": [NOON] * 4, "yes_price": [44, 45, 1, 99], "taker_side": ["yes", "no"] * 2},
}  # fmt: skip
COLUMNS = [
    pa.array([None] * 4, pa.null()),
    pa.array(["x", "x", None, "y"]).dictionary_encode(),
    pa.array(["2026-01-02T12:00:00Z", None, "", "2026-01-02 12:00"]),
    pa.array(["0x10", "1_000", "1e400", "\u0663"]),
    pa.array(["\x00", "\xe9" * 300, "a\nb", " "]),
    pa.array([b"\xff\xfe"] * 4),
    pa.array([math.nan, math.inf, -1.0, 0.0]),
    pa.array([1.5] * 4, pa.float32()),
    pa.array(np.array([1.5] * 4, np.float16)),
    pa.array([1e308] * 4),
    pa.array([1_767_355_200] * 4, pa.uint32()),
    pa.array([2**63] * 4, pa.uint64()),
    pa.array([-1] * 4, pa.int8()),
    pa.array([Decimal("2.10")] * 4, pa.decimal128(10, 2)),
    pa.array([Decimal("2.10")] * 4, pa.decimal256(50, 2)),
    pa.array([True, False] * 2),
    pa.array([[1]] * 4),
    pa.array([{"a": 1}] * 4),
    pa.array([date(2026, 1, 2)] * 4),
    pa.array([clock_time(12)] * 4),
    pa.array([timedelta(hours=1)] * 4),
    pa.array(NAIVE, pa.timestamp("s")),
    pa.array(NAIVE, pa.timestamp("us", tz="UTC")),
    pa.array(NAIVE, pa.timestamp("ns", tz="Europe/London")),
    pa.array(NAIVE, pa.timestamp("ms", tz="+02:00")),
    pa.array([2**62, -1, 0, -(2**62)], pa.timestamp("us", tz="UTC")),
]


FIXTURES = b"event_id,commence_time,home_team,away_team\ne,2026-01-02T15:00:00Z,Ash,Elm\n"
NAMES = {"pmxt": "polymarket_orderbook_2026-01-02T12.parquet"}


@pytest.mark.parametrize("source", PARQUET)
@settings(max_examples=length(20, 400))
@given(seed=st.integers(0, 2**32))
def test_parquet_of_any_column_types_becomes_a_pack_or_an_error_of_ours(source, seed):
    dice = random.Random(seed)
    columns = {name: pa.array(values) if isinstance(values, list) else values for name, values in PARQUET[source].items()}
    for name in dice.sample(sorted(columns), dice.randint(0, 2)):
        columns[name] = dice.choice(COLUMNS)
    if dice.random() < 0.1:
        del columns[dice.choice(sorted(columns))]
    options = {"lenient": dice.random() < 0.8, "time_zone": dice.choice([None, "Europe/London"]), "min_books": 1}
    if source in ("pmxt", "trades"):
        options |= {"mapping": ASSETS}
    else:
        options |= {"odds_format": dice.choice([None, None, "american", "fractional", "probability"])}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / NAMES.get(source, "x_ticks.parquet")
        pq.write_table(pa.table(columns), path, row_group_size=dice.choice([1, 3, 100]))
        if dice.random() < 0.2:
            content = bytearray(path.read_bytes())
            content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
            path.write_bytes(content)
        (Path(folder) / "x_fixtures.csv").write_bytes(FIXTURES)
        becomes_a_pack_or_an_error(source, path, Path(folder), chunk_rows=dice.choice([1, 3, 1000]), **options)
