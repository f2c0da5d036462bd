import json
import shutil

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from polars.testing import assert_frame_equal

from clvlab.errors import PackFormatError, PackTamperedError, WindowError
from clvlab.law.schema import BOOKS
from clvlab.law.tape import Tape
from clvlab.packs import folder as files
from clvlab.packs import folder as folders
from clvlab.packs.books import check_books, sorted_books
from clvlab.packs.files import file_sha256
from clvlab.packs.reader import load_pack
from clvlab.packs.verification import verify_pack
from clvlab.packs.writer import write_pack
from tests import booked


@pytest.fixture
def folder(tmp_path):
    booked.write_booked(tmp_path / "booked")
    return tmp_path / "booked"


def test_books_read_back_as_they_were(folder):
    pack = verify_pack(folder)

    assert pack.books == booked.NAMES
    assert_frame_equal(pack.tape().books.collect(), sorted_books(booked.frames(1)[1]))
    assert set(pack.tape([2]).books.collect()["fixture_id"]) == {2}


def test_a_pack_without_books_is_what_it_was(tmp_path):
    ticks, books = booked.frames(1)
    bare = write_pack(ticks, booked.manifest(), tmp_path / "bare")
    full = write_pack(ticks, booked.manifest(), tmp_path / "full", books=books)

    assert "books" not in (tmp_path / "bare" / "datapackage.json").read_text()
    assert [one.digest for one in bare.fixtures] == [one.digest for one in full.fixtures]
    assert bare.content_hash != full.content_hash
    assert load_pack(tmp_path / "bare").tape().books is None


def test_the_order_of_rows_and_how_they_are_stored_change_no_hash(tmp_path):
    ticks, books = booked.frames(1)
    one = write_pack(ticks, booked.manifest(), tmp_path / "one", books=books)
    other = write_pack(ticks, booked.manifest(), tmp_path / "other", books=books.reverse())

    assert one.content_hash == other.content_hash


def test_every_row_counts_in_the_hash(tmp_path):
    ticks, books = booked.frames(1)
    whole = write_pack(ticks, booked.manifest(), tmp_path / "whole", books=books)
    first = books.filter(~books["suspended"]).row(0, named=True)
    mine = pl.all_horizontal(pl.col(name) == first[name] for name in ("fixture_id", "market_key", "side", "book", "tick_seq"))
    odds = pl.when(mine).then(pl.col("odds_milli") + 1).otherwise("odds_milli")

    other = write_pack(ticks, booked.manifest(), tmp_path / "other", books=books.with_columns(odds))

    assert [a.books_digest == b.books_digest for a, b in zip(whole.fixtures, other.fixtures, strict=True)].count(False) == 1


def retold(folder, frame):
    """Put other rows into the file of books."""
    rewritten(folder, "books", frame.to_arrow(compat_level=pl.CompatLevel.oldest()))


def rewritten(folder, name, table):
    """Write another file of this name, and say of it whatever hashes its bytes have."""
    pq.write_table(table, folder / f"{name}.parquet")
    path = folder / "datapackage.json"
    said = json.loads(path.read_text())
    (resource,) = [one for one in said["resources"] if one["name"] == name]
    resource["hash"] = file_sha256(folder / f"{name}.parquet")
    path.write_text(json.dumps(said))


ASH = pl.col("book") == "ash"
STRANGER = pl.lit(99, pl.Int64).alias("fixture_id")
TAMPERED = {
    "a price": (lambda books: books.with_columns(pl.col("odds_milli") + 1), PackTamperedError, "books of fixture 1"),
    "a row less": (lambda books: books.filter(~(ASH & (pl.col("fixture_id") == 2))), PackTamperedError, "books of fixture 2"),
    "a name": (lambda books: books.with_columns(pl.col("book").replace("ash", "asp")), PackTamperedError, "books of fixture 1"),
    "a stranger": (lambda books: books.vstack(books.tail(3).with_columns(STRANGER)), PackFormatError, "does not declare"),
    "another order": (lambda books: books.reverse(), PackFormatError, "sorted"),
    "no tick": (lambda books: books.with_columns(pl.col("tick_seq") + 1_000), PackFormatError, "at a tick of its fixture"),
    "another column": (lambda books: books.with_columns(more=1), PackFormatError, "columns"),
}


