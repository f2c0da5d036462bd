"""Files that are cut short, damaged, locked or not writable: one line names the file and the remedy, and nothing is lost."""

import errno
import fcntl
import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

import clvlab as cl
from clvlab.base.files import lock
from clvlab.errors import ClvlabError, EvidenceError, StoreError, StoreFullError
from clvlab.runs.run import content_hash_of
from clvlab.store import database as stores
from clvlab.store.database import Database, DatabaseFaultError, back_up
from clvlab.store.folder import read_run
from clvlab.store.tables import runs
from tests.commands import ROOT, clvlab
from tests.factories import write_quotes
from tests.length import few, length
from tests.store.test_reading import bound_by_modes
from tests.waiting import PATIENCE_S

PAGE = 4096
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}  # of a process in another folder
WITHOUT_LOCKS = """
import errno, fcntl, sys
import pyseccomp
rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
for command in (fcntl.F_SETLK, fcntl.F_SETLKW, fcntl.F_GETLK):
    rules.add_rule(pyseccomp.ERRNO(errno.EOPNOTSUPP), "fcntl", pyseccomp.Arg(1, pyseccomp.EQ, command))
rules.add_rule(pyseccomp.ERRNO(errno.EOPNOTSUPP), "flock")
rules.load()
from clvlab.cli import main
sys.argv = ["clvlab", *sys.argv[1:]]
main()
"""
OPENED = """
import sys
from clvlab.store.database import Database
sys.stdin.read()
print(Database(sys.argv[1]).schema_version)
"""
HELD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A laboratory with a run and a sweep in a file, and a folder with a run."""
    folder = tmp_path_factory.mktemp("kept")
    with cl.Lab(folder / "lab.db") as lab:
        run_id = lab.backtest("starter", agent="cumulative-drift").run_id
        lab.sweep("starter", agent="cumulative-drift", grid={"cooldown_s": [0]}, progress=False)
    assert clvlab(folder, "backtest", "starter", "--agent", "cumulative-drift")[0] == 0
    return folder, run_id


@pytest.fixture
def file(kept, tmp_path):
    return Path(shutil.copy(kept[0] / "lab.db", tmp_path))


def one_line(answer):
    """The only line of a command's error, which ends with the exit code of bad input and without output."""
    code, out, err = answer
    assert (code, out) == (2, ""), (code, out, err)
    assert err.startswith("error: ")
    assert err.count("\n") == 1, err
    return err


def url_of(file):
    return f"sqlite:///{file}"


def refused(file):
    """Why a database is refused, in Python and on the command line, with its file as it was."""
    before = file.read_bytes(), sorted(path.name for path in file.parent.iterdir())
    with pytest.raises(DatabaseFaultError) as caught:
        cl.Lab(file)
    line = one_line(clvlab(file.parent, "backtest", "starter", "--log", file.name, "--owner", "me"))

    assert str(file) in str(caught.value)
    assert repr(file.name) in line
    assert "restore a backup" in line
    assert (file.read_bytes(), sorted(path.name for path in file.parent.iterdir())) == before
    return caught.value.reason


@pytest.mark.parametrize("size", [0, 1, 50, 100, PAGE, PAGE + 1, -PAGE, -100, -1])
def test_database_that_was_cut_short_is_refused_and_not_filled_up(file, size):
    os.truncate(file, size if size >= 0 else file.stat().st_size + size)

    assert refused(file) == "damaged"


@pytest.mark.parametrize("page", [0, 1])
def test_database_with_a_destroyed_page_of_its_schema_is_refused(file, page):
    with file.open("r+b") as opened:
        opened.seek(page * PAGE)
        opened.write(b"\xff" * PAGE)

    assert refused(file) == "damaged"


def test_damaged_name_that_is_no_unicode_is_refused_without_a_traceback(file):
    content = file.read_bytes()
    at = content.index(b"CREATE TABLE agent_errors") + len("CREATE ")
    file.write_bytes(content[:at] + b"\xb1\x80" + content[at + 2 :])

    assert refused(file) == "damaged"


def test_value_that_is_no_json_is_damage_that_readiness_reports_from_then_on(file):
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE runs SET lineage = '{\"cut'")
    with closing(Database(url_of(file))) as database:
        database.ask()

        with pytest.raises(DatabaseFaultError, match="no JSON"), database.read() as connection:
            connection.execute(select(runs.c.lineage)).all()

        with pytest.raises(DatabaseFaultError, match="restore a backup"):
            database.ask()


