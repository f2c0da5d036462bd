"""Logs exported as tiles, and audited from a plain file server."""

import gzip
import shutil
from functools import partial

import pytest

from clvlab.arena.log.audit import audit
from clvlab.arena.log.operations import open_log, restart_log, signed_checkpoint
from clvlab.arena.log.public import PublicLog
from clvlab.arena.log.tiles import export_tiles
from clvlab.errors import LogError, UnknownTileError, UnsignedLogError
from clvlab.log.bundles import Trust
from clvlab.log.log import commit
from clvlab.log.note import Signer
from clvlab.store.database import Database
from clvlab.store.runlog import RunLog
from tests.arena.test_auditing import served
from tests.logs import hashed, run_of
from tests.proof.bundles import LOG_KEY
from tests.static_host import hosted

TRUST = Trust(logs=[str(LOG_KEY.verifier)])


def grown(log, size, name=""):
    with log.write() as rows:
        for number in range(rows.size(), size):
            commit(rows, run_of(f"{name}{number}"), f"did:x:{number % 3}", hashed(f"{name}{number}"), None, number)
    return log


def exported(log, out):
    return export_tiles(log, str(out), lambda: signed_checkpoint(log, LOG_KEY))


def names(out):
    return sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def tiles(tmp_path_factory):
    """The tiles of 600 entries, which nobody changes."""
    out = tmp_path_factory.mktemp("tiles") / "out"
    exported(grown(RunLog(Database()), 600), out)
    return out


@pytest.fixture
def copied(tiles, tmp_path):
    return shutil.copytree(tiles, tmp_path / "copy")


def rules(out, trust=TRUST, **options):
    with hosted(out) as url:
        done = audit(url, trust=trust, **options)
    return [broken.rule for broken in done.broken]


def test_export_has_every_file_once_and_is_audited_from_any_host(tiles):
    assert names(tiles) == [
        "checkpoint", "tile/0/000", "tile/0/001", "tile/0/002.p/88", "tile/1/000.p/2",
        "tile/entries/000", "tile/entries/001", "tile/entries/002.p/88",
    ]  # fmt: skip
    with hosted(tiles) as url:
        done = audit(url, trust=TRUST)
    assert (done.sound, done.size, done.origin, done.signature_judged) == (True, 600, "log.example", True)
    assert sum(one.runs.committed for one in done.counts) == 600


def test_later_export_writes_only_what_is_new_and_drops_parts_of_full_tiles(tmp_path):
    log, out = RunLog(Database()), tmp_path / "out"
    first = exported(grown(log, 300), out)
    again = exported(log, out)
    kept = (out / "tile/0/000").stat().st_mtime_ns
    second = exported(grown(log, 520), out)

    assert [(one.before, one.size, one.files) for one in (first, again, second)] == [(0, 300, 6), (300, 300, 0), (300, 520, 6)]
    assert (out / "tile/0/000").stat().st_mtime_ns == kept
    assert not (out / "tile/0/001.p").exists()
    assert not (out / "tile/entries/001.p").exists()
    assert rules(out) == []


def test_reader_of_an_older_checkpoint_finds_its_entries_in_the_full_files(tmp_path):
    log, out = RunLog(Database()), tmp_path / "out"
    exported(grown(log, 300), out)
    older = (out / "checkpoint").read_bytes()
    exported(grown(log, 600), out)
    (out / "checkpoint").write_bytes(older)

    assert rules(out) == []


def test_export_over_tiles_of_another_log_is_refused_and_changes_nothing(tmp_path):
    out = tmp_path / "out"
    exported(grown(RunLog(Database()), 300), out)
    before = {name: (out / name).read_bytes() for name in names(out)}

    for size, name in ((600, "other"), (200, "")):
        with pytest.raises(LogError, match=r"has the tiles of 300 entries of 'log.example', which this log does not extend"):
            exported(grown(RunLog(Database()), size, name), out)

    assert {name: (out / name).read_bytes() for name in names(out)} == before


def test_checkpoint_of_another_log_is_not_exported(tmp_path):
    note = signed_checkpoint(grown(RunLog(Database()), 9, "other"), LOG_KEY)

    with pytest.raises(LogError, match=r"the checkpoint of 'log.example' at 9 entries is not of this log"):
        export_tiles(grown(RunLog(Database()), 9), str(tmp_path / "out"), lambda: note)
    assert names(tmp_path / "out") == []


def test_interrupted_export_is_continued(tmp_path, monkeypatch):
    log, out = grown(RunLog(Database()), 600), tmp_path / "out"
    from clvlab.arena.log import tiles as module

    whole = module.tile_bytes

    def cut(rows, tile):
        if tile.level == 1:
            raise OSError("no space left")
        return whole(rows, tile)

    with monkeypatch.context() as patched:
        patched.setattr(module, "tile_bytes", cut)
        with pytest.raises(OSError, match="no space left"):
            exported(log, out)
    assert "checkpoint" not in names(out)

    exported(log, out)
    assert rules(out) == []


