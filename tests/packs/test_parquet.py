"""What a Parquet file unpacks to is known before anything of it is unpacked."""

import random
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import clvlab
from clvlab.arena.packs import bundled_catalog
from clvlab.errors import PackFormatError
from clvlab.packs import parquet
from clvlab.packs.parquet import MAX_BATCH_TEXT_BYTES, batches, check_parquet, opened, row_groups
from clvlab.packs.rows import RESULTS, unreadable
from tests.length import few, length

ROWS = 150_000
WRITERS = {
    "default": {},
    "pages of version 2": {"data_page_version": "2.0"},
    "without dictionaries": {"use_dictionary": False, "compression": "none"},
    "with checksums and an index": {"compression": "zstd", "write_page_index": True, "write_page_checksum": True},
    "small groups": {"row_group_size": 1000, "store_schema": False},
    "deltas of lengths": {"use_dictionary": False, "column_encoding": {"text": "DELTA_LENGTH_BYTE_ARRAY"}},
}
FIXTURES = "event_id,sport_key,commence_time,home_team,away_team\ne1,soccer_x,2026-07-04T17:00:00Z,Ash,Elm\n"
PEAK = """
import resource, sys
from pathlib import Path
from clvlab.sources.importer import import_source
from clvlab.sources.tables.rows import parquet_rows
from clvlab.sources.source import Options
from clvlab.packs.rows import read_results
source, path, out = sys.argv[1:]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    if source == "results":
        read_results(Path(path).read_bytes(), "p")
    elif source == "trades":
        list(parquet_rows("x", Path(path), ["asset", "time"], 1000, times=()))
    else:
        import_source(source, [Path(path)], Path(out), Options())
except Exception as error:
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10, error)
"""


@cache
def honest(rows=ROWS):
    return pa.table(
        {
            "few": [f"x{number % 7}" for number in range(rows)],
            "number": list(range(rows)),
            "list": [["q", None]] * rows,
            "levels": [[{"price": "0.1", "size": 5}]] * rows,
            "map": pa.array([[("k", "v")]] * rows, pa.map_(pa.string(), pa.string())),
            "nothing": pa.nulls(rows),
            "text": pa.array([f"text {number}" for number in range(rows)], pa.large_string()),
        }
    )


def long():
    return pa.table({"text": ["x" * (140 << 20)]})


def three():
    return pa.table({"text": ["x" * (60 << 20)] * 3})


def noughts():
    same = pa.Array.from_buffers(pa.int8(), 20_000_000, [None, pa.py_buffer(bytes(20_000_000))])
    return pa.table({"n": pa.DictionaryArray.from_arrays(same, [1])})


def written(table, path, **options):
    pq.write_table(table, path, compression=options.pop("compression", "zstd"), **options)
    return path


@pytest.mark.parametrize("options", WRITERS.values(), ids=WRITERS)
def test_honest_files_of_pyarrow_are_read_as_they_are(options, tmp_path):
    path = written(honest(), tmp_path / "x.parquet", **options)

    check_parquet(path.read_bytes())
    with opened(path, honest().column_names) as file:
        read = pa.concat_tables(list(batches(file, 10_000, honest().column_names)))
    assert read.cast(honest().schema).equals(honest())


@pytest.mark.parametrize("compression", ["zstd", "lz4", "snappy", "gzip", "uncompressed"])
def test_honest_files_of_polars_are_within_the_limits(compression, tmp_path):
    pl.DataFrame(honest().drop(["nothing"])).write_parquet(tmp_path / "x.parquet", compression=compression)

    check_parquet(tmp_path / "x.parquet")


@pytest.mark.parametrize("rows", [0, 1])
def test_small_files_are_within_the_limits(rows, tmp_path):
    check_parquet(written(honest(rows), tmp_path / "x.parquet"))
    pl.DataFrame(schema=RESULTS).write_parquet(tmp_path / "y.parquet")
    check_parquet(tmp_path / "y.parquet")


def test_pages_say_as_many_bytes_as_the_footer(tmp_path):
    path = written(honest(), tmp_path / "x.parquet", use_dictionary=False)
    content = path.read_bytes()
    group = pq.read_metadata(path).row_group(0)
    length = int.from_bytes(content[-8:-4], "little")

    for place, chunk in enumerate(row_groups(content[-8 - length : -8])[0]):
        pages = list(parquet._pages(chunk, content, 0))
        assert sum(page.values for page in pages) == chunk.values == group.column(place).num_values
        headers = group.column(place).total_uncompressed_size - sum(page.size for page in pages)
        assert 0 < headers < 200 * len(pages)


