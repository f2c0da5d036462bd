import shutil

import orjson
import pytest

from clvlab.arena.application import Application
from clvlab.arena.packs import bundled_catalog
from clvlab.packs.catalog import Catalog


@pytest.fixture(scope="session", autouse=True)
def _tables(tables_in_memory):
    """Every test here may open a store in memory."""


@pytest.fixture
def application(database_url):
    """Application over an empty store of each kind; its workers are not started."""
    opened = Application(database_url)
    yield opened
    opened.close()


@pytest.fixture
def in_memory():
    """Application over an empty store in memory, for what does not depend on the store."""
    opened = Application()
    yield opened
    opened.close()


@pytest.fixture
def one_pack(tmp_path):
    """Catalog of the starter pack alone."""
    own = tmp_path / "packs"
    shutil.copytree(bundled_catalog().folder / "starter", own / "starter")
    entries = {"starter": bundled_catalog().entries()["starter"]}
    (own / "catalog.json").write_bytes(orjson.dumps(entries))
    return Catalog(own)


@pytest.fixture
def one_sound_pack(tmp_path):
    """Catalog of the starter pack, and of another that was tampered with since it was admitted."""
    own = tmp_path / "packs"
    own.mkdir()
    entries = {}
    for pack_id in ("starter", "season"):
        shutil.copytree(bundled_catalog().folder / pack_id, own / pack_id)
        entries[pack_id] = bundled_catalog().entries()[pack_id]
    (own / "season" / "ticks.parquet").write_bytes(b"other ticks")
    (own / "catalog.json").write_bytes(orjson.dumps(entries))
    return Catalog(own)
