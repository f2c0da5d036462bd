"""What lies where a file belongs and is none: one clear line and exit status 2, at once, by every verifier."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clvlab.base import files
from clvlab.base.files import MAX_BYTES, file_bytes
from clvlab.errors import FileError
from clvlab.proof import clv_states, clv_verify
from clvlab.store.folder import write_run
from tests.commands import ROOT, apart
from tests.factories import make_sealed_run
from tests.length import length
from tests.proof.bundles import make_bundle
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.long

ALONE = {"file": clv_verify.__file__, "states": clv_states.__file__}
COMMANDS = [*ALONE, "package"]
LIMITED = ["bash", "-c", 'ulimit -v 3145728; exec "$@"', "-"]  # in 3 GB of memory


def pipe(path):
    os.mkfifo(path)


def device(path):
    path.symlink_to("/dev/zero")


def sparse(path):
    path.touch()
    os.truncate(path, 6 << 30)


ODD = [pipe, device, sparse, Path.mkdir]


def called(command, *calls):
    """What a verifier answers to calls of so many arguments: exit status and all that it says."""
    if command == "package":
        answers = apart(
            ROOT, [({}, ["verify", *arguments]) for arguments in calls], start=LIMITED, timeout_s=PATIENCE_S * len(calls)
        )
        return [(status, errors + said) for status, said, errors in answers]
    done = [_called_alone(ALONE[command], arguments) for arguments in calls]
    return [(one.returncode, one.stderr + one.stdout) for one in done]


def _called_alone(file, arguments):
    command = [*LIMITED, sys.executable, "-I", file, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


@pytest.fixture
def folder(tmp_path):
    return write_run(make_sealed_run(), tmp_path)


@pytest.fixture
def ticks(tmp_path):
    path = tmp_path / "ticks.csv"
    path.write_text("fixture_id\n")
    return path


def refused(answers):
    return [status == 2 and said.count("\n") == 1 and "Traceback" not in said for status, said in answers]


@pytest.mark.parametrize("command", COMMANDS)
def test_run_that_is_no_file_and_no_run_folder_is_refused(tmp_path, ticks, command):
    paths = [tmp_path / f"{make.__name__}.clv" for make in ODD]
    for make, path in zip(ODD, paths, strict=True):
        make(path)

    answers = called(command, *([path, *([ticks] if command == "states" else [])] for path in paths))

    assert refused(answers) == [True] * len(ODD), answers


@pytest.mark.parametrize("name", length(["events.jsonl"], ["events.jsonl", "scores.jsonl", "manifest.json"]))
@pytest.mark.parametrize("command", COMMANDS)
def test_folder_with_something_else_in_place_of_a_file_is_refused(folder, ticks, command, name):
    folders = [folder.parent / make.__name__ / folder.name for make in ODD]
    for make, other in zip(ODD, folders, strict=True):
        shutil.copytree(folder, other)
        (other / name).unlink()
        make(other / name)

    answers = called(command, *([other, *([ticks] if command == "states" else [])] for other in folders))

    assert refused(answers) == [True] * len(ODD), answers


@pytest.mark.parametrize("command", COMMANDS)
def test_keys_and_ticks_that_are_no_files_are_refused(folder, tmp_path, command):
    bundle, odd = tmp_path / "run.clv", [tmp_path / make.__name__ for make in ODD]
    bundle.write_bytes(make_bundle())
    for make, path in zip(ODD, odd, strict=True):
        make(path)

    answers = called(command, *([folder, path] if command == "states" else [bundle, "--trust", path] for path in odd))

    assert refused(answers) == [True] * len(ODD), answers


@pytest.mark.parametrize("command", ["file", "package"])
def test_file_that_memory_does_not_hold_is_refused_in_a_line(tmp_path, command):
    path = tmp_path / "run.clv"
    path.touch()
    os.truncate(path, MAX_BYTES - 1)

    assert refused(called(command, [path])) == [True]


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
    whole = folder.parent / "other"
    shutil.copytree(folder, whole)
    (folder / "scores.jsonl").unlink()

    assert [status for status, _ in called("package", [folder], [whole])] == [1, 0]
    assert called("file", [folder])[0][0] == 1