@few(2)
@pytest.mark.parametrize(
    ("table", "options", "says"),
    [
        (long, {}, "a page of column 'text' unpacks to 146,800,644 bytes, the limit is 134,217,728"),
        (long, {"use_dictionary": False, "data_page_version": "2.0"}, "a page of column 'text' unpacks to 146,800,6"),
        (three, {"use_dictionary": False, "write_batch_size": 1}, "bytes unpack to more than"),
        (noughts, {}, "bytes unpack to more than"),
        (honest, {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}}, "is encoded as DELTA_BYTE_ARRAY"),
    ],
    ids=["one text", "one text, version 2", "three texts", "rows", "prefixes"],
)
def test_small_file_that_unpacks_to_much_is_refused(table, options, says, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "_BASE_BYTES", 64 << 20)  # a file of a gibibyte takes long to write
    path = written(table(), tmp_path / "x.parquet", **options)

    for source in (path, path.read_bytes()):
        with pytest.raises(pa.ArrowInvalid, match=says):
            check_parquet(source)


def test_text_that_every_row_names_is_refused_before_it_is_repeated(tmp_path):
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 2000, pa.int32()), ["x" * (1 << 20)])
    path = written(pa.table({"text": texts}), tmp_path / "x.parquet")

    check_parquet(path)
    with (
        opened(path, ["text"]) as file,
        pytest.raises(pa.ArrowInvalid, match="2,097,152,000 bytes in 2,000 rows, the limit is"),
    ):
        list(batches(file, 100_000, ["text"]))
    with opened(path, ["text"]) as file:
        assert sum(one.num_rows for one in batches(file, MAX_BATCH_TEXT_BYTES >> 20, ["text"])) == 2000


@pytest.mark.parametrize("compression", ["zstd", "lz4", "snappy", "gzip", "brotli", "none"])
@pytest.mark.parametrize("nested", ["list", "struct"])
def test_long_text_that_lists_repeat_is_refused_before_it_is_read(nested, compression, tmp_path):
    repeated = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), ["x" * (1 << 20)])
    lists = pa.ListArray.from_arrays([0, 1000], repeated)
    column = lists if nested == "list" else pa.StructArray.from_arrays([repeated], names=["text"])
    path = written(pa.table({"many": column}), tmp_path / "x.parquet", compression=compression)

    for read in (lambda: opened(path, ["many"]), lambda: check_parquet(path.read_bytes())):
        with pytest.raises(pa.ArrowInvalid, match=r"texts of up to 1,048,576 bytes in lists of column 'many"):
            read()


def test_texts_of_one_width_that_lists_repeat_count_as_often_as_they_stand(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "MAX_BATCH_TEXT_BYTES", 1 << 20)  # what writes a file writes each of them
    texts = pa.array([[b"x" * 1000] * 2000], pa.list_(pa.binary(1000)))
    path = written(pa.table({"many": texts}), tmp_path / "x.parquet")

    with pytest.raises(pa.ArrowInvalid, match=r"texts of up to 1,000 bytes in lists of column 'many"):
        opened(path, ["many"])


def test_texts_of_a_list_that_repeat_within_the_limit_are_read(tmp_path):
    rows = [["yes", "no", None], [], None, ["a longer text than the others"]] * 100_000
    path = written(pa.table({"many": rows}), tmp_path / "x.parquet")

    with opened(path, ["many"]) as file:
        assert sum(one.num_rows for one in batches(file, 100_000, ["many"])) == 400_000


def test_columns_that_nobody_reads_may_be_as_they_are(tmp_path):
    encodings = {"text": "DELTA_BYTE_ARRAY"}
    path = written(honest(500), tmp_path / "x.parquet", use_dictionary=False, column_encoding=encodings)

    with opened(path, ["number", "few"]) as file:
        [read] = batches(file, 1000, ["number", "few"])

    assert read["number"].to_pylist() == list(range(500))
    with pytest.raises(pa.ArrowInvalid, match="column 'text' is encoded as DELTA_BYTE_ARRAY"):
        opened(path, ["number", "text"])


