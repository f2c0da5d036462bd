import re
import shutil

import orjson
import polars as pl
import pyarrow.parquet as pq
import pytest

import clvlab as cl
from clvlab.arena.packs import bundled_catalog, packs_at, push_pack
from clvlab.base.invocation import command
from clvlab.errors import (
    PackFormatError,
    PackTamperedError,
    RemoteError,
    UnknownFixtureError,
    UnknownPackError,
    UnsupportedError,
)
from clvlab.packs.files import content_hash
from clvlab.packs.manifest import read_manifest
from clvlab.packs.reader import load_pack
from tests.commands import clvlab

URL = "s3://tested/mine/many"
KEY = "mine/many"
VERIFIED = "fixtures verified as they are read"


@pytest.fixture
def pushed(s3, many):
    push_pack(many, URL)
    s3.asked.clear()
    return s3


def served(server, name="ticks.parquet"):
    """Bytes of a file that were read."""
    return sum(size for method, path, size in server.asked if method == "GET" and path.endswith(name))


def with_other_ticks(folder, fixture_id):
    """The ticks file with another price in one fixture."""
    table = pl.read_parquet(folder / "ticks.parquet")
    first = pl.col("fixture_id").eq(fixture_id).cum_sum().eq(1) & pl.col("fixture_id").eq(fixture_id)
    changed = table.with_columns(pl.when(first).then(7777).otherwise("odds_milli").cast(pl.Int32).alias("odds_milli"))
    sink = folder.parent / "changed.parquet"
    schema = pq.read_schema(folder / "ticks.parquet")
    with pq.ParquetWriter(sink, schema) as writer:
        for _, part in changed.group_by("fixture_id", maintain_order=True):
            writer.write_table(part.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(schema))
    return sink.read_bytes()


@pytest.mark.usefixtures("s3")
def test_a_backtest_of_one_fixture_is_that_of_the_pack_in_a_folder():
    push_pack("starter", "s3://tested/mine/starter")

    there = cl.backtest(cl.open_pack("s3://tested/mine/starter"), agent="cumulative-drift", fixtures=[90000003])
    here = cl.backtest("starter", agent="cumulative-drift", fixtures=[90000003])

    assert there.run.source == here.run.source
    assert there.run.verify().passed
    assert {name: value for name, value in there.report.items() if name != "pack_verification"} == here.report


@pytest.mark.usefixtures("pushed")
def test_a_view_of_a_pack_elsewhere_is_that_of_the_pack_in_a_folder(many):
    here, there = cl.open_pack(many), cl.open_pack(URL)
    filters = {"fixtures": here.fixture_ids[2:5], "markets": "1X2"}

    one, other = here.where(**filters), there.where(**filters)

    assert one.content_hash == other.content_hash
    assert one.ticks().equals(other.ticks())
    assert cl.backtest(one, "baseline").run.source == cl.backtest(other, "baseline").run.source
    assert "verified as they are read" in repr(other)
    assert cl.concat([other, there.where(fixtures=here.fixture_ids[:2])]).ticks().height


@pytest.mark.parametrize("chosen", [None, [0], [2, 5], [7]], ids=str)
@pytest.mark.usefixtures("pushed")
def test_a_tape_is_that_of_the_pack_in_a_folder(many, chosen):
    here, there = load_pack(many), cl.open_pack(URL).source
    ids = None if chosen is None else [here.fixture_ids[index] for index in chosen]

    ours, theirs = here.tape(ids), there.tape(ids)

    assert ours.binding == theirs.binding
    for name in ("rows", "series", "fixtures"):
        assert getattr(ours, name).equals(getattr(theirs, name))
    assert here.results.equals(there.results)


def test_of_many_row_groups_only_those_of_the_fixture_are_read(pushed, many, monkeypatch):
    monkeypatch.setattr("clvlab.packs.remote.packs._TAIL_BYTES", 100)  # less than the footer, as in a large pack
    metadata = pq.read_metadata(many / "ticks.parquet")
    group = metadata.row_group(3)
    size = sum(group.column(number).total_compressed_size for number in range(group.num_columns))
    pack = cl.open_pack(URL)

    pack.ticks([pack.fixture_ids[3]])

    assert served(pushed) == 100 + metadata.serialized_size + 8 + size


