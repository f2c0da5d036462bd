import pytest
from polars.testing import assert_frame_equal

import clvlab as cl
from clvlab.arena.packs import push_pack
from clvlab.errors import PackTamperedError
from clvlab.packs.ladders import sorted_ladders
from clvlab.packs.reader import load_pack
from clvlab.packs.remote.packs import pull_pack
from clvlab.packs.writer import write_pack
from tests.packs.test_ladders import ladders, manifest, ticks

URL = "s3://tested/mine/deep"


@pytest.fixture
def pushed(s3, tmp_path):
    write_pack(ticks(), manifest(), tmp_path / "deep", ladders=ladders())
    push_pack(tmp_path / "deep", URL)
    s3.asked.clear()
    return s3, tmp_path / "deep"


def test_ladders_are_read_there_where_somebody_asks_for_them(pushed, tmp_path):
    server, folder = pushed
    pack = cl.open_pack(URL).source
    pack.tape()

    assert not [path for _, path, _ in server.asked if path.endswith("ladders.parquet")]
    assert_frame_equal(pack.ladders().collect(), sorted_ladders(ladders()))
    assert set(pack.ladders([2]).collect()["fixture_id"]) == {2}
    pull_pack(URL, tmp_path / "here")
    assert load_pack(tmp_path / "here").content_hash == load_pack(folder).content_hash
    assert load_pack(tmp_path / "here").ladders().collect().equals(sorted_ladders(ladders()))


def test_ladders_that_were_changed_there_are_refused(pushed):
    server, folder = pushed
    content = bytearray((folder / "ladders.parquet").read_bytes())
    content[200] ^= 1
    server.change("mine/deep/ladders.parquet", bytes(content))

    with pytest.raises(PackTamperedError, match="ladders"):
        cl.open_pack(URL).source.ladders().collect()