@pytest.mark.filterwarnings("ignore:the matches of")
def test_every_flip_in_a_database_ends_in_an_answer_or_a_known_error(kept, file):
    content, rng, refusals = file.read_bytes(), random.Random(7), 0

    for _ in range(length(25, 400)):
        broken = bytearray(content)
        page = rng.randrange(len(broken) // PAGE)
        for _ in range(rng.choice([1, 5, 60])):
            broken[page * PAGE + rng.randrange(PAGE)] ^= rng.randrange(1, 256)
        file.write_bytes(broken)
        try:
            with cl.Lab(file) as lab:
                lab.runs()
                repr(lab.open_run(kept[1]))
                lab.sweep("starter", agent="cumulative-drift", grid={"cooldown_s": [0]}, progress=False)
        except ClvlabError:
            refusals += 1
        for path in file.parent.glob("lab.db-*"):
            path.unlink()

    assert refusals


def test_file_of_another_program_gets_no_tables(tmp_path):
    file = tmp_path / "notes.db"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE notes (line TEXT)")

    line = one_line(clvlab(tmp_path, "backtest", "starter", "--log", "notes.db", "--owner", "me"))

    assert "'notes.db' has tables of another program, such as 'notes'" in line
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("notes",)]


def test_new_database_on_a_full_disk_leaves_no_half_made_file_and_is_made_later(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", no_space)

    with pytest.raises(StoreFullError, match=r"lab\.db.*No space left"):
        Database(url_of(tmp_path / "lab.db"))
    assert list(tmp_path.iterdir()) == []

    monkeypatch.undo()
    Database(url_of(tmp_path / "lab.db")).close()


def test_processes_that_open_a_new_database_at_once_share_one(tmp_path):
    file = tmp_path / "lab.db"
    command = [sys.executable, "-c", OPENED, url_of(file)]
    each = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]

    for process in each:
        process.stdin.close()
        process.stdin = None
    said = {process.communicate(timeout=PATIENCE_S)[0] for process in each}

    assert [process.returncode for process in each] == [0, 0, 0]
    assert len(said) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["lab.db"]


