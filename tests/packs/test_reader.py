import shutil

import orjson
import polars as pl
import pytest

from clvlab.arena.packs import bundled_catalog, open_pack
from clvlab.errors import PackFormatError, PackTamperedError, UnknownFixtureError, UnknownPackError
from clvlab.law.schema import TICKS
from clvlab.packs import reader
from clvlab.packs.files import file_sha256
from clvlab.packs.manifest import (
    MAX_DESCRIPTOR_BYTES,
    Fixture,
    PackManifest,
    descriptor,
    parse_manifest,
    read_manifest,
)
from clvlab.packs.reader import Pack, load_pack
from clvlab.packs.verification import verify_pack
from clvlab.packs.writer import write_pack


@pytest.fixture
def described(tmp_path):
    """Folder of a pack, for what its descriptor decides before a tick is read."""
    folder = tmp_path / "starter"
    shutil.copytree(bundled_catalog().folder / "starter", folder)
    return folder


@pytest.fixture(params=[1 << 20, 5_000, 1], ids=["a shard", "shards", "a shard a fixture"])
def pack(described, request, monkeypatch):
    """Folder of a pack whose ticks are read in shards of this many rows."""
    monkeypatch.setattr(reader, "SHARD_ROWS", request.param)
    return described


def edit(folder, change):
    path = folder / "datapackage.json"
    content = orjson.loads(path.read_bytes())
    change(content)
    path.write_bytes(orjson.dumps(content))


def rewrite_ticks(folder, change):
    """Change ticks, and the file hash with them, as a forger would."""
    path = folder / "ticks.parquet"
    change(pl.read_parquet(path)).write_parquet(path)
    edit(folder, lambda content: content["resources"][0].update(hash=file_sha256(path)))


def test_a_changed_byte_of_the_ticks_is_seen_on_opening(pack):
    path = pack / "ticks.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)

    with pytest.raises(PackTamperedError, match=r"ticks\.parquet"):
        load_pack(pack)


def test_a_changed_tick_with_a_fitting_file_hash_is_seen_on_verifying(pack):
    rewrite_ticks(
        pack,
        lambda ticks: ticks.with_columns(
            pl.when(pl.col("odds_milli") > 5000).then(5001).otherwise("odds_milli").cast(pl.Int32).alias("odds_milli")
        ),
    )

    load_pack(pack)

    with pytest.raises(PackTamperedError, match="fixture 900000"):
        verify_pack(pack)


@pytest.mark.parametrize(
    "label",
    [
        {"provenance": "genuine-txline"},
        {"closing_policy": "last_open"},
        {"max_close_age_s": 21_600},
        {"closing_source": "best"},
        {"margin": "power"},
        {"recipe": {"seed": 3, "fixtures": 12, "messages": 300}},
    ],
)
def test_a_changed_label_is_seen_on_opening(described, label):
    edit(described, lambda content: content["clvlab"].update(label))

    with pytest.raises(PackTamperedError, match="content_hash"):
        load_pack(described)


def test_a_pack_relabelled_genuine_with_a_fitting_hash_is_refused(pack):
    manifest = load_pack(pack).manifest.model_copy(update={"provenance": "genuine-txline"})
    edit(pack, lambda content: content["clvlab"].update(provenance="genuine-txline", content_hash=manifest.content_hash))

    with pytest.raises(PackTamperedError, match="provenance"):
        verify_pack(pack)


@pytest.mark.parametrize("path", ["/etc/passwd", "../starter/ticks.parquet", "sub/ticks.parquet"])
def test_a_path_that_leaves_the_folder_is_refused(described, path):
    edit(described, lambda content: content["resources"][0].update(path=path))

    with pytest.raises(PackFormatError, match=r"resources\.0\.path"):
        load_pack(described)


@pytest.mark.parametrize("name", ["ticks.parquet", "datapackage.json"])
def test_a_symbolic_link_is_refused(described, name):
    (described / name).rename(described / "real")
    (described / name).symlink_to(described / "real")

    with pytest.raises(PackFormatError, match="symbolic link"):
        load_pack(described)


