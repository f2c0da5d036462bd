import os
import shutil

import orjson
import pytest

from clvlab.arena.packs import bundled_catalog
from clvlab.errors import PackTamperedError, UnknownPackError
from clvlab.packs import catalog as catalogs
from clvlab.packs import folder
from clvlab.packs import folder as folders
from clvlab.packs.catalog import Catalog
from clvlab.packs.files import file_sha256


@pytest.fixture
def catalog(tmp_path):
    shutil.copytree(bundled_catalog().folder / "starter", tmp_path / "starter")
    found = Catalog(tmp_path)
    found.admit("starter")
    return found


def test_an_admitted_pack_opens_by_its_id(catalog):
    assert catalog.open("starter").pack_id == "starter"
    assert [pack.pack_id for pack in catalog.packs()] == ["starter"]


@pytest.mark.parametrize("pack_id", ["../starter", "/starter", "starter/", "", "other"])
def test_a_pack_id_is_never_a_path(catalog, pack_id):
    with pytest.raises(UnknownPackError):
        catalog.open(pack_id)


@pytest.mark.parametrize("name", ["ticks.parquet", "datapackage.json"])
def test_a_tampered_pack_is_not_there(catalog, name):
    path = catalog.folder / "starter" / name
    path.write_bytes(path.read_bytes() + b" ")

    assert catalog.packs() == []
    with pytest.raises(UnknownPackError, match="not verified"):
        catalog.open("starter")


def test_a_pack_that_is_not_on_the_allowlist_is_not_there(catalog):
    (catalog.folder / "catalog.json").unlink()

    assert catalog.packs() == []


def test_another_content_hash_than_the_admitted_one_is_not_there(catalog):
    entries = orjson.loads((catalog.folder / "catalog.json").read_bytes())
    entries["starter"]["content_hash"] = "sha256:" + "0" * 64
    (catalog.folder / "catalog.json").write_bytes(orjson.dumps(entries))

    assert catalog.packs() == []


def test_a_tampered_pack_is_not_admitted(catalog):
    path = catalog.folder / "starter" / "ticks.parquet"
    path.write_bytes(path.read_bytes() + b" ")

    with pytest.raises(PackTamperedError):
        catalog.admit("starter")


def test_the_bundled_packs_are_synthetic_and_verified():
    packs = bundled_catalog().packs()

    assert [pack.pack_id for pack in packs] == ["season", "starter"]
    assert {pack.provenance for pack in packs} == {"synthetic-clvlab"}
    assert not any(pack.is_genuine for pack in packs)


@pytest.fixture
def hashed(catalog, monkeypatch):
    """The files that are hashed; those of the pack are not young."""
    found = []
    monkeypatch.setattr(folder, "_MOMENT_NS", -1)
    for module in (catalogs, folders):
        monkeypatch.setattr(module, "file_sha256", lambda path: [found.append(path.name), file_sha256(path)][1])
    catalog.open("starter")
    found.clear()
    return found


def test_a_pack_is_hashed_once_as_long_as_its_files_stay(catalog, hashed):
    assert catalog.open("starter") == catalog.packs()[0]
    assert hashed == []


@pytest.mark.parametrize("name", ["ticks.parquet", "datapackage.json"])
def test_a_file_that_changes_after_the_pack_was_opened_is_seen_whatever_its_times_say(catalog, hashed, name):
    path = catalog.folder / "starter" / name
    before, content = path.stat(), bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    with pytest.raises(UnknownPackError, match="not verified"):
        catalog.open("starter")
    assert name in hashed


def test_a_link_that_comes_later_is_seen(catalog, hashed, tmp_path):
    (catalog.folder / "starter" / "more").symlink_to(tmp_path)

    with pytest.raises(UnknownPackError, match="symbolic link"):
        catalog.open("starter")
    assert hashed is not None


def test_another_entry_of_the_same_pack_is_looked_at(catalog, hashed):
    entries = orjson.loads((catalog.folder / "catalog.json").read_bytes())
    entries["starter"]["content_hash"] = "sha256:" + "0" * 64
    (catalog.folder / "catalog.json").write_bytes(orjson.dumps(entries))

    with pytest.raises(UnknownPackError, match="content_hash"):
        catalog.open("starter")
    assert hashed


def test_a_young_file_is_hashed_every_time(catalog, hashed, monkeypatch):
    monkeypatch.setattr(folder, "_MOMENT_NS", 10**18 * 9)
    catalog.open("starter")
    catalog.open("starter")

    assert hashed.count("ticks.parquet") == 2
