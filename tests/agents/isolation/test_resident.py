"""Libraries lie in memory before an agent's code runs: what it reads of them leaves no trace that another could time."""

import ctypes
import mmap
import os
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

import pytest

from clvlab.agents.isolation import root, sandbox
from clvlab.agents.isolation.agent import isolated
from clvlab.agents.isolation.root import Resident
from clvlab.agents.isolation.sandbox import can_lock_in
from tests.agents.isolation.test_agent import Own, outcomes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
LARGE = 300_000


def evicted(path):
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return path


def in_memory(path):
    """Whether all pages of a file lie in memory; looking brings in none, as reading without a wait would."""
    libc = ctypes.CDLL(None, use_errno=True)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE) as mapped:
        pages = (ctypes.c_ubyte * -(-len(mapped) // mmap.PAGESIZE))()
        start = (ctypes.c_char * len(mapped)).from_buffer(mapped)
        try:
            assert libc.mincore(start, ctypes.c_size_t(len(mapped)), pages) == 0
        finally:
            del start
        return all(page & 1 for page in pages)


@pytest.fixture
def folder(tmp_path):
    for name, size in (("small", 10), ("deeper/large", LARGE), ("empty", 0)):
        path = tmp_path / "libraries" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size))
    (tmp_path / "libraries" / "nowhere").symlink_to("/nowhere")
    (tmp_path / "libraries" / "round").symlink_to(".")
    if in_memory(evicted(tmp_path / "libraries" / "deeper" / "large")):
        pytest.skip("this file system keeps files in memory")
    return tmp_path / "libraries"


def test_files_of_a_folder_lie_in_memory_once_held(folder):
    assert Resident().hold([folder]) == 3
    assert all(in_memory(folder / name) for name in ("small", "deeper/large"))


def test_files_are_read_again_only_if_one_has_gone(folder, monkeypatch):
    monkeypatch.setattr(root, "_let_go", lambda: (1,))
    held = Resident()
    held.hold([folder])

    assert held.hold([folder]) == 0
    evicted(folder / "deeper" / "large")
    assert held.hold([folder]) == 3
    assert in_memory(folder / "deeper" / "large")


def test_files_are_read_again_if_the_kernel_let_any_go_or_does_not_tell(folder, monkeypatch):
    counts = iter([(1,), (2,), (), ()])
    monkeypatch.setattr(root, "_let_go", lambda: next(counts))
    held = Resident()

    assert [held.hold([folder]) for _ in range(4)] == [3] * 4


def test_files_beside_those_that_are_held_are_read(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(root, "_let_go", lambda: (1,))
    (tmp_path / "model").write_bytes(b"x")
    held = Resident()
    held.hold([folder])

    assert held.hold([folder, tmp_path / "model"]) == 4
    assert held.hold([tmp_path / "model", tmp_path / "gone"]) == 1


@pytest.mark.skipif(not can_lock_in(), reason="the kernel or libseccomp can't lock a process in")
def test_library_that_nobody_read_lies_in_memory_before_an_agent_runs(monkeypatch):
    monkeypatch.setattr(sandbox, "_RESIDENT", Resident())  # that of this session has read them
    rare = Path(sysconfig.get_path("stdlib"), "pydoc_data", "topics.py")
    if in_memory(evicted(rare)):
        pytest.skip("another process has it mapped, or the file system keeps it in memory")

    assert isolated(Own()).identity.agent_id

    assert in_memory(rare)


STDLIB = sysconfig.get_path("stdlib")
UNNEEDED = [
    "/usr/lib/os-release",
    "/usr/lib/locale/locale-archive",
    f"{STDLIB}/test/__init__.py",
    "/sys/devices/system/cpu/vulnerabilities/l1tf",
]


@pytest.mark.skipif(not can_lock_in(), reason="the kernel or libseccomp can't lock a process in")
def test_files_that_agents_do_not_need_can_not_be_read():
    there = [path for path in UNNEEDED if Path(path).exists()]

    found = outcomes({path: lambda path=path: Path(path).read_bytes() for path in there})

    assert {path for path, (outcome, _) in found.items() if outcome == "done"} == set()
    assert there


def imported(name):
    return lambda: len(dir(__import__(name, fromlist=["x"])))


MODULES = [
    "ssl",
    "sqlite3",
    "lzma",
    "bz2",
    "ctypes",
    "decimal",
    "zoneinfo",
    "uuid",
    "asyncio",
    "numpy.linalg",
    "pyarrow.parquet",
]


@pytest.mark.skipif(not can_lock_in(), reason="the kernel or libseccomp can't lock a process in")
def test_modules_of_python_and_of_its_environment_can_be_imported():
    beside = ("sklearn.linear_model", "scipy.optimize", "pandas")
    installed = [name for name in beside if find_spec(name.partition(".")[0])]

    found = outcomes({name: imported(name) for name in [*MODULES, *installed]})

    assert {name: told for name, (outcome, *told) in found.items() if outcome != "done"} == {}
