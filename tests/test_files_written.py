"""What is written is there whole or not at all, however its process ends; what that left goes at the next start."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from clvlab.arena.runs import bundles
from clvlab.base import files
from clvlab.base.files import StagingPath, new_file, remove_leftovers, replace_file, written_file
from clvlab.cli import main
from clvlab.errors import SettingsError
from clvlab.log.note import Signer, read_signer, write_signer
from clvlab.packs.catalog import Catalog
from clvlab.packs.synthetic import Recipe, build
from clvlab.packs.verification import verify_pack
from clvlab.store.folder import read_run, write_run
from tests.factories import make_sealed_run

OLD, NEW = b"old " * 5_000, b"new " * 500_000
STAGES = ("open", "flock", "write", "fsync", "link", "replace", "unlink")
KILLED = """
import fcntl, os, signal, sys
from pathlib import Path
from clvlab.base import files

stage, command, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
module = fcntl if stage == "flock" else os
def killed(*arguments, **options):
    if stage != "open" or "unfinished" in str(arguments[0]):
        if stage == "open":
            original(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)
    return original(*arguments, **options)
if stage == "write":
    with files.written_file(folder / "target", replace=command == "replace_file") as file:
        file.write(b"n" * 1_000_000)
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)
original = getattr(module, stage)
setattr(module, stage, killed)
getattr(files, command)(folder / "target", b"new " * 500_000)
"""


def left(folder):
    return sorted(path.name for path in folder.iterdir() if path.name.startswith(".unfinished-"))


def killed_at(stage, command, folder):
    """Have a process write ``target`` and be killed at a call of the operating system; its exit status."""
    arguments = [sys.executable, "-c", KILLED, stage, command, str(folder)]
    return subprocess.run(arguments, cwd=Path(files.__file__).parents[1], check=False).returncode


@pytest.mark.parametrize("stage", STAGES)
def test_a_new_file_of_a_killed_process_is_whole_or_not_there_and_a_retry_works(tmp_path, stage):
    status = killed_at(stage, "new_file", tmp_path)

    assert status == (0 if stage == "replace" else -signal.SIGKILL)
    target = tmp_path / "target"
    if target.exists():
        assert target.read_bytes() == NEW
        assert stage in ("unlink", "replace")
        with pytest.raises(FileExistsError):
            new_file(target, NEW)
        replace_file(target, NEW)
    else:
        new_file(target, NEW)
    assert target.read_bytes() == NEW
    assert left(tmp_path) == []


@pytest.mark.parametrize("stage", STAGES)
def test_a_file_that_a_killed_process_replaced_has_the_old_content_or_the_new(tmp_path, stage):
    (tmp_path / "target").write_bytes(OLD)

    status = killed_at(stage, "replace_file", tmp_path)

    assert status == (0 if stage == "link" else -signal.SIGKILL)
    assert (tmp_path / "target").read_bytes() == (NEW if stage in ("link", "unlink") else OLD)
    replace_file(tmp_path / "target", NEW)
    assert (tmp_path / "target").read_bytes() == NEW
    assert left(tmp_path) == []


@pytest.mark.parametrize("call", ["fsync", "link", "replace", "flock"])
def test_a_write_that_fails_leaves_nothing(tmp_path, monkeypatch, call):
    def fails(*_, **__):
        raise OSError(5, "Input/output error")

    if call == "flock":
        monkeypatch.setattr("fcntl.flock", fails)  # a file system without locks
    else:
        monkeypatch.setattr(os, call, fails)
    if call == "link":
        monkeypatch.setattr(Path, "hardlink_to", fails)
    failed = []
    for write in (new_file, replace_file):
        try:
            write(tmp_path / write.__name__, NEW)
        except OSError:
            failed.append(write.__name__)

    assert (
        failed == {"fsync": ["new_file", "replace_file"], "link": ["new_file"], "replace": ["replace_file"], "flock": []}[call]
    )
    assert left(tmp_path) == []
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [NEW] * (2 - len(failed))


def test_a_new_file_never_takes_the_place_of_another(tmp_path):
    (tmp_path / "file").write_bytes(OLD)
    (tmp_path / "nowhere").symlink_to(tmp_path / "absent")

    for name in ("file", "nowhere"):
        with pytest.raises(FileExistsError, match=name) as error:
            new_file(tmp_path / name, NEW)
        assert "unfinished" not in str(error.value)
    with pytest.raises(FileExistsError, match="late") as error, written_file(tmp_path / "late"):
        (tmp_path / "late").write_bytes(OLD)

    assert "unfinished" not in str(error.value)
    assert (tmp_path / "file").read_bytes() == (tmp_path / "late").read_bytes() == OLD
    assert left(tmp_path) == []


def test_a_file_system_without_links_has_new_files_too(tmp_path, monkeypatch):
    def no_links(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", no_links)

    new_file(tmp_path / "file", NEW)

    assert (tmp_path / "file").read_bytes() == NEW
    assert left(tmp_path) == []


def test_a_folder_that_is_missing_is_named_and_not_what_is_written_meanwhile(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent/file'"):
        new_file(tmp_path / "absent" / "file", NEW)


def test_what_is_held_and_what_others_made_is_let_be(tmp_path):
    (tmp_path / ".unfinished-download").write_bytes(OLD)
    (tmp_path / ".unfinished-by-clvlab-link").symlink_to(tmp_path / "file")
    with StagingPath(tmp_path) as held, written_file(tmp_path / "file") as file:
        file.write(NEW)
        (held / "inside").write_bytes(NEW)

        remove_leftovers(tmp_path)

        assert (held / "inside").exists()
    assert (tmp_path / "file").read_bytes() == NEW
    assert left(tmp_path) == [".unfinished-by-clvlab-link", ".unfinished-download"]


def test_private_keys_are_private_from_their_first_byte(tmp_path):
    modes = []
    with written_file(tmp_path / "key", 0o600) as file:
        modes.append(os.fstat(file.fileno()).st_mode)
    modes.append((tmp_path / "key").stat().st_mode)

    assert [stat.S_IMODE(mode) for mode in modes] == [0o600, 0o600]


FORKED = """
import os, random, signal, sys, time
from pathlib import Path
from clvlab.arena.runs.bundles import bundle_run
from clvlab.base.files import new_file
from clvlab.log.note import Signer, write_signer
from clvlab.store.folder import read_run, write_run
from dataclasses import replace

