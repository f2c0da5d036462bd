"""What lies where a file belongs and is none: one clear line and exit status 2, at once, by every verifier."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clvlab import files
from clvlab.errors import FileError
from clvlab.files import MAX_BYTES, file_bytes
from clvlab.proof import clv_states, clv_verify
from clvlab.store.folder import write_run
from tests.factories import make_sealed_run
from tests.length import length
from tests.proof.bundles import make_bundle

pytestmark = pytest.mark.long

COMMANDS = {
    "file": [sys.executable, "-I", clv_verify.__file__],
    "states": [sys.executable, "-I", clv_states.__file__],
    "package": [sys.executable, "-m", "clvlab", "verify"],
}


def pipe(path):
    os.mkfifo(path)


def device(path):
    path.symlink_to("/dev/zero")


def sparse(path):
    path.touch()
    os.truncate(path, 6 << 30)


ODD = [pipe, device, sparse, Path.mkdir]


def called(command, *arguments):
    """Run in 3 GB of memory, for at most 30 s."""
    limited = ["bash", "-c", 'ulimit -v 3145728; exec "$@"', "-", *COMMANDS[command], *map(str, arguments)]
    done = subprocess.run(limited, capture_output=True, text=True, check=False, timeout=30)
    return done.returncode, done.stderr + done.stdout


@pytest.fixture
def folder(tmp_path):
    return write_run(make_sealed_run(), tmp_path)


@pytest.fixture
def ticks(tmp_path):
    path = tmp_path / "ticks.csv"
    path.write_text("fixture_id\n")
    return path


def refused(status, said):
    return status == 2 and said.count("\n") == 1 and "Traceback" not in said


@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
@pytest.mark.parametrize("command", COMMANDS)
def test_run_that_is_no_file_and_no_run_folder_is_refused(tmp_path, ticks, command, make):
    path = tmp_path / "run.clv"
    make(path)

    assert refused(*called(command, path, *([ticks] if command == "states" else [])))


@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
@pytest.mark.parametrize("name", length(["events.jsonl"], ["events.jsonl", "scores.jsonl", "manifest.json"]))
@pytest.mark.parametrize("command", COMMANDS)
def test_folder_with_something_else_in_place_of_a_file_is_refused(folder, ticks, command, name, make):
    (folder / name).unlink()
    make(folder / name)

    assert refused(*called(command, folder, *([ticks] if command == "states" else [])))


@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
def test_keys_and_ticks_that_are_no_files_are_refused(folder, tmp_path, make):
    bundle, odd = tmp_path / "run.clv", tmp_path / "odd"
    bundle.write_bytes(make_bundle())
    make(odd)

    assert refused(*called("file", bundle, "--trust", odd))
    assert refused(*called("package", bundle, "--trust", odd))
    assert refused(*called("states", folder, odd))


def test_file_that_memory_does_not_hold_is_refused_in_a_line(tmp_path):
    path = tmp_path / "run.clv"
    path.touch()
    os.truncate(path, MAX_BYTES - 1)

    assert refused(*called("file", path))
    assert refused(*called("package", path))


def test_file_is_read_whole_and_a_link_to_it_too(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 5000)
    (tmp_path / "b").symlink_to(tmp_path / "a")

    assert file_bytes(tmp_path / "b", 5000) == clv_verify.read_file(tmp_path / "b", 5000) == b"x" * 5000
    assert file_bytes(tmp_path / "a", most=2) == clv_verify.read_file(tmp_path / "a", most=2) == b"xx"
    with pytest.raises(FileError, match="5,000 bytes, the limit is 4,999"):
        file_bytes(tmp_path / "a", 4999)
    with pytest.raises(clv_verify.InputError, match="more than 4,999 bytes"):
        clv_verify.read_file(tmp_path / "a", 4999)


def test_stand_alone_limits_are_those_of_the_package():
    assert (clv_verify.MAX_BYTES, clv_verify.MAX_KEYS_BYTES) == (files.MAX_BYTES, files.MAX_KEYS_BYTES)


def test_run_folder_may_lack_scores_and_receipts(folder):
    shutil.copytree(folder, folder.parent / "other")
    (folder / "scores.jsonl").unlink()

    assert called("package", folder)[0] == called("file", folder)[0] == 1
    assert called("package", folder.parent / "other")[0] == 0