def test_database_that_another_process_holds_is_busy_and_nothing_is_kept(file, monkeypatch):
    monkeypatch.setattr(stores, "_WAIT_S", 0.2)
    holding = subprocess.Popen([sys.executable, "-c", HELD, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holding.stdout.readline() == "held\n"

    line = one_line(clvlab(file.parent, "backtest", "starter", "--log", "lab.db", "--owner", "me", "--runs", "new"))
    holding.communicate()

    assert "'lab.db' can't be used: database is locked, by another process" in line
    assert "do it again when that one is done" in line
    assert not (file.parent / "new").exists()
    assert clvlab(file.parent, "backtest", "starter", "--log", "lab.db", "--owner", "me", "--runs", "new")[0] == 0


@pytest.fixture
def read_only(file):
    file.chmod(0o444)
    file.parent.chmod(0o555)
    yield file
    file.parent.chmod(0o755)


def test_read_only_database_is_named(read_only):
    with bound_by_modes():
        line = one_line(clvlab(read_only.parent, "backtest", "starter", "--log", "lab.db", "--owner", "me"))

    assert "'lab.db' can't be used: attempt to write a readonly database; make it and its folder writable" in line


def test_database_that_became_read_only_is_not_ready(file):
    with closing(Database(url_of(file))) as database:
        database.ask()
        file.chmod(0o444)

        with bound_by_modes(), pytest.raises(DatabaseFaultError, match="can't be written") as caught:
            database.ask()

    assert caught.value.reason == "read_only"


def test_file_system_without_locks_is_named(file):
    command = [sys.executable, "-c", WITHOUT_LOCKS, "backtest", "starter"]

    logged = [*command, "--log", "lab.db", "--owner", "me"]
    done = subprocess.run(
        logged,
        cwd=file.parent,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    kept_anyway = subprocess.run(command, cwd=file.parent, env=ENVIRONMENT, capture_output=True, text=True, check=False)

    assert "its file system has no file locks" in one_line((done.returncode, done.stdout, done.stderr))
    assert "'lab.db'" in done.stderr
    assert (kept_anyway.returncode, kept_anyway.stderr) == (0, ""), "a run in a folder needs no locks"


def test_lock_without_file_locks_names_the_folder(tmp_path, monkeypatch):
    def refused(descriptor, operation):  # noqa: ARG001
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr(fcntl, "flock", refused)

    with pytest.raises(OSError, match=str(tmp_path)), lock(tmp_path):
        pass


def test_damaged_database_is_not_backed_up_over_time(file, tmp_path):
    with file.open("r+b") as opened:
        opened.seek(5 * PAGE)
        opened.write(b"\xff" * PAGE)
    out = tmp_path / "backup"
    out.mkdir()

    with pytest.raises(StoreError, match=r"lab\.db' can't be copied.*restore an earlier backup"):
        back_up(url_of(file), out / "copy.db")

    assert list(out.iterdir()) == []


def no_space(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@few(2)
@pytest.mark.parametrize(
    "call",
    [
        ("backtest", "starter", "--runs", "new"),
        ("bundle", "RUN", "--out", "new"),
        ("report", "RUN", "--html", "new"),
        ("log", "keygen", "example.org/log", "--out", "new"),
    ],
    ids=lambda call: call[0],
)
def test_full_disk_is_named_and_leaves_no_half_made_file(kept, tmp_path, monkeypatch, call):
    shutil.copytree(kept[0] / "runs", tmp_path / "runs")
    call = [f"runs/{kept[1]}" if word == "RUN" else word for word in call]
    monkeypatch.setattr(os, "fsync", no_space)

    line = one_line(clvlab(tmp_path, *call))

    assert "No space left on device: 'new" in line
    assert "make room on the disk" in line
    assert [path for path in tmp_path.rglob("*") if path.is_file() and "runs" not in path.parts[-3:]] == []
    assert list(tmp_path.glob("new/*")) == []
    monkeypatch.undo()
    assert clvlab(tmp_path, *call)[0] == 0


def test_search_whose_sums_find_no_room_is_finished_with_a_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "write_bytes", no_space)

    with cl.Lab(tmp_path / "lab.db") as lab, pytest.warns(UserWarning, match=r"lab\.sums.*No space left"):
        found = lab.sweep("starter", agent="cumulative-drift", grid={"cooldown_s": [0, 600]}, progress=False)

    assert found.frame.height == 2
    assert [path for path in (tmp_path / "lab.sums").rglob("*") if path.is_file()] == []


@few(1)
@pytest.mark.parametrize(
    "call",
    [
        ("packs", "import", "csv", "quotes.csv", "--out", "new"),
        ("backtest", "starter", "--agent", "cumulative-drift", "--runs", "new"),
        ("backtest", "starter", "--log", "new.db", "--owner", "me"),
    ],
    ids=["a pack", "a run", "a log"],
)
def test_process_that_may_write_no_large_file_leaves_none_half_made(tmp_path, call):
    write_quotes(tmp_path / "quotes.csv", [(k, f"2026-01-{k + 1:02}") for k in range(28)])
    before = sorted(tmp_path.rglob("*"))

    done = subprocess.run(
        [sys.executable, "-m", "clvlab", *call],
        cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
    )  # fmt: skip

    line = one_line((done.returncode, done.stdout, done.stderr))
    assert "'new" in line or f"'{tmp_path}'" in line or "'.'" in line, line
    assert [path for path in sorted(tmp_path.rglob("*")) if path not in before and path.name != "new"] == []


BREAKS = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "half": lambda path: os.truncate(path, path.stat().st_size // 2),
    "without its end": lambda path: os.truncate(path, path.stat().st_size - 1),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


@few(5)
@pytest.mark.parametrize("how", BREAKS)
@pytest.mark.parametrize("name", ["events.jsonl", "scores.jsonl", "manifest.json"])
def test_run_with_a_broken_file_fails_verification_or_is_refused_in_one_line(kept, tmp_path, name, how):
    shutil.copytree(kept[0] / "runs", tmp_path / "runs")
    run = Path("runs", kept[1])
    BREAKS[how](tmp_path / run / name)
    listed = clvlab(tmp_path, "runs", "--verify")

    verified = clvlab(tmp_path, "verify", run)
    shown = clvlab(tmp_path, "report", run, "--html", "sheet.html")

    assert verified[0] in (1, 2)
    assert verified[0] == 1 or str(run) in one_line(verified)
    if name != "scores.jsonl" or how == "a folder":  # scores are computed from the events
        assert str(run) in one_line(shown)
        assert not (tmp_path / "sheet.html").exists()
    assert "Traceback" not in "".join(map(str, (*verified, *shown, *listed)))
    assert listed[0] == (0 if name == "manifest.json" and how in ("missing", "a folder") else 1), listed


def test_events_that_are_cut_short_name_their_run(kept):
    sealed = read_run(kept[0] / "runs" / kept[1])

    for size in (0, 1, len(sealed.events) // 2):
        with pytest.raises(EvidenceError, match=kept[1]):
            content_hash_of(replace(sealed, events=sealed.events[:size]))


@pytest.mark.parametrize("runs", ["taken", "taken/below"])
def test_file_where_the_folder_of_runs_belongs_is_named(tmp_path, runs):
    (tmp_path / "taken").write_text("a file")

    line = one_line(clvlab(tmp_path, "backtest", "starter", "--runs", runs))

    assert f"'{runs}'" in line
    assert "move" in line
    assert (tmp_path / "taken").read_text() == "a file"


def test_processes_that_seal_one_run_in_one_folder_keep_one(kept, tmp_path):
    command = [sys.executable, "-m", "clvlab", "backtest", "starter", "--agent", "cumulative-drift"]

    each = [subprocess.Popen(command, cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.DEVNULL) for _ in range(2)]

    assert [process.wait(PATIENCE_S) for process in each] == [0, 0]
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [kept[1]]
    assert clvlab(tmp_path, "verify", "latest")[0] == 0
