"""Files of every shape with bits flipped or their end cut off: a pack or a clear error, and nothing lost without a word."""

import bz2
import gzip
import io
import lzma
import random
import tempfile
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clvlab.errors import ClvlabError
from clvlab.packs.importers.importing import import_source
from clvlab.packs.imports import import_options
from clvlab.packs.verification import verify_pack
from tests.length import length
from tests.packs.importers import test_betfair_runners as runners
from tests.packs.importers import test_fuzz, test_fuzz_sources
from tests.packs.importers.test_archives import tarred, zipped
from tests.packs.importers.test_recognition import TEXTS


def lines(documents):
    return b"".join(orjson.dumps(one) + b"\n" for one in documents)


def parquet(table):
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


MANY = "fixture,time,side,odds\n" + "".join(f"m{n},{1_767_355_200 + n},{side},2.0\n" for n in range(300) for side in "ab")
FILES = {
    "csv": ("x.csv", TEXTS["csv"].encode()),
    "probabilities": ("x.csv", b"fixture,time,home,draw,away\n" + b"m,1767355200,.5,.3,.2\n" * 3),
    "football-data": ("x.csv", TEXTS["football-data"].encode()),
    "oddsportal": ("x.csv", TEXTS["oddsportal"].encode()),
    "oddsharvester": ("x.json", orjson.dumps(test_fuzz_sources.DOCUMENTS["oddsharvester"])),
    "oddsharvester csv": ("x.csv", test_fuzz_sources.TABLES["oddsharvester"].encode()),
    "betfair": ("1.1", lines(test_fuzz.STREAM)),
    "betfair-csv": ("x.csv", "\n".join([runners.HEADER, *runners.ROWS]).encode()),
    "the-odds-api": ("x.json", orjson.dumps({"previous_timestamp": None} | test_fuzz.SNAPSHOT)),
    "txline": ("odds_7.jsonl", lines(test_fuzz.SOURCES["txline"][1])),
    "kalshi": ("candles_7.json", orjson.dumps({"7": test_fuzz_sources.CANDLES["candlesticks"]})),
    "trades": ("x.csv", test_fuzz_sources.TABLES["trades"].encode()),
    "trades parquet": ("x.parquet", parquet(test_fuzz_sources.ROWS)),
    "parquet": ("x.parquet", parquet(pa.table(test_fuzz.TABLES["parquet"]))),
    "pmxt": ("polymarket_orderbook_2026-03-01T12.parquet", parquet(test_fuzz_sources.BOOKS)),
}
MAPPED = {"kalshi", "trades", "trades parquet", "pmxt"}
PACKED = {
    "x.csv.gz": gzip.compress(MANY.encode()),
    "x.csv.bz2": bz2.compress(MANY.encode()),
    "x.csv.xz": lzma.compress(MANY.encode()),
    "x.zip": zipped({"a.csv": MANY, "b.csv": MANY.replace("\nm", "\nn")}),
    "x.tar.gz": gzip.compress(tarred({"a.csv": MANY.encode()})),
    "x.tar.bz2": bz2.compress(tarred({"a.csv": MANY.encode()})),
    "x.tar.xz": lzma.compress(tarred({"a.csv": MANY.encode()})),
}


def damaged(content, dice):
    """A copy with some bits flipped, or without its end."""
    if dice.random() < 0.4:
        return content[: dice.randrange(len(content))]
    found = bytearray(content)
    for _ in range(dice.randint(1, 4)):
        found[dice.randrange(len(found))] ^= 1 << dice.randrange(8)
    return bytes(found)


def outcome(content, name, folder, options):
    """Import a file, and return its quality; or null where it was refused by an error of ours."""
    (folder / name).write_bytes(content)
    try:
        report = import_source(None, [folder / name], folder / "p", options)
    except ClvlabError:
        assert {entry.name for entry in folder.iterdir()} == {name}
        return None
    verify_pack(folder / "p")
    return report.quality


@pytest.mark.parametrize("kind", FILES)
@settings(max_examples=length(12, 400))
@given(seed=st.integers(0, 2**32))
def test_a_damaged_file_becomes_a_pack_or_an_error_of_ours(kind, seed):
    dice = random.Random(seed)
    name, content = FILES[kind]
    mapping = test_fuzz_sources.ASSETS if kind in MAPPED else None
    options = import_options(lenient=dice.random() < 0.8, mapping=mapping, time_zone="UTC", min_books=1)
    with tempfile.TemporaryDirectory() as folder:
        outcome(damaged(content, dice), name, Path(folder), options)


@pytest.mark.parametrize("kind", FILES)
def test_each_file_that_is_damaged_here_is_sound(kind, tmp_path):
    name, content = FILES[kind]
    mapping = test_fuzz_sources.ASSETS if kind in MAPPED else None

    assert outcome(content, name, tmp_path, import_options(lenient=False, mapping=mapping, time_zone="UTC", min_books=1)).ticks


@pytest.mark.parametrize("name", PACKED)
@settings(max_examples=length(25, 800))
@given(seed=st.integers(0, 2**32))
def test_of_a_damaged_archive_nothing_is_lost_without_a_word(name, seed):
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        quality = outcome(damaged(PACKED[name], dice), name, Path(folder), import_options())
    if quality is not None and not quality.refused_rows:
        assert quality.ticks == (600 if name == "x.zip" else 300)