def test_a_descriptor_beyond_its_limit_is_not_read(described):
    with (described / "datapackage.json").open("ab") as file:
        file.write(b" " * MAX_DESCRIPTOR_BYTES)

    with pytest.raises(PackFormatError, match=r"datapackage.json' has [0-9,]+ bytes, the limit is 33,554,432"):
        load_pack(described)
    with pytest.raises(PackFormatError, match=r"'s3://b/p' has 33,554,433 bytes"):
        parse_manifest(b" " * (MAX_DESCRIPTOR_BYTES + 1), "s3://b/p")


def test_a_descriptor_that_could_not_be_read_again_is_not_written(described, monkeypatch):
    manifest = load_pack(described).manifest
    monkeypatch.setattr("clvlab.packs.manifest.MAX_DESCRIPTOR_BYTES", 1000)

    with pytest.raises(PackFormatError, match=r"datapackage.json of 'starter' has [0-9,]+ bytes, the limit is 1,000"):
        descriptor(manifest, {})


def test_a_file_beside_the_ticks_beyond_its_limit_is_not_read(described, monkeypatch):
    opened = load_pack(described)
    monkeypatch.setattr("clvlab.packs.folder.MAX_WHOLE_BYTES", 10)

    with pytest.raises(PackFormatError, match=r"results.parquet' has [0-9,]+ bytes, the limit is 10"):
        _ = opened.results


def test_truncated_parquet_is_refused(pack):
    path = pack / "ticks.parquet"
    path.write_bytes(path.read_bytes()[:5000])
    edit(pack, lambda content: content["resources"][0].update(hash=file_sha256(path)))

    with pytest.raises(PackFormatError, match="can't be read as ticks"):
        verify_pack(pack)


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.with_columns(pl.col("prob_bps").cast(pl.Float64)),
        lambda t: t.with_columns(pl.col("ts_ms").cast(pl.String)),
        lambda t: t.with_columns(pl.col("fixture_id").cast(pl.Int32)),
        lambda t: t.with_columns(pl.col("side").cast(pl.Binary)),
    ],
)
def test_wrong_dtypes_are_refused(pack, change):
    rewrite_ticks(pack, change)

    with pytest.raises(PackFormatError, match="dtype"):
        verify_pack(pack)


@pytest.mark.parametrize("column", ["market_key", "side"])
def test_a_name_that_changes_inside_a_series_is_refused(pack, column):
    last = pl.int_range(pl.len()) == pl.len() - 1
    rewrite_ticks(pack, lambda ticks: ticks.with_columns(pl.when(last).then(pl.lit("x")).otherwise(column).alias(column)))

    with pytest.raises(PackFormatError, match=f"{column} of .* changes inside a series"):
        verify_pack(pack)


def test_series_numbered_otherwise_or_a_column_too_many_are_refused(pack):
    rewrite_ticks(pack, lambda ticks: ticks.with_columns((pl.col("series") + 1).cast(pl.UInt32).alias("series")))
    with pytest.raises(PackFormatError, match="series of"):
        verify_pack(pack)

    rewrite_ticks(
        pack, lambda ticks: ticks.with_columns((pl.col("series") - 1).cast(pl.UInt32).alias("series"), note=pl.lit(1))
    )
    with pytest.raises(PackFormatError, match="not those of the format"):
        verify_pack(pack)


def test_a_missing_column_is_refused(pack):
    rewrite_ticks(pack, lambda ticks: ticks.drop("suspended"))

    with pytest.raises(PackFormatError, match="suspended"):
        verify_pack(pack)


def test_unsorted_ticks_are_refused(pack):
    rewrite_ticks(pack, lambda ticks: ticks.reverse())

    with pytest.raises(PackFormatError, match="sorted"):
        verify_pack(pack)


def test_a_link_anywhere_in_a_pack_is_refused(described):
    (described / "more").symlink_to("/etc/passwd")

    with pytest.raises(PackFormatError, match="symbolic link, 'more'"):
        load_pack(described)


def relabel(folder, change):
    """Change labels of a pack and its content hash with them."""
    edit(folder, change)
    manifest, _ = read_manifest(folder)
    edit(folder, lambda content: content["clvlab"].update(content_hash=manifest.content_hash))


