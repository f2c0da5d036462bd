import hashlib
import json
import struct
import tracemalloc

import polars as pl
import pyarrow.parquet as pq
import pytest
from polars.testing import assert_frame_equal

import clvlab as cl
from clvlab.errors import HeldOutError, PackFormatError, PackTamperedError, UnknownFixtureError, UnsupportedError
from clvlab.law.schema import TICKS
from clvlab.law.tape import Tape
from clvlab.packs.files import file_sha256
from clvlab.packs.ladders import LADDERS, check_ladders, ladder_digests, sorted_ladders
from clvlab.packs.manifest import Fixture, PackManifest
from clvlab.packs.reader import load_pack
from clvlab.packs.verification import verify_pack
from clvlab.packs.views.concatenation import concatenated
from clvlab.packs.views.join import joined_by
from clvlab.packs.writer import write_pack

KEY = "WINNER||"
T = 1_700_000_000_000


def ticks(fixtures=(1, 2)):
    rows = [
        (fixture, seq, T + seq * 1000, False, key, side, prob, odds, False)
        for fixture in fixtures
        for seq, key in enumerate((KEY, "OTHER||"))
        for side, prob, odds in (("away", 4500, 2200), ("home", 5500, 1800))
    ]
    return pl.DataFrame(rows, schema=TICKS, orient="row")


def frame(*rows, fixture=1, key=KEY, side="home"):
    """Return ``LADDERS`` of (level, seconds, odds, stake)."""
    named = [(fixture, key, side, level, T + second * 1000, odds, stake) for level, second, odds, stake in rows]
    return pl.DataFrame(named, schema=LADDERS, orient="row")


GOOD = (
    (0, 0, 1800, 1000), (0, 5, 1790, 40), (0, 9, None, None),
    (1, 0, 1790, 250), (1, 5, 1780, 99), (1, 9, None, None),
    (2, 1, 1780, 99), (2, 5, None, None),
)  # fmt: skip


def ladders():
    return pl.concat([frame(*GOOD), frame(*GOOD[:1], side="away"), frame(*GOOD, fixture=2, key="OTHER||")])


def manifest(pack_id="deep", fixtures=(1, 2)):
    return PackManifest(pack_id=pack_id, provenance="unknown", fixtures=tuple(Fixture(fixture_id=one) for one in fixtures))


@pytest.fixture
def folder(tmp_path):
    write_pack(ticks(), manifest(), tmp_path / "deep", ladders=ladders())
    return tmp_path / "deep"


def test_ladders_read_back_as_they_were(folder):
    pack = verify_pack(folder)

    assert pack.has_ladders
    assert pack.manifest.ladders == 10
    assert_frame_equal(pack.ladders().collect(), sorted_ladders(ladders()))
    assert set(pack.ladders([2]).collect()["fixture_id"]) == {2}
    (resource,) = [
        one for one in json.loads((folder / "datapackage.json").read_text())["resources"] if one["name"] == "ladders"
    ]
    assert [one["name"] for one in resource["schema"]["fields"]] == [*LADDERS]


def test_fixtures_that_may_not_be_read_are_refused(folder):
    pack = load_pack(folder)

    with pytest.raises(UnknownFixtureError):
        pack.ladders([3])
    with pytest.raises(HeldOutError):
        pack.holding_out({2: "plan"}, {}).ladders()
    assert set(pack.holding_out({2: "plan"}, {}).ladders([1]).collect()["fixture_id"]) == {1}


def test_a_pack_without_ladders_says_what_to_do(tmp_path):
    write_pack(ticks(), manifest("bare"), tmp_path / "bare", ladders=ladders().clear())
    pack = load_pack(tmp_path / "bare")

    assert not pack.has_ladders
    assert "ladders" not in (tmp_path / "bare" / "datapackage.json").read_text()
    with pytest.raises(UnsupportedError, match=r"'bare' keeps no ladders: import a source that has depth with ladders=True"):
        pack.ladders()


def test_a_pack_without_ladders_is_what_it_was(tmp_path):
    bare = write_pack(ticks(), manifest(), tmp_path / "bare")
    full = write_pack(ticks(), manifest(), tmp_path / "full", ladders=ladders())

    stripped = [one.model_copy(update={"ladders_digest": None}) for one in full.fixtures]
    assert [*bare.fixtures] == stripped
    assert bare.content_hash == full.model_copy(update={"ladders": None, "fixtures": tuple(stripped)}).content_hash
    assert bare.content_hash != full.content_hash