run, out = Path(sys.argv[1]), Path(sys.argv[2])
sealed, bundle = read_run(run), bundle_run(run)
signer = Signer.new("example.org/log")

def write(number):
    new_file(out / f"{number}.clv", bundle)
    write_signer(signer, out / f"{number}.key")
    write_run(replace(sealed, run_id=f"run_{number}"), out)

chosen = random.Random(7)
for turn in range(int(sys.argv[3])):
    (wrote, writing), child = os.pipe(), os.fork()
    if child == 0:
        number = turn * 100_000
        while True:
            number += 1
            write(number)
            os.write(writing, b"1")
    os.read(wrote, 1)  # of each kind there is one
    time.sleep(chosen.uniform(0.005, 0.08))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
print("done")
"""


def test_nothing_is_half_there_after_kills_at_random_moments(tmp_path):
    run, out = write_run(make_sealed_run(), tmp_path), tmp_path / "out"
    out.mkdir()
    whole = {"clv": bundles.bundle_run(run), **{path.name: path.read_bytes() for path in run.iterdir()}}

    said = subprocess.run([sys.executable, "-c", FORKED, run, out, "12"], capture_output=True, text=True, check=True).stdout

    assert said == "done\n"
    found = [path for path in out.iterdir() if not path.name.startswith(".unfinished-")]
    assert {path.suffix for path in found} == {".clv", ".key", ""}
    for path in found:
        if path.suffix == ".clv":
            assert path.read_bytes() == whole["clv"]
        elif path.suffix == ".key":
            assert read_signer(path).name == "example.org/log"
        else:
            assert {file.name: file.read_bytes() for file in path.iterdir()} == {k: v for k, v in whole.items() if k != "clv"}
    new_file(out / "next.clv", whole["clv"])
    assert left(out) == []


def test_a_pack_and_a_catalog_are_whole_or_not_there(tmp_path, monkeypatch):
    real = Path.rename

    def breaks_off(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "rename", breaks_off)
    with pytest.raises(KeyboardInterrupt):
        build(Recipe(1, 1, 20), tmp_path / "mine")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(Path, "rename", real)
    build(Recipe(1, 1, 20), tmp_path / "mine")
    monkeypatch.setattr(Path, "replace", breaks_off)
    with pytest.raises(KeyboardInterrupt):
        Catalog(tmp_path).admit("mine")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    monkeypatch.undo()

    assert Catalog(tmp_path).admit("mine").pack_id == verify_pack(tmp_path / "mine").pack_id
    assert list(orjson.loads((tmp_path / "catalog.json").read_bytes())) == ["mine"]


def called(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["clvlab", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code


@pytest.mark.parametrize("name", ["ticks.csv", "ticks.parquet"])
def test_an_export_that_breaks_off_leaves_nothing_and_is_exported_again(tmp_path, monkeypatch, capsys, name):
    def breaks_off(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", breaks_off)
        assert called(patch, "packs", "export", "starter", tmp_path / name) == 2
    assert "No space left" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []

    assert called(monkeypatch, "packs", "export", "starter", tmp_path / name) == 0
    assert called(monkeypatch, "packs", "export", "starter", tmp_path / name) == 2


def test_a_bundle_is_not_written_over(tmp_path, monkeypatch, capsys):
    run = write_run(make_sealed_run(), tmp_path)

    assert called(monkeypatch, "bundle", run, "--out", tmp_path / "run.clv") == 0
    written = (tmp_path / "run.clv").read_bytes()
    assert called(monkeypatch, "bundle", run, "--out", tmp_path / "run.clv") == 2

    assert (tmp_path / "run.clv").read_bytes() == written == bundles.bundle_run(run)
    assert f"'{tmp_path / 'run.clv'}'" in capsys.readouterr().err


def test_keys_of_a_log_are_made_whole_and_once(tmp_path):
    signer = Signer.new("example.org/log")
    write_signer(signer, tmp_path / "key")

    with pytest.raises(FileExistsError):
        write_signer(Signer.new("example.org/other"), tmp_path / "key")

    assert read_signer(tmp_path / "key") == signer
    assert read_run(write_run(make_sealed_run(), tmp_path)) == make_sealed_run()


def test_dev_keys_of_a_killed_process_are_completed(tmp_path):
    from clvlab_service.dev import dev_token, public_key_file

    public = public_key_file(tmp_path)
    before = public.read_bytes()
    public.unlink()  # killed between the two

    assert public_key_file(tmp_path).read_bytes() == before
    assert stat.S_IMODE((tmp_path / "dev-key.pem").stat().st_mode) == 0o600
    public.unlink()
    (tmp_path / "dev-key.pem").write_bytes(b"half of a k")
    with pytest.raises(SettingsError, match=r"dev-key\.pem"):
        dev_token(tmp_path, "did:key:me", 60)