def test_columns_are_known_by_the_schema_and_not_by_what_their_chunks_say(tmp_path):
    path = written(honest(500), tmp_path / "x.parquet", use_dictionary=False, column_encoding={"text": "DELTA_BYTE_ARRAY"})
    sound = path.read_bytes()
    footer = int.from_bytes(sound[-8:-4], "little")
    head, tail = sound[: -8 - footer], sound[-8 - footer :]
    assert tail.count(b"\x04text") == 2  # in the schema, and as the path of the chunk
    path.write_bytes(head + tail[::-1].replace(b"txet\x04", b"mune\x04", 1)[::-1])

    assert pq.read_table(path, columns=["text"]).num_rows == 500
    with pytest.raises(pa.ArrowInvalid, match="column 'text' is encoded as DELTA_BYTE_ARRAY"):
        opened(path, ["text"])


def test_any_byte_may_be_another_and_the_file_is_read_or_refused(tmp_path):
    sound, dice = written(honest(500), tmp_path / "x.parquet", row_group_size=100).read_bytes(), random.Random(8)
    fine = refused = 0
    for _ in range(length(500, 1500)):
        data = bytearray(sound)
        for _ in range(dice.choice([1, 2, 8])):
            data[dice.randrange(len(data))] = dice.randrange(256)
        try:
            check_parquet(bytes(data))
        except unreadable():
            refused += 1
        else:
            fine += 1
    assert min(fine, refused) > length(33, 100)


def test_ticks_and_books_of_a_folder_are_looked_at_when_the_pack_is_opened(monkeypatch):
    monkeypatch.setattr(parquet, "_BASE_BYTES", 0)
    monkeypatch.setattr(parquet, "_RATIO", 1)

    with pytest.raises(PackFormatError, match=r"ticks.parquet' can't be read as ticks: [0-9,]+ bytes unpack to more than"):
        clvlab.open_pack(bundled_catalog().folder / "starter")


@few(2)
@pytest.mark.parametrize("source", ["results", "parquet", "the-odds-api", "trades"])
def test_refusing_a_file_takes_little_memory(source, tmp_path):
    names = {
        "results": list(RESULTS),
        "parquet": ["fixture", "market", "side", "time", "odds"],
        "the-odds-api": ["event_id", "bookmaker", "market", "outcome", "point", "price_decimal", "commence_time"],
        "trades": ["asset", "time"],
    }[source]
    path = written(
        pa.table({name: long()["text"] if name == names[0] else ["x"] for name in names}), tmp_path / "x_ticks.parquet"
    )
    (tmp_path / "x_fixtures.csv").write_text(FIXTURES)  # as the-odds-api needs them
    command = [sys.executable, "-c", PEAK, source, path, tmp_path / "out"]

    done = subprocess.run(command, capture_output=True, text=True, check=True)

    megabytes, _, said = done.stdout.partition(" ")
    assert f"a page of column '{names[0]}' unpacks to 146,800,644 bytes" in said
    assert int(megabytes) < 100


def test_no_other_module_reads_parquet_of_its_own_accord():
    """But for files that clvlab wrote for itself, and those that were looked at when their pack was opened."""
    looked_at = {
        "arena/fixtures.py",
        "packs/folder.py",
        "sources/the_odds_api/history.py",
        "packs/rows.py",
        "packs/verification.py",
        "sql/__init__.py",
    }
    own = {"packs/remote/packs.py", "packs/parquet.py", "runs/search/sums.py", "sources/books.py"}
    reads = re.compile(r"pl\.(scan|read)_parquet|pq\.(ParquetFile|read_table)")

    package = Path(clvlab.__file__).parent
    found = {path.relative_to(package).as_posix() for path in package.rglob("*.py") if reads.search(path.read_text())}

    assert found == looked_at | own


def test_millions_of_rows_that_repeat_themselves_are_read(tmp_path):
    rows = 3_000_000
    ticks = pl.select(
        fixture_id=pl.int_range(rows) // 10_000, ts_ms=pl.int_range(rows) * 1000, market=pl.lit("1X2"), prob_bps=5000,
        odds_milli=2000, suspended=False, book=pl.lit("bet365"), kickoff_ts_ms=1_700_000_000_000,
    )  # fmt: skip
    path = tmp_path / "ticks.parquet"
    ticks.write_parquet(path)

    assert (
        sum(batch.num_rows for batch in batches(opened(path, ["market", "prob_bps"]), 500_000, ["market", "prob_bps"])) == rows
    )


def test_a_page_header_without_end_is_not_read():
    chunk = parquet.Chunk("a", "a", 4, 4 + 5 + (4 << 20), 1)
    content = b"PAR1" + b"\x19\xf8\x80\x80\x80" + bytes(4 << 20)  # a list of a million texts, all of them empty

    with pytest.raises(pa.ArrowInvalid, match="has no header that can be read"):
        parquet.check_chunks([chunk], content)
