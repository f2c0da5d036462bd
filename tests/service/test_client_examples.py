import doctest

import pytest

from clvlab.client import client
from clvlab.packs.synthetic import Recipe, build
from tests.arena.archives import files_of, zipped
from tests.service.serving import api

pytestmark = pytest.mark.long


def test_examples_of_the_client_hold_at_a_service(keys, tmp_path, monkeypatch):
    build(Recipe(seed=7, fixtures=1, messages=40), tmp_path / "mine")
    (tmp_path / "pack.zip").write_bytes(zipped(files_of(tmp_path / "mine")))
    monkeypatch.chdir(tmp_path)

    with api(keys, uploads=tmp_path / "uploads") as served:
        done = doctest.testmod(client, extraglobs={"url": served.url, "token": served.token()}, optionflags=doctest.ELLIPSIS)

    assert done.attempted > 35
    assert done.failed == 0