def test_changed_entry_is_refused_and_named(copied):
    file = copied / "tile/entries/001"
    file.write_bytes(file.read_bytes().replace(b"did:x:1", b"did:x:2", 1))

    found = rules(copied)

    assert any("at 600 entries has the root" in rule for rule in found)
    assert "the tile tile/0/001 does not have the hash of entry 256" in found


@pytest.mark.parametrize(
    ("path", "names_it"),
    [
        ("tile/0/000", "the tile tile/0/000 does not have the hash of entry 0"),
        ("tile/0/002.p/88", "the tile tile/0/002.p/88 does not have the hash of entry 512"),
        ("tile/1/000.p/2", "the tile tile/1/000.p/2 does not have the hash of entries 0 to 255"),
    ],
)
def test_changed_or_missing_tile_is_refused_and_named(copied, path, names_it):
    content = (copied / path).read_bytes()
    (copied / path).write_bytes(bytes([content[0] ^ 1]) + content[1:])
    assert rules(copied) == [names_it]

    (copied / path).unlink()
    assert rules(copied) == [names_it]


def test_cut_or_missing_bundle_is_refused_and_named(copied):
    file = copied / "tile/entries/001"
    file.write_bytes(file.read_bytes()[:-1])
    assert "the file of entries tile/entries/001 is cut off" in rules(copied)[0]

    file.unlink()
    assert "does not have the file of entries tile/entries/001" in rules(copied)[0]


def test_changed_checkpoint_is_refused_and_named(copied):
    file = copied / "checkpoint"
    note = file.read_text("utf-8")
    file.write_text(note.replace("\n600\n", "\n599\n"), "utf-8")
    assert "the signature by 'log.example' does not hold" in rules(copied)[0]

    file.write_text("no note", "utf-8")
    with hosted(copied) as url, pytest.raises(LogError, match="no signed note"):
        audit(url)
    file.unlink()
    with hosted(copied) as url, pytest.raises(LogError, match="neither a service with a log nor a host of tiles"):
        audit(url)


def test_log_that_shrank_since_a_checkpoint_is_not_sound(tmp_path):
    log, out = RunLog(Database()), tmp_path / "out"
    exported(grown(log, 300), out)
    later = signed_checkpoint(grown(log, 400), LOG_KEY)

    assert any("speaks of 400 entries" in rule for rule in rules(out, checkpoints={"cp": later}))


def test_host_that_compresses_unasked_is_read(tiles):
    def answers(path):
        file = tiles / path.lstrip("/")
        return (200, gzip.compress(file.read_bytes())) if file.is_file() else (404, b"")

    with served(answers, headers={"Content-Encoding": "gzip"}) as url:
        assert audit(url, trust=TRUST).sound


def test_restarted_log_is_audited_from_its_tiles(tmp_path):
    second = Signer("log.example/2", 1, bytes(range(2, 34)))
    ahead = signed_checkpoint(grown(RunLog(Database()), 9), LOG_KEY)
    with open_log(tmp_path / "restored.log", create=True) as log:
        grown(log, 5)
        restart_log(log, [ahead], second, None, 7)
        export_tiles(log, str(tmp_path / "out"), partial(signed_checkpoint, log, second))

    trust = Trust(logs=[*TRUST.logs, str(second.verifier)])
    with hosted(tmp_path / "out") as url:
        done = audit(url, trust=trust)
    assert (done.sound, done.origin, len(done.restarts)) == (True, "log.example/2", 1), done.broken
    (tmp_path / "out" / "restarts.json").unlink()
    assert rules(tmp_path / "out", trust) == ["entry 5 restarts the log, which its keeper does not say"]


def test_public_log_has_the_same_tiles_and_no_others(tiles):
    database = Database()
    grown(RunLog(database), 600)
    log = PublicLog(database, LOG_KEY)

    for name in names(tiles):
        if name != "checkpoint":
            assert log.tile(name) == (tiles / name).read_bytes()
    assert len(log.tile("tile/0/002.p/7")) == 7 * 32
    for missing in ("tile/0/002", "tile/0/002.p/89", "tile/1/000.p/3", "tile/2/000.p/1", "tile/0/2", "checkpoint"):
        with pytest.raises(UnknownTileError, match="has no tile"):
            log.tile(missing)
    assert log.restarts() == b"[]"
    with pytest.raises(UnsignedLogError):
        PublicLog(database).tile("tile/0/000")