@pytest.mark.usefixtures("pushed")
def test_pack_report_and_commands_say_how_it_was_verified(tmp_path):
    pack = cl.open_pack(URL)
    test = cl.backtest(pack, fixtures=list(pack.fixture_ids[:1]))

    assert VERIFIED in repr(pack)
    assert VERIFIED in pack._repr_html_()
    assert VERIFIED in test.report._repr_html_()
    assert VERIFIED in clvlab(tmp_path, "packs", "show", URL)[1]
    assert VERIFIED in clvlab(tmp_path, "backtest", URL)[1]
    assert "verification" not in clvlab(tmp_path, "packs", "show", "starter")[1]
    assert "pack_verification" not in cl.backtest("starter").report


def test_a_tampered_fixture_fails_alone(pushed, many, tmp_path):
    bad = load_pack(many).fixture_ids[3]
    pushed.change(f"{KEY}/ticks.parquet", with_other_ticks(many, bad))
    pack = cl.open_pack(URL)

    good = pack.ticks([one for one in pack.fixture_ids if one != bad])

    assert good["fixture_id"].n_unique() == 7
    with pytest.raises(PackTamperedError, match=f"fixture {bad} of 'many' at {URL}"):
        pack.ticks([bad])
    code, _, said = clvlab(tmp_path, "packs", "verify", URL)
    assert (code, "fail" in said) == (1, True)


def test_a_descriptor_that_was_changed_is_refused(pushed, many):
    content = orjson.loads((many / "datapackage.json").read_bytes())
    content["clvlab"]["closing_source"] = "venue"
    pushed.change(f"{KEY}/datapackage.json", orjson.dumps(content))

    with pytest.raises(PackTamperedError, match=f"content_hash of 'many' at {URL}"):
        cl.open_pack(URL)


def test_a_descriptor_that_was_forged_whole_is_refused_where_its_hash_is_known(pushed, many):
    known = load_pack(many).content_hash
    content = orjson.loads((many / "datapackage.json").read_bytes())
    content["clvlab"]["closing_source"] = "venue"
    stated = {key: value for key, value in content["clvlab"].items() if key != "content_hash"}
    content["clvlab"]["content_hash"] = content_hash(stated)
    assert cl.open_pack(URL, content_hash=known).content_hash == known
    pushed.change(f"{KEY}/datapackage.json", orjson.dumps(content))

    assert cl.open_pack(URL).content_hash != known
    with pytest.raises(PackTamperedError, match=f"content_hash of 'many' at {URL}: expected {known}"):
        cl.open_pack(URL, content_hash=known)


def test_the_hash_of_a_pack_in_a_folder_can_be_given_too(many):
    assert cl.open_pack(many, content_hash=load_pack(many).content_hash).pack_id == "many"
    with pytest.raises(PackTamperedError, match="content_hash of 'many'"):
        cl.open_pack(many, content_hash="sha256:" + "0" * 64)


def test_a_file_that_changes_after_it_was_opened_is_noticed(pushed, many, monkeypatch):
    monkeypatch.setattr("clvlab.packs.remote.packs._TAIL_BYTES", 100)
    pack = cl.open_pack(URL)
    first, second = pack.fixture_ids[:2]
    pack.ticks([first])
    pushed.change(f"{KEY}/ticks.parquet", (many / "ticks.parquet").read_bytes() + b"more")

    with pytest.raises(RemoteError, match=rf"{URL}/ticks\.parquet was changed since it was opened"):
        pack.ticks([second])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"PAR1" * 40, "is no Parquet file"),
        (b"odds", "is no Parquet file"),
        (b"x" * 50 + (20).to_bytes(4, "little") + b"PAR1", "can't be read as ticks"),
    ],
)
def test_a_file_that_holds_no_ticks_is_refused(pushed, content, reason):
    pushed.change(f"{KEY}/ticks.parquet", content)

    with pytest.raises(PackFormatError, match=rf"'{URL}/ticks\.parquet' {reason}"):
        cl.open_pack(URL).ticks()


def test_a_parquet_file_of_something_else_is_refused(pushed, tmp_path):
    pl.DataFrame({"fixture_id": [1, 2]}).write_parquet(tmp_path / "other.parquet")
    pushed.change(f"{KEY}/ticks.parquet", (tmp_path / "other.parquet").read_bytes())

    with pytest.raises(PackFormatError, match=r"has other columns than ticks: .*fixture_id"):
        cl.open_pack(URL).ticks()


def test_changed_results_are_refused(pushed):
    pushed.change(f"{KEY}/results.parquet", b"won")

    with pytest.raises(PackTamperedError, match=rf"results\.parquet of 'many' at {URL}"):
        _ = cl.open_pack(URL).results


