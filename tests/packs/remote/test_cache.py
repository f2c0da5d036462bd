import os
import threading

import polars as pl
import pytest

import clvlab as cl
from clvlab.arena.packs import push_pack
from clvlab.errors import FileError, SettingsError
from clvlab.packs.reader import load_pack
from clvlab.packs.remote.packs import Cache, cache_of_environment

URL = "s3://tested/mine/many"


@pytest.fixture
def pushed(s3, many):
    push_pack(many, URL)
    s3.asked.clear()
    return s3


def asked(server):
    return [path for _, path, _ in server.asked if path.endswith("ticks.parquet")]


def files(cache):
    return sorted((cache / "fixtures").iterdir(), key=lambda path: path.stat().st_mtime)


def test_a_fixture_is_read_once(pushed, tmp_path):
    first = cl.open_pack(URL).ticks()
    pushed.asked.clear()

    again = cl.open_pack(URL).ticks()

    assert again.equals(first)
    assert asked(pushed) == []
    assert len(files(tmp_path / "cache")) == 8


def test_neighbours_in_a_row_group_are_kept_too(s3):
    push_pack("starter", "s3://tested/starter")
    pack = cl.open_pack("s3://tested/starter")
    pack.ticks([pack.fixture_ids[0]])
    s3.asked.clear()

    pack.ticks()

    assert asked(s3) == []


@pytest.mark.usefixtures("pushed")
def test_a_fixture_is_kept_under_its_digest_whichever_pack_has_it(many, tmp_path):
    digests = {str(fixture.digest).removeprefix("sha256:") for fixture in load_pack(many).manifest.fixtures}

    cl.open_pack(URL).ticks()

    assert {path.stem for path in files(tmp_path / "cache")} == digests


@pytest.mark.parametrize("damage", [b"", b"PAR1 and no more", None], ids=["empty", "cut", "another fixture"])
def test_a_damaged_file_is_read_anew_and_mended(pushed, many, tmp_path, damage):
    pack = cl.open_pack(URL)
    first, second = pack.ticks(), load_pack(many).tape().ticks().collect(engine="in-memory")
    one, other = files(tmp_path / "cache")[:2]
    whole = one.read_bytes()
    one.write_bytes(other.read_bytes() if damage is None else damage)
    pushed.asked.clear()

    assert pack.ticks().equals(first)
    assert first.equals(second)
    assert len(asked(pushed)) == 1
    assert pl.read_parquet(one).equals(pl.read_parquet(whole))


@pytest.mark.usefixtures("pushed")
def test_what_was_used_least_recently_goes(tmp_path):
    cache = tmp_path / "cache"
    pack = cl.open_pack(URL)
    pack.ticks()
    for age, path in enumerate(files(cache)):
        os.utime(path, (age, age))
    oldest, *others = files(cache)
    sizes = {path: path.stat().st_size for path in others}
    kept = Cache(cache, sum(sizes.values()))

    kept.read(oldest.stem)  # now it was used last
    kept.trim()

    assert oldest.exists()
    assert not others[0].exists()
    assert sum(path.stat().st_size for path in files(cache)) <= kept.limit_bytes


@pytest.mark.usefixtures("pushed")
def test_no_more_is_kept_than_the_limit_allows(tmp_path, monkeypatch):
    monkeypatch.setenv("CLVLAB_CACHE_BYTES", "20000")
    cl.open_pack(URL).ticks()

    assert 0 < sum(path.stat().st_size for path in files(tmp_path / "cache")) <= 20_000


@pytest.mark.usefixtures("pushed")
def test_nothing_is_kept_with_a_limit_of_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("CLVLAB_CACHE_BYTES", "0")

    assert cl.open_pack(URL).ticks().height
    assert not (tmp_path / "cache").exists()


def test_what_another_process_writes_is_let_be_until_it_is_old(tmp_path):
    folder = tmp_path / "fixtures"
    folder.mkdir()
    for name, at in ((".new", None), (".old", (1, 1))):
        (folder / name).write_bytes(b"half")
        if at:
            os.utime(folder / name, at)

    Cache(tmp_path, 0).trim()

    assert [path.name for path in folder.iterdir()] == [".new"]


@pytest.mark.usefixtures("pushed")
def test_several_may_use_it_at_once(many, tmp_path):
    expected = load_pack(many).tape().rows
    cache = Cache(tmp_path / "cache", 30_000)
    wrong = []

    def work():
        for _ in range(6):
            tape = cl.open_pack(URL).source.tape()
            cache.trim()  # takes files away under the others
            if not tape.rows.equals(expected):
                wrong.append(tape)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []
    assert [path for path in files(tmp_path / "cache") if path.name.startswith(".")] == []


@pytest.mark.usefixtures("pushed")
def test_a_folder_that_cannot_be_written_to_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("CLVLAB_CACHE", str(tmp_path / "file"))

    with pytest.raises(FileError, match=r"file'.*name another folder in CLVLAB_CACHE"):
        cl.open_pack(URL).ticks()


def test_a_limit_that_is_no_number_is_refused(monkeypatch):
    monkeypatch.setenv("CLVLAB_CACHE_BYTES", "4 GB")

    with pytest.raises(SettingsError, match="CLVLAB_CACHE_BYTES must be a whole number of bytes, not '4 GB'"):
        cache_of_environment()


def test_without_a_setting_it_lies_among_the_caches_of_the_platform(monkeypatch, tmp_path):
    monkeypatch.delenv("CLVLAB_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")

    assert cache_of_environment().folder.name == "clvlab"
