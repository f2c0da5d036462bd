import shutil

import orjson
import pytest

from clvlab.application.packs import bundled_catalog
from clvlab.errors import PackTamperedError, UnknownPackError
from clvlab.packs.catalog import Catalog


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
