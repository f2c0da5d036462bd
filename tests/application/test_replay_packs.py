import shutil

import pytest

from clvlab.application.application import Application
from clvlab.application.packs import bundled_catalog
from clvlab.errors import UnknownPackError
from clvlab.packs.catalog import Catalog


def test_packs_say_what_they_are_and_never_where(in_memory):
    listed = in_memory.packs.all()["packs"]

    assert {"starter", "season"} <= {pack["pack_id"] for pack in listed}
    for pack in listed:
        assert set(pack) == {"pack_id", "content_hash", "provenance", "is_genuine", "fixtures"}
        assert in_memory.packs.info(pack["pack_id"]) == pack
        assert pack["is_genuine"] is False
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