def test_the_order_of_rows_changes_no_hash_and_each_value_does(tmp_path):
    written = write_pack(ticks(), manifest(), tmp_path / "one", ladders=ladders())
    assert write_pack(ticks(), manifest(), tmp_path / "two", ladders=ladders().reverse()).content_hash == written.content_hash

    whole = ladder_digests(sorted_ladders(ladders()))
    for name in ("market_key", "side", "level", "ts_ms", "odds_milli", "stake_cents"):
        step = pl.col(name) + (1 if LADDERS[name].is_integer() else pl.lit("x"))
        first = pl.int_range(pl.len()) == 0
        other = ladder_digests(sorted_ladders(ladders().with_columns(pl.when(first).then(step).otherwise(name).alias(name))))
        assert [whole[one] == other[one] for one in (1, 2)] == [False, True], name


def test_the_digest_is_laid_out_as_the_format_says():
    rows = [row for row in sorted_ladders(ladders()).iter_rows() if row[0] == 1]
    names = sorted({row[1:3] for row in rows})
    content = struct.pack("<I", len(names))
    for text in (text.encode() for name in names for text in name):
        content += struct.pack("<I", len(text)) + text
    content += b"".join(struct.pack("<I", names.index(row[1:3])) for row in rows)
    for column, form in enumerate("bqiq", 3):
        content += b"".join(struct.pack(f"<{form}", -1 if row[column] is None else row[column]) for row in rows)

    assert ladder_digests(sorted_ladders(ladders()))[1] == "sha256:" + hashlib.sha256(content).hexdigest()


def test_joined_sources_keep_the_ladders_of_the_first(folder, tmp_path):
    rule = {"books": ["other"], "matching": "2", "pairs": [[[1, 1, 0]]]}
    write_pack(ticks((1,)), manifest("other", (1,)), tmp_path / "other")

    joined = joined_by([load_pack(folder), load_pack(tmp_path / "other")], rule)

    assert_frame_equal(joined.ladders([1]).collect(), load_pack(folder).ladders([1]).collect())
    assert not joined_by([load_pack(tmp_path / "other"), load_pack(folder)], rule).has_ladders


def restated(folder, frame):
    """Put other rows into the file of ladders, and state its new hash."""
    pq.write_table(frame.to_arrow(compat_level=pl.CompatLevel.oldest()), folder / "ladders.parquet")
    path = folder / "datapackage.json"
    stated = json.loads(path.read_text())
    (resource,) = [one for one in stated["resources"] if one["name"] == "ladders"]
    resource["hash"] = file_sha256(folder / "ladders.parquet")
    path.write_text(json.dumps(stated))


def at_row(number, name):
    """Return a change of one value of a row by 1."""
    mine = pl.int_range(pl.len()) == number
    return lambda rows: rows.with_columns(pl.when(mine).then(pl.col(name) + 1).otherwise(name).alias(name))


TAMPERED = {
    "a size": (at_row(1, "stake_cents"), PackTamperedError, "ladders of fixture 1"),
    "a price": (at_row(1, "odds_milli"), PackTamperedError, "ladders of fixture 1"),
    "a time": (at_row(2, "ts_ms"), PackTamperedError, "ladders of fixture 1"),
    "a level": (at_row(16, "level"), PackFormatError, "must change its level.*'fixture_id': 2"),
    "a size of the second": (at_row(9, "stake_cents"), PackTamperedError, "ladders of fixture 2"),
    "a row less": (lambda rows: rows.head(-1), PackFormatError, "no hole.*'fixture_id': 2"),
    "a level less": (lambda rows: rows.head(-2), PackTamperedError, "ladders of fixture 2"),
    "none of one": (lambda rows: rows.filter(pl.col("fixture_id") == 1), PackTamperedError, "ladders of fixture 2"),
    "a stranger": (
        lambda rows: rows.vstack(rows.tail(1).with_columns(pl.lit(99, pl.Int64).alias("fixture_id"), level=pl.lit(0, pl.Int8))),
        PackFormatError,
        "does not declare",
    ),
    "another order": (lambda rows: rows.reverse(), PackFormatError, "sorted"),
    "another column": (lambda rows: rows.with_columns(more=1), PackFormatError, "columns"),
}


@pytest.mark.parametrize("how", TAMPERED)
def test_tampered_ladders_are_named(folder, how):
    change, error, text = TAMPERED[how]
    restated(folder, change(pl.read_parquet(folder / "ladders.parquet")))

    with pytest.raises(error, match=text):
        verify_pack(folder)


