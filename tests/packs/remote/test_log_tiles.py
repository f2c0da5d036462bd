"""The tiles of a log in a bucket: each export adds what is new, and the files are those of a folder."""

import pytest

from clvlab.arena.log.audit import audit
from clvlab.arena.log.operations import open_log, signed_checkpoint
from clvlab.arena.log.tiles import export_tiles
from clvlab.errors import LogError, RemoteConflictError, RemoteError
from clvlab.log.bundles import Trust
from clvlab.log.note import write_signer
from clvlab.store.database import Database
from clvlab.store.runlog import RunLog
from tests.arena.test_log_tiles import exported, grown, names
from tests.commands import clvlab
from tests.length import few
from tests.proof.bundles import LOG_KEY
from tests.static_host import hosted

URL = "s3://tested/logs/mine"


def fetched(s3, folder):
    """The objects under the URL, as files."""
    for name in s3.names():
        place = folder / name.removeprefix("logs/mine/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(s3.get(name))
    return folder


def writes(s3):
    return [path.rpartition("logs/mine/")[2] for method, path, _ in s3.asked if method == "PUT"]


def test_bucket_gets_the_files_of_a_folder_the_checkpoint_last_and_is_audited(s3, tmp_path):
    log = grown(RunLog(Database()), 300)

    done = exported(log, URL)
    exported(log, tmp_path / "folder")

    copy = fetched(s3, tmp_path / "copy")
    assert (done.before, done.size, done.files) == (0, 300, 6)
    assert writes(s3)[-1] == "checkpoint"
    assert names(copy) == names(tmp_path / "folder")
    assert all((copy / name).read_bytes() == (tmp_path / "folder" / name).read_bytes() for name in names(copy))
    with hosted(copy) as url:
        assert audit(url, trust=Trust(logs=[str(LOG_KEY.verifier)])).sound


def test_later_export_writes_only_what_is_new_and_removes_nothing(s3, tmp_path):
    log = grown(RunLog(Database()), 300)
    exported(log, URL)
    before = s3.names()
    s3.asked.clear()
    again = exported(log, URL)
    assert (again.files, writes(s3)) == (0, [])

    second = exported(grown(log, 520), URL)

    assert (second.before, second.size) == (300, 520)
    assert set(before) < set(s3.names())
    assert not [method for method, *_ in s3.asked if method == "DELETE"]
    assert sorted(writes(s3)) == [
        "checkpoint", "tile/0/001", "tile/0/002.p/8", "tile/1/000.p/2", "tile/entries/001", "tile/entries/002.p/8",
    ]  # fmt: skip
    with hosted(fetched(s3, tmp_path / "copy")) as url:
        assert audit(url, trust=Trust(logs=[str(LOG_KEY.verifier)])).sound


def test_bucket_with_tiles_of_another_log_is_left_as_it_is(s3):
    exported(grown(RunLog(Database()), 300), URL)
    before = {name: s3.get(name) for name in s3.names()}

    with pytest.raises(LogError, match=r"'s3://tested/logs/mine' has the tiles of 300 entries of 'log.example'"):
        exported(grown(RunLog(Database()), 600, "other"), URL)

    assert {name: s3.get(name) for name in s3.names()} == before


def test_tile_with_other_bytes_is_named_and_no_checkpoint_speaks_of_it(s3):
    s3.change("logs/mine/tile/0/000", b"something else")

    with pytest.raises(RemoteConflictError, match="tile/0/000"):
        exported(grown(RunLog(Database()), 300), URL)

    assert "logs/mine/checkpoint" not in s3.names()


def test_interrupted_export_to_a_bucket_is_continued(s3, monkeypatch, tmp_path):
    from clvlab.packs.remote.bucket import Bucket

    log, create = grown(RunLog(Database()), 300), Bucket.create

    def cut(self, name, content):
        if name == "tile/1/000.p/1":
            raise RemoteError("the connection broke off")
        return create(self, name, content)

    with monkeypatch.context() as patched:
        patched.setattr(Bucket, "create", cut)
        with pytest.raises(RemoteError, match="broke off"):
            exported(log, URL)
    assert "logs/mine/checkpoint" not in s3.names()

    exported(log, URL)
    with hosted(fetched(s3, tmp_path / "copy")) as url:
        assert audit(url, trust=Trust(logs=[str(LOG_KEY.verifier)])).sound


def test_web_address_is_no_place_to_write_tiles_to(tmp_path):
    log = grown(RunLog(Database()), 3)
    with hosted(tmp_path) as url, pytest.raises(RemoteError, match="is read only"):
        export_tiles(log, url, lambda: signed_checkpoint(log, LOG_KEY))
    assert list(tmp_path.iterdir()) == []


@few(1)
@pytest.mark.parametrize("place", ["bucket", "folder"])
def test_follow_goes_on_with_new_entries_until_it_is_interrupted(s3, place, tmp_path, monkeypatch):
    write_signer(LOG_KEY, tmp_path / "log.key")
    sizes = [300, 300, 520]  # at each look
    with open_log(tmp_path / "runs.log", create=True) as log:
        grown(log, sizes.pop(0))

    def sleep(seconds):
        assert seconds == 3
        if not sizes:
            raise KeyboardInterrupt
        with open_log(tmp_path / "runs.log") as log:
            grown(log, sizes.pop(0))

    monkeypatch.setattr("clvlab.cli.log.time.sleep", sleep)
    out = URL if place == "bucket" else str(tmp_path / "tiles")

    code, shown, _ = clvlab(
        tmp_path, "log", "export", "runs.log", "--tiles", out, "--key", "log.key", "--follow", "--every-s", "3"
    )

    assert code == 130
    assert [line.partition(": ")[2] for line in shown.splitlines()] == [
        "300 entries, 300 of them new, in 6 files",
        "520 entries, 220 of them new, in 6 files",
    ]
    copy = fetched(s3, tmp_path / "copy") if place == "bucket" else tmp_path / "tiles"
    with hosted(copy) as url:
        done = audit(url, trust=Trust(logs=[str(LOG_KEY.verifier)]))
    assert (done.sound, done.size) == (True, 520)
