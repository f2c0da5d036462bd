import os
import shutil

import pytest

from clvlab.arena.packs import bundled_catalog
from clvlab.packs import folder
from clvlab.packs import folder as folders
from clvlab.packs.reader import load_pack


@pytest.fixture
def pack(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "_MOMENT_NS", -1)
    shutil.copytree(bundled_catalog().folder / "starter", tmp_path / "starter")
    return load_pack(tmp_path / "starter")


@pytest.fixture
def readings(monkeypatch):
    """What is read of files, as it is read."""
    found, read = [], folders.read_rows
    monkeypatch.setattr(folders, "read_rows", lambda file, where: found.append(where) or read(file, where))
    return found


def test_a_fixture_is_read_once_as_long_as_the_file_stays(pack, readings):
    first, again = pack.tape(pack.fixture_ids[:1]), pack.tape(pack.fixture_ids[:1])

    assert len(readings) == 1
    assert again.rows.equals(first.rows)
    assert again.series.equals(first.series)


def test_other_fixtures_are_read_for_themselves(pack, readings):
    one, other = (pack.tape([fixture_id]) for fixture_id in pack.fixture_ids[:2])

    assert len(readings) == 2
    assert one.binding != other.binding
    assert not one.rows.equals(other.rows)


def test_a_file_that_changed_is_read_again_whatever_its_times_say(pack, readings):
    path = pack.folder / "ticks.parquet"
    before = path.stat()
    pack.tape(pack.fixture_ids[:1])
    path.write_bytes(path.read_bytes())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    pack.tape(pack.fixture_ids[:1])

    assert len(readings) == 2


def test_a_young_file_is_read_every_time(pack, readings, monkeypatch):
    monkeypatch.setattr(folder, "_MOMENT_NS", 10**18 * 9)
    for _ in range(2):
        pack.tape(pack.fixture_ids[:1])

    assert len(readings) == 2


def test_many_ticks_are_not_kept(pack, readings, monkeypatch):
    monkeypatch.setattr(folders, "_SMALL_ROWS", 10)
    for _ in range(2):
        pack.tape(pack.fixture_ids[:1])

    assert len(readings) == 2
