"""A bucket and a web server on loopback, and a small pack of many row groups."""

import pytest

from clvlab.packs.synthetic import Recipe, build
from tests.packs.remote.buckets import bucket
from tests.packs.remote.web import serving


@pytest.fixture(scope="session")
def store():
    with bucket() as made:
        yield made


@pytest.fixture
def s3(store, monkeypatch, tmp_path):
    """An empty bucket, whose credentials stand in the environment."""
    for name, value in (store.variables | {"CLVLAB_CACHE": str(tmp_path / "cache")}).items():
        monkeypatch.setenv(name, value)
    for key in store.names():
        store.remove(key)
    store.asked.clear()
    return store


@pytest.fixture(scope="session")
def many(tmp_path_factory):
    """A pack of eight fixtures in as many row groups."""
    folder = tmp_path_factory.mktemp("packs") / "many"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("clvlab.packs.writer._ROWS_PER_GROUP", 1)
        build(Recipe(3, 8, 40), folder)
    return folder


@pytest.fixture
def web(tmp_path, monkeypatch):
    """A web server over the folder ``served``, whose failures are not waited for."""
    monkeypatch.setenv("CLVLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("clvlab.packs.remote.bucket.TIMEOUT_S", 3.0)
    monkeypatch.setattr("clvlab.packs.remote.bucket._RETRIES", 0)
    (tmp_path / "served").mkdir()
    with serving(tmp_path / "served") as server:
        yield server
