import shutil

import pytest
from pydantic import TypeAdapter

from clvlab.api.packs import PackFixturesResponse
from clvlab.arena.application import Application
from clvlab.arena.fixtures import FixtureFilter
from clvlab.arena.packs import bundled_catalog
from clvlab.errors import UnknownPackError
from clvlab.packs.catalog import Catalog
from clvlab.packs.manifest import Capture, Fixture, Gap, KickoffKind, PackManifest
from clvlab.packs.quality import QualityAccount
from clvlab.packs.synthetic import Recipe, build
from clvlab.packs.writer import PackWriter
from tests.factories import MARKET, make_tape, message


def test_packs_say_what_they_are_and_never_where(in_memory):
    listed = in_memory.packs.all()["packs"]

    assert {"starter", "season"} <= {pack["pack_id"] for pack in listed}
    for pack in listed:
        assert set(pack) == {"pack_id", "content_hash", "provenance", "is_genuine", "grade", "fixtures"}
        assert in_memory.packs.info(pack["pack_id"]) == pack
        assert pack["is_genuine"] is False
        assert pack["grade"] == "not shown"
    assert str(bundled_catalog().folder) not in str(listed)


@pytest.mark.parametrize("pack_id", ["absent", "../packs/starter", "/etc", "starter/", ""])
def test_a_pack_is_found_by_its_key_alone(in_memory, pack_id):
    with pytest.raises(UnknownPackError):
        in_memory.packs.info(pack_id)


def test_a_tampered_pack_is_not_there_and_its_folder_is_not_named(tmp_path):
    shutil.copytree(bundled_catalog().folder, tmp_path / "packs")
    (tmp_path / "packs" / "starter" / "datapackage.json").write_bytes(b"{}")
    application = Application(catalog=Catalog(tmp_path / "packs"))

    assert [pack["pack_id"] for pack in application.packs.all()["packs"]] == ["season"]
    with pytest.raises(UnknownPackError) as refused:
        application.packs.info("starter")
    assert str(tmp_path) not in str(refused.value)
    application.close()


def test_a_page_opens_no_packs_of_others_and_leaves_out_tampered_ones(tmp_path, monkeypatch):
    catalog, opened = Catalog(tmp_path / "packs"), []
    for name in ("a", "b", "c", "d", "e"):
        build(Recipe(fixtures=1, messages=20), tmp_path / "packs" / name)
        catalog.admit(name)
    (tmp_path / "packs" / "b" / "datapackage.json").write_bytes(b"{}")
    application, open_pack = Application(catalog=catalog), Catalog.open
    monkeypatch.setattr(Catalog, "open", lambda own, name: opened.append(name) or open_pack(own, name))

    first, cursor = application.packs.page(None, 2)
    there = list(opened)
    rest, end = application.packs.page(cursor, 2)

    assert ([pack["pack_id"] for pack in first["packs"]], cursor, there) == (["a", "c"], "c", ["a", "b", "c", "d"])
    assert ([pack["pack_id"] for pack in rest["packs"]], end) == (["d", "e"], None)
    assert application.packs.page("zzz", 2) == ({"packs": []}, None)
    application.close()


def write_import(folder):
    """A pack with gaps, a quality report, and kickoffs known only afterwards; of its second fixture it has no tick."""
    capture = Capture(method="m", tool="t", started_ts_ms=0, ended_ts_ms=9, gaps=(Gap(from_ts_ms=1, to_ts_ms=2),))
    fixtures = (
        Fixture(fixture_id=1, names=("a", "b"), kickoff_ts_ms=600_000, scheduled_ts_ms=500_000),
        Fixture(fixture_id=2, source_id="two", kickoff_ts_ms=700_000),
    )
    manifest = PackManifest(
        pack_id=folder.name, provenance="unknown", capture=capture, kickoff=KickoffKind.ACTUAL, fixtures=fixtures
    )
    quotes = [message(0, 10, {"part1": 4000, "part2": 6000}), message(1, 20, {"part1": 4100, "part2": 5900})]
    tape, account = make_tape(quotes, {1: 600}), QualityAccount()
    account.add(tape)
    quality = account.report(files=1, fixtures=[600_000, 700_000])
    with PackWriter(folder, fixtures) as writer:
        writer.add(tape)
        writer.finish(manifest, quality=quality)
    return quality


def test_fixtures_of_an_import_come_with_its_gaps_and_quality_and_the_kickoffs_that_agents_see(tmp_path):
    quality = write_import(tmp_path / "off")
    Catalog(tmp_path).admit("off")
    application = Application(catalog=Catalog(tmp_path))

    answer = application.packs.fixtures("off", FixtureFilter())

    assert (answer["kickoff"], answer["gaps"]) == ("actual", [{"from_ts_ms": 1, "to_ts_ms": 2}])
    assert answer["quality"] == quality.model_dump(mode="json", by_alias=True)
    assert TypeAdapter(PackFixturesResponse).validate_python(answer)
    assert answer["fixtures"] == [
        {
            "fixture_id": 1, "names": ["a", "b"], "source_id": None, "announced_ts_ms": 500_000, "kickoff_ts_ms": 600_000,
            "first_ts_ms": 10_000, "last_ts_ms": 20_000, "ticks": 2,
            "markets": [{"market_key": MARKET, "sides": ["part1", "part2"], "ticks": 2}],
        },
        {
            "fixture_id": 2, "names": [], "source_id": "two", "announced_ts_ms": None, "kickoff_ts_ms": 700_000,
            "first_ts_ms": None, "last_ts_ms": None, "ticks": 0, "markets": [],
        },
    ]  # fmt: skip
    assert [one["fixture_id"] for one in application.packs.fixtures("off", FixtureFilter(after=0))["fixtures"]] == [1]
    application.close()


def test_fixtures_of_a_pack_whose_quality_report_is_another_are_not_there(tmp_path):
    write_import(tmp_path / "off")
    Catalog(tmp_path).admit("off")
    (tmp_path / "off" / "quality.json").write_text("{}")
    application = Application(catalog=Catalog(tmp_path))

    with pytest.raises(UnknownPackError):
        application.packs.fixtures("off", FixtureFilter())
    application.close()


@pytest.mark.parametrize("name", ["ticks.parquet", "datapackage.json"])
def test_fixtures_of_a_pack_that_was_tampered_with_after_they_were_read_are_not_there(one_pack, name):
    application = Application(catalog=one_pack)
    assert application.packs.fixtures("starter", FixtureFilter())["total"] == 12

    with (one_pack.folder / "starter" / name).open("ab") as file:
        file.write(b" ")

    with pytest.raises(UnknownPackError):
        application.packs.fixtures("starter", FixtureFilter())
    application.close()