def limited(folder, limit):
    relabel(folder, lambda content: content["clvlab"].update(max_close_age_s=limit))
    return verify_pack(folder)


def test_limit_on_the_age_of_a_close_is_part_of_the_content_and_reaches_the_tape(pack):
    before = load_pack(pack)

    after = limited(pack, 21_600)

    assert (before.tape().max_close_age_s, before.closing) == (None, "last_state")
    assert (after.tape().max_close_age_s, after.closing) == (21_600, "last_state, at most 21,600 s old")
    assert after.tape([90000000]).fixture(90000000).max_close_age_s == 21_600
    assert len({pack.content_hash for pack in (before, after, limited(pack, 21_601), limited(pack, 9_007_199_254))}) == 4


@pytest.mark.parametrize("limit", [0, -1, True, 21_600.0, "21600", 9_007_199_255])
def test_limit_that_is_no_positive_number_of_seconds_is_refused(described, limit):
    edit(described, lambda content: content["clvlab"].update(max_close_age_s=limit))

    with pytest.raises(PackFormatError, match=f"max_close_age_s: .* found {limit!r}"):
        load_pack(described)


def test_other_row_counts_than_the_ticks_have_are_refused(pack):
    relabel(pack, lambda content: content["clvlab"]["fixtures"][0].update(rows=-1))

    with pytest.raises(PackTamperedError, match="rows of fixture 90000000"):
        verify_pack(pack)


def test_a_fixture_listed_twice_is_refused(described):
    edit(described, lambda content: content["clvlab"]["fixtures"].insert(0, content["clvlab"]["fixtures"][0]))

    with pytest.raises(PackFormatError, match="once each"):
        load_pack(described)


def test_a_missing_label_is_refused(described):
    edit(described, lambda content: content["clvlab"].pop("margin"))

    with pytest.raises(PackFormatError, match="lacks \\['margin'\\]"):
        load_pack(described)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"name":"x"}'])
def test_a_descriptor_that_is_none_is_refused(described, text):
    (described / "datapackage.json").write_bytes(text)

    with pytest.raises(PackFormatError, match="no pack descriptor"):
        load_pack(described)


def test_a_schedule_stands_beside_actual_kickoffs_only(described):
    edit(described, lambda content: content["clvlab"]["fixtures"][0].update(scheduled_ts_ms=1))

    with pytest.raises(PackFormatError, match="goes with actual kickoffs only"):
        load_pack(described)


def test_a_kickoff_kind_belongs_to_the_content(described):
    edit(described, lambda content: content["clvlab"].update(kickoff="actual"))

    with pytest.raises(PackTamperedError, match="content_hash"):
        load_pack(described)


def test_an_unknown_fixture_is_named(pack):
    with pytest.raises(UnknownFixtureError, match="fixture 5 is not in pack 'starter'; it has 12"):
        load_pack(pack).tape([5])


def test_an_unknown_pack_names_what_there_is():
    with pytest.raises(UnknownPackError, match="season, starter"):
        open_pack("nothing")


def test_row_group_size_does_not_change_what_is_read(pack):
    before = load_pack(pack).tape()
    path = pack / "ticks.parquet"
    pl.read_parquet(path).write_parquet(path, row_group_size=97)
    edit(pack, lambda content: content["resources"][0].update(hash=file_sha256(path)))

    after = verify_pack(pack)

    assert after.tape().rows.equals(before.rows)
    assert after.tape([90000003]).rows.equals(before.fixture(90000003).rows)


@pytest.mark.parametrize("count", [1, 40])
def test_fixture_ids_are_listed_as_often_for_one_fixture_as_for_many(tmp_path, monkeypatch, count):
    fixtures = tuple(Fixture(fixture_id=number) for number in range(count))
    manifest = PackManifest(pack_id="p", provenance="unknown", fixtures=fixtures)
    write_pack(pl.DataFrame(schema=TICKS), manifest, tmp_path / "p")
    opened, listed = load_pack(tmp_path / "p"), []
    ids = opened.fixture_ids
    monkeypatch.setattr(Pack, "fixture_ids", property(lambda _: listed.append(1) or ids))

    opened.tape()
    whole = len(listed)
    opened.tape(ids)

    assert max(whole, len(listed) - whole) <= 4
