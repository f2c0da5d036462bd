import pytest

import clvlab as cl
from clvlab.arena.packs import push_pack
from clvlab.errors import PackTamperedError
from clvlab.packs.reader import load_pack
from clvlab.packs.remote.packs import pull_pack
from tests import booked

URL = "s3://tested/mine/booked"


@pytest.fixture
def pushed(s3, tmp_path):
    booked.write_booked(tmp_path / "booked")
    push_pack(tmp_path / "booked", URL)
    s3.asked.clear()
    return s3, tmp_path / "booked"


def asked_for_books(server):
    return [path for method, path, _ in server.asked if method == "GET" and path.endswith("books.parquet")]


def test_a_run_that_closes_by_a_book_is_that_of_the_pack_in_a_folder(pushed):
    server, folder = pushed
    there, here = (cl.backtest(cl.open_pack(where), "baseline", close="ash").run.source for where in (URL, folder))

    assert there == here
    assert asked_for_books(server)


def test_books_are_read_only_where_somebody_asks_for_them(pushed):
    server, _ = pushed
    cl.backtest(cl.open_pack(URL), "baseline", fixtures=[2])

    assert not asked_for_books(server)
    assert set(cl.open_pack(URL).source.tape([2]).books.collect()["fixture_id"]) == {2}


def test_books_that_were_changed_there_are_refused(pushed):
    server, folder = pushed
    content = bytearray((folder / "books.parquet").read_bytes())
    content[200] ^= 1
    server.change("mine/booked/books.parquet", bytes(content))

    with pytest.raises(PackTamperedError, match="books"):
        cl.open_pack(URL).source.tape().books.collect()


def test_a_pack_comes_here_with_its_books(pushed, tmp_path):
    _, folder = pushed
    pull_pack(URL, tmp_path / "here")

    assert load_pack(tmp_path / "here").content_hash == load_pack(folder).content_hash
    assert (tmp_path / "here" / "books.parquet").is_file()