def test_changed_bytes_are_refused_when_the_pack_is_opened(folder):
    content = bytearray((folder / "ladders.parquet").read_bytes())
    content[100] ^= 1
    (folder / "ladders.parquet").write_bytes(content)

    with pytest.raises(PackTamperedError, match=r"ladders\.parquet"):
        load_pack(folder)


def test_a_layer_that_is_gone_is_missed(folder):
    path = folder / "datapackage.json"
    stated = json.loads(path.read_text())
    stated["resources"] = [one for one in stated["resources"] if one["name"] != "ladders"]
    path.write_text(json.dumps(stated))

    with pytest.raises(PackFormatError, match="keeps ladders where there is no"):
        load_pack(folder)


BROKEN = {
    "must name its side, level and time": frame((0, 0, 1800, 1)).with_columns(ts_ms=None),
    "a market and side that have ticks": frame((0, 0, 1800, 1), side="draw"),
    "must be 0 to 9": frame((10, 0, 1800, 1)),
    "a time in milliseconds": frame((0, -T, 1800, 1)),
    "must not change twice at one time": frame((0, 0, 1800, 1), (0, 0, 1810, 1)),
    "must be 1001 to 100000000": frame((0, 0, 1000, 1)),
    "must be 1 or more": frame((0, 0, 1800, 0)),
    "must have odds and a stake": frame((0, 0, 1800, None)),
    "must change its level: 1 row.*1700000005000": frame((0, 0, 1800, 1), (0, 5, 1800, 1)),
    "must change its level": frame((0, 0, None, None)),
    "no hole: 1 row.*'ts_ms': 1700000003000": frame((0, 0, 1800, 1), (0, 3, None, None), (1, 0, 1790, 1)),
    "must fall from level to level: 1 row.*'ts_ms': 1700000004000": frame((0, 0, 1800, 1), (1, 0, 1790, 1), (1, 4, 1800, 1)),
}  # fmt: skip


@pytest.mark.parametrize("rule", BROKEN)
def test_rows_that_can_not_be_are_refused(rule):
    tape = Tape.from_ticks(ticks(), pl.DataFrame({"fixture_id": [1, 2], "kickoff_ts_ms": [None] * 2}))
    check_ladders(sorted_ladders(ladders()), tape)

    with pytest.raises(PackFormatError, match=rule):
        check_ladders(sorted_ladders(pl.concat([BROKEN[rule].cast(LADDERS), frame(*GOOD, fixture=2)])), tape)


def test_the_memory_of_the_check_does_not_grow_with_the_levels():
    tape = Tape.from_ticks(ticks((1,)), pl.DataFrame({"fixture_id": [1], "kickoff_ts_ms": [None]}))
    peaks = []
    for levels in (2, 100):
        often = [(0, second, 5000 - second % 2, 9) for second in range(20_000)]
        rows = frame(*often, *((level, 0, 4000 - level, 9) for level in range(1, levels)))
        tracemalloc.start()
        check_ladders(rows, tape, levels)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2 * peaks[0]


def test_a_level_without_an_offer_may_come_back(tmp_path):
    rows = ((0, 0, 1800, 1), (0, 1, None, None), (0, 2, 1800, 1), (0, 3, 1810, 1), (1, 3, 1800, 1))

    write_pack(ticks(), manifest(), tmp_path / "p", ladders=frame(*rows))

    assert verify_pack(tmp_path / "p").ladders().collect().height == len(rows)


def test_views_read_the_ladders_of_their_fixtures_and_markets(folder, tmp_path):
    write_pack(ticks((3,)), manifest("bare", (3,)), tmp_path / "bare")
    pack = cl.open_pack(folder)

    own = pack.where(markets=["OTHER"]).source
    assert_frame_equal(own.ladders().collect(), frame(*GOOD, fixture=2, key="OTHER||"))
    one = pack.where(fixtures=[1]).source
    assert set(one.ladders().collect()["fixture_id"]) == {1}
    both = concatenated([load_pack(folder), load_pack(tmp_path / "bare")])
    assert both.manifest.ladders == 10
    assert_frame_equal(both.ladders().collect(), sorted_ladders(ladders()))
    assert both.ladders([3]).collect().is_empty()
    with pytest.raises(UnsupportedError, match="keeps no ladders"):
        cl.open_pack(tmp_path / "bare").where(markets=["OTHER"]).source.ladders()