def test_only_whole_packs_are_listed(pushed, tmp_path):
    pushed.change("mine/half/ticks.parquet", b"half a pack")
    pushed.change("mine/broken/datapackage.json", b"{}")
    pushed.change("mine/notes.txt", b"no pack")

    code, out, _ = clvlab(tmp_path, "packs", "list", "s3://tested/mine", "--json")

    assert code == 0
    assert [(pack["url"], pack["pack_id"]) for pack in orjson.loads(out)] == [(URL, "many")]
    assert f"{URL}\nPack many" in clvlab(tmp_path, "packs", "list", "s3://tested/mine")[1]


@pytest.mark.usefixtures("s3")
def test_a_listed_url_opens_the_pack_whatever_its_name(many):
    push_pack(many, "s3://tested/some packs/50%25 [x] é")

    ((url, pack),) = packs_at("s3://tested/some%20packs")

    assert cl.open_pack(url).content_hash == pack.content_hash


def test_half_a_pack_is_none(pushed):
    pushed.remove(f"{KEY}/datapackage.json")

    with pytest.raises(UnknownPackError, match=rf"no pack: {URL}/datapackage\.json: nothing is there"):
        cl.open_pack(URL)


@pytest.mark.usefixtures("pushed")
def test_a_pack_is_verified_and_brought_here_whole(many, tmp_path):
    code, out, _ = clvlab(tmp_path, "packs", "verify", URL)
    assert (code, "pass" in out) == (0, True)

    assert clvlab(tmp_path, "packs", "pull", URL, "--out", "mine")[0] == 0

    names = sorted(path.name for path in many.iterdir())
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == names
    assert all((tmp_path / "mine" / name).read_bytes() == (many / name).read_bytes() for name in names)
    assert clvlab(tmp_path, "packs", "pull", URL, "--out", "mine")[0] == 2


@pytest.mark.usefixtures("s3")
def test_raw_files_come_along(tmp_path):
    from tests.packs.remote.raw import make_raw_pack

    folder = make_raw_pack(tmp_path / "kept")
    push_pack(folder, "s3://tested/kept")

    assert clvlab(tmp_path, "packs", "pull", "s3://tested/kept", "--out", "again")[0] == 0

    assert (tmp_path / "again" / "raw" / "a b#%é.json").read_bytes() == (folder / "raw" / "a b#%é.json").read_bytes()


def test_an_unknown_fixture_is_refused_without_a_request(pushed):
    pack = cl.open_pack(URL)
    pushed.asked.clear()

    with pytest.raises(UnknownFixtureError):
        pack.ticks([1])
    assert pushed.asked == []


@pytest.mark.usefixtures("pushed")
def test_what_needs_the_folder_says_how_to_get_it():
    with pytest.raises(UnsupportedError, match=re.escape(command("packs", "pull", URL, "--out", "FOLDER"))):
        cl.sweep(cl.open_pack(URL), "cumulative-drift", {"warmup_ticks": [5, 6]}, progress=False)


@pytest.mark.usefixtures("pushed")
def test_a_laboratory_keeps_runs_over_it_and_they_are_replayed(tmp_path):
    with cl.Lab(str(tmp_path / "lab.db")) as lab:
        result = lab.backtest(URL, "cumulative-drift")
        assert lab.open_run(result.run.run_id).run.verify().passed
    folder = result.run.save(tmp_path)

    code, out, _ = clvlab(tmp_path, "verify", folder, "--replay", "--pack", URL)

    assert (code, "replay: agrees" in out) == (0, True)


@pytest.mark.usefixtures("pushed")
def test_a_pack_goes_to_another_process():
    import pickle

    pack = cl.open_pack(URL)
    pack.ticks()
    sent = pickle.dumps(pack)

    assert b"hidden-key" not in sent
    assert pickle.loads(sent).ticks().equals(pack.ticks())


def test_packs_of_the_catalog_are_not_read_from_elsewhere():
    assert {pack.verification for pack in bundled_catalog().packs()} == {""}


@pytest.mark.usefixtures("s3")
def test_a_pack_of_fixtures_without_ticks_is_read(many, tmp_path):
    from clvlab.law.schema import TICKS
    from clvlab.packs.writer import write_pack

    manifest = read_manifest(many)[0].model_copy(update={"pack_id": "empty", "results_sha256": None})
    write_pack(pl.DataFrame(schema=TICKS), manifest, tmp_path / "empty")
    push_pack(tmp_path / "empty", "s3://tested/empty")

    assert cl.open_pack("s3://tested/empty").ticks().height == 0
    shutil.rmtree(tmp_path / "empty")
