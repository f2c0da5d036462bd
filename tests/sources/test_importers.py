"""What holds of every importer: it tells its files, refuses what it can't read by name, and gives the same pack again."""

import io
from dataclasses import dataclass
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clvlab.errors import SourceError
from clvlab.packs.verification import verify_pack
from clvlab.sources.importer import import_source
from clvlab.sources.providers import IMPORTERS
from clvlab.sources.recognition import recognition_of
from clvlab.sources.source import Options
from tests.sources import test_fuzz as fuzz
from tests.sources.betfair import test_runners as runners
from tests.sources.test_recognition import TEXTS


def lines(documents):
    return b"".join(orjson.dumps(one) + b"\n" for one in documents)


def parquet(columns):
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


@dataclass(frozen=True)
class Sample:
    """A sound file of a source, more of its kind, others that it needs, and the mapping of its assets.

    Of a table that has no prices the source is left out when it is imported: what is to be done with it is told then.
    """

    source: str
    name: str
    content: bytes
    more: tuple[tuple[str, bytes], ...] = ()
    others: tuple[tuple[str, bytes], ...] = ()
    mapping: dict | None = None
    no_source: bool = False

    def write(self, folder, content=None):
        """Write the files, and return what is imported: the file, or the folder of several."""
        own = [(name, text if content is None else content) for name, text in ((self.name, self.content), *self.more)]
        for name, text in (*own, *self.others):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(text)
        return folder if "/" in self.name else folder / self.name

    def imported(self, path, folder, **other):
        options = Options(**{"mapping": self.mapping, "time_zone": "UTC", "min_books": 1} | other)
        return import_source(None if self.no_source else self.source, [path], folder, options).manifest


SIDES = zip(("home", "draw", "away"), fuzz.POLYMARKET[1:], strict=True)
HISTORY = {f"7/{side}.jsonl": lines(quotes) for side, quotes in SIDES}
LISTED = ("fixtures.json", orjson.dumps(fuzz.POLYMARKET[0]))
SAMPLES = {
    "csv": Sample("csv", "x.csv", TEXTS["csv"].encode()),
    "probabilities": Sample("csv", "x.csv", b"fixture,time,home,draw,away\n" + b"m,1767355200,.5,.3,.2\n" * 3, no_source=True),
    "football-data": Sample("football-data", "x.csv", TEXTS["football-data"].encode()),
    "oddsportal": Sample("oddsportal", "x.csv", TEXTS["oddsportal"].encode()),
    "oddsharvester": Sample("oddsharvester", "x.json", orjson.dumps(fuzz.DOCUMENTS["oddsharvester"][1])),
    "oddsharvester csv": Sample("oddsharvester", "x.csv", fuzz.TABLES["oddsharvester"].encode()),
    "betfair": Sample("betfair", "1.1", lines(fuzz.STREAM)),
    "betfair-csv": Sample("betfair-csv", "x.csv", "\n".join([runners.HEADER, *runners.ROWS]).encode()),
    "the-odds-api": Sample("the-odds-api", "x.json", orjson.dumps({"previous_timestamp": None} | fuzz.SNAPSHOT)),
    "the-odds-api changes": Sample(
        "the-odds-api", "x_ticks.parquet", parquet(fuzz.PARQUET["the-odds-api"]), others=(("x_fixtures.csv", fuzz.FIXTURES),)
    ),
    "txline": Sample("txline", "odds_7.jsonl", lines(fuzz.DOCUMENTS["txline"][1])),
    "kalshi": Sample("kalshi", "candles_7.json", orjson.dumps({"7": fuzz.CANDLES["candlesticks"]}), mapping=fuzz.ASSETS),
    "trades": Sample("trades", "x.csv", fuzz.TABLES["trades"].encode(), mapping=fuzz.ASSETS),
    "trades parquet": Sample("trades", "x.parquet", parquet(fuzz.PARQUET["trades"]), mapping=fuzz.ASSETS),
    "parquet": Sample("parquet", "x.parquet", parquet(fuzz.PARQUET["parquet"])),
    "pmxt": Sample("pmxt", fuzz.NAMES["pmxt"], parquet(fuzz.PARQUET["pmxt"]), mapping=fuzz.ASSETS),
    "polymarket": Sample("polymarket", "7/home.jsonl", HISTORY.pop("7/home.jsonl"), (*HISTORY.items(),), (LISTED,)),
}  # fmt: skip
every_importer = pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)


def test_every_importer_has_a_sample():
    assert {sample.source for sample in SAMPLES.values()} == set(IMPORTERS)


@every_importer
def test_its_file_is_recognised(sample, tmp_path):
    assert recognition_of([sample.write(tmp_path)], sample.mapping).source == sample.source


@every_importer
def test_the_same_file_gives_the_same_pack_again_however_many_rows_are_held(sample, tmp_path):
    path, packs = sample.write(tmp_path / "files"), []
    for place, held in (("a", 100_000), ("b", 100_000), ("c", 1)):
        manifest = sample.imported(path, tmp_path / place / "p", chunk_rows=held)
        assert verify_pack(tmp_path / place / "p").content_hash == manifest.content_hash
        packs.append(manifest)

    assert len({pack.content_hash for pack in packs}) == 1
    assert sum(fixture.rows for fixture in packs[0].fixtures)


@every_importer
@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("content", [b"", b"\xff\x00\xfe{[,\n" * 20], ids=["empty", "no text"])
def test_a_file_of_nothing_that_can_be_read_is_refused_by_name_and_leaves_no_pack(sample, content, lenient, tmp_path):
    path = sample.write(tmp_path / "files", content)

    with pytest.raises(SourceError, match=Path(sample.name).stem.partition("_")[0]):
        sample.imported(path, tmp_path / "packs" / "p", lenient=lenient)

    assert not [*(tmp_path / "packs").glob("*")]


@every_importer
def test_a_limit_on_the_age_of_a_close_is_kept_and_moves_nothing_else(sample, tmp_path):
    path = sample.write(tmp_path / "files")

    free = sample.imported(path, tmp_path / "a" / "p")
    bound = sample.imported(path, tmp_path / "b" / "p", max_close_age_s=3600)

    assert bound.content == free.content | {"max_close_age_s": 3600}