@pytest.mark.parametrize("name", ["ticks", "books"])
def test_a_time_zone_that_does_not_exist_is_named(folder, name):
    table = pq.read_table(folder / f"{name}.parquet")
    nowhere = pa.array([0] * table.num_rows, pa.timestamp("ms", "QTC"))
    rewritten(folder, name, table.append_column("more", nowhere))

    with pytest.raises(PackFormatError, match="time zone: 'QTC'"):
        verify_pack(folder)


@pytest.mark.parametrize("how", TAMPERED)
def test_tampered_books_are_named(folder, how):
    change, error, said = TAMPERED[how]
    retold(folder, change(pl.read_parquet(folder / "books.parquet")))

    with pytest.raises(error, match=said):
        verify_pack(folder)


def test_changed_bytes_are_refused_when_it_is_opened(folder):
    content = bytearray((folder / "books.parquet").read_bytes())
    content[100] ^= 1
    (folder / "books.parquet").write_bytes(content)

    with pytest.raises(PackTamperedError, match=r"books\.parquet"):
        load_pack(folder)


def test_a_layer_that_is_gone_is_missed(folder, tmp_path):
    path = folder / "datapackage.json"
    said = json.loads(path.read_text())
    said["resources"] = [one for one in said["resources"] if one["name"] != "books"]
    shutil.copytree(folder, tmp_path / "less")
    (tmp_path / "less" / "datapackage.json").write_text(json.dumps(said))

    with pytest.raises(PackFormatError, match="names books"):
        load_pack(tmp_path / "less")


BROKEN = {
    "speak at a tick": {"tick_seq": 10_000},
    "at that tick's time": {"ts_ms": 1},
    "tick of its fixture, at that tick's time": {"ts_ms": None},
    "markets and sides that have ticks": {"market_key": "WINNER||"},
    "all sides of its market": {"side": "draw", "market_key": "1X2||"},
    "0 to 10000": {"prob_bps": 10_001},
    "1001 to 100000000": {"odds_milli": 1000},
    "must not carry a probability": {"suspended": True},
    "a name of 1 to 200 bytes": {"book": ""},
    "must not have a null": {"suspended": None},
}


@pytest.mark.parametrize("rule", BROKEN)
def test_rows_that_can_not_be_are_refused(rule):
    ticks, books = booked.frames(3)
    tape = Tape.from_ticks(ticks, pl.DataFrame({"fixture_id": [1, 2, 3], "kickoff_ts_ms": [None] * 3}))
    check_books(sorted_books(books), tape)
    one = books.filter(~books["suspended"] & (books["market_key"] == "OU||line=2.5")).head(1)
    changed = one.with_columns(pl.lit(value).cast(BOOKS[name]).alias(name) for name, value in BROKEN[rule].items())
    if "side" in BROKEN[rule]:
        changed = books.filter(books["market_key"] == "1X2||").head(1).with_columns(book=pl.lit("alone"))

    with pytest.raises(PackFormatError, match=rule):
        check_books(sorted_books(pl.concat([books.join(one, on=one.columns, how="anti", nulls_equal=True), changed])), tape)


def test_a_pack_is_closed_by_its_own_books_alone(folder):
    pack = load_pack(folder)
    pack.check_closes("ash")

    with pytest.raises(WindowError, match="did you mean 'cedar'"):
        pack.check_closes("ceder")


@pytest.mark.parametrize("name", ["ticks.parquet", "books.parquet"])
@pytest.mark.parametrize("moment_ns", [0, 2_000_000_000])
def test_files_that_change_after_a_pack_was_opened_are_refused_when_they_are_read(
    folder, tmp_path, monkeypatch, name, moment_ns
):
    monkeypatch.setattr(folders, "_MOMENT_NS", moment_ns)
    booked.write_booked(tmp_path / "other", seed=2)
    pack = load_pack(folder)
    pack.tape()

    (folder / name).write_bytes((tmp_path / "other" / name).read_bytes())

    with pytest.raises(PackTamperedError, match=name):
        pack.tape([1])


def test_files_are_hashed_once_while_they_stay_as_they_are(folder, monkeypatch):
    monkeypatch.setattr(folders, "_MOMENT_NS", 0)
    hashed = []
    monkeypatch.setattr(files, "file_sha256", lambda path: hashed.append(path.name) or file_sha256(path))

    pack = load_pack(folder)
    for _ in range(3):
        pack.tape()
    (folder / "ticks.parquet").touch()
    pack.tape()

    assert hashed == ["ticks.parquet", "books.parquet", "ticks.parquet"]
