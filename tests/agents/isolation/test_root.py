"""A root of one's own: what is not in it has no metadata to ask for, and where there can be none, all else holds."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from clvlab.agents.isolation.agent import isolated
from clvlab.agents.isolation.code import code_of
from clvlab.agents.isolation.limits import ProcessLimits
from clvlab.agents.isolation.process import AgentProcess
from clvlab.agents.isolation.sandbox import can_lock_in
from clvlab.errors import AgentFailedError
from clvlab.law.schema import Held
from tests.agents.isolation.test_agent import Own, outcomes, reason_of
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.skipif(not can_lock_in(), reason="the kernel or libseccomp can't lock a process in")
ENTERS = """
import os, sys, tempfile
from clvlab.agents.isolation.sandbox import enter_own_root, lock_in
def entered():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        return enter_own_root(folder, [], network=False)[0]
"""


def printed(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else done.stderr


@pytest.fixture(scope="module")
def apart():
    """Whether this kernel permits a root of one's own; a container may forbid it."""
    program = (
        f"{ENTERS}\nfolder = tempfile.mkdtemp()\nprint(enter_own_root(folder, [], network=False)[0], flush=True)\nos._exit(0)"
    )
    if printed(program) != "True":
        pytest.skip("no mounts of one's own here")


PATHS = ["/etc/passwd", "/home", "/var", "/usr/bin", "/usr/lib/os-release", "/sys/kernel", "/dev/shm", "/tmp/clvlab", __file__]


@pytest.mark.usefixtures("apart")
def test_path_outside_has_no_metadata_whether_it_is_there_or_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("left").write_text("closes")
    Path("link").symlink_to("closes")
    here = ("left", "link", str(tmp_path / "left"), tempfile.gettempdir(), f"/proc/{os.getpid()}", "/proc/self/task")
    acts = {path: lambda path=path: Path(path).lstat() for path in (*PATHS, *here)}

    found = outcomes(acts)

    there = {path for path, (outcome, _) in found.items() if outcome == "done"}
    assert there <= {tempfile.gettempdir()}  # the tape lies in a folder there, and no other


@pytest.mark.usefixtures("apart")
def test_processes_and_threads_are_numbered_anew():
    """Numbers of the machine would tell how many threads another process of the audit has started."""

    def numbers():
        threads = []
        for _ in range(3):
            thread = threading.Thread(target=lambda: threads.append(threading.get_native_id()))
            thread.start()
            thread.join()
        return os.getpid(), os.getppid(), max(threads)

    pid, parent, highest = eval(reason_of(numbers))

    assert isolated(Own()).identity.held == (Held.CALLS, Held.FILES, Held.PROCESSES, Held.ROOT)
    assert (pid, parent) == (1, 0)
    assert highest < 200


@pytest.mark.usefixtures("apart")
def test_machine_tells_neither_its_name_nor_what_others_do_there():
    def told():
        before = Path("/proc/meminfo").read_bytes()
        memory = bytearray(os.urandom(1) * (64 << 20))
        return os.uname().nodename, Path("/proc/meminfo").read_bytes() == before, len(memory) >> 20

    assert eval(reason_of(told)) == ("agent", True, 64)


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize("ends", ["the first", "the one that waits"])
def test_both_processes_end_as_one(ends, request):
    """The one that a session starts waits for the one that the agent runs in."""
    process, configured = AgentProcess(code_of(Own()), ProcessLimits.of()), isolated(Own()).configured
    request.addfinalizer(process.close)
    process.identity(**configured)
    first = process._first
    assert first != process._process.pid

    os.kill(first if ends == "the first" else process._process.pid, signal.SIGKILL)

    assert process._process.wait(PATIENCE_S) == -signal.SIGKILL
    until(lambda: not Path(f"/proc/{first}").exists())
    with pytest.raises(AgentFailedError, match="ended with status -9"):
        process.identity(**configured)


@pytest.mark.usefixtures("apart")
def test_folder_that_is_hidden_in_a_visible_one_is_empty_and_nothing_can_be_written(tmp_path):
    for name in ("root", "seen/packs"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "seen" / "packs" / "season").touch()
    program = (
        "import os, sys; from pathlib import Path; from clvlab.agents.isolation.root import enter_root, take_namespaces\n"
        f"at = Path({str(tmp_path)!r}); take_namespaces(); enter_root(at / 'root', [at / 'seen'], [at / 'seen' / 'packs'])\n"
        "found = [os.listdir(at), os.listdir(at / 'seen'), os.listdir(at / 'seen' / 'packs')]\n"
        "for act in (lambda: (at / 'seen' / 'new').touch(), lambda: Path('/new').touch(), lambda: os.utime(at / 'seen')):\n"
        "    try: act(); found.append('done')\n"
        "    except OSError as error: found.append(error.strerror)\n"
        "print(found)"
    )

    refused = ["Read-only file system"] * 3
    assert printed(program) == str([["seen"], ["packs"], [], *refused])
    assert (tmp_path / "seen" / "packs" / "season").exists()


def test_where_mounts_are_refused_all_else_holds():
    refuses = (
        "import pyseccomp, errno\nrefusing = pyseccomp.SyscallFilter(pyseccomp.ALLOW)\n"
        "refusing.add_rule(pyseccomp.ERRNO(errno.EPERM), 'unshare')\nrefusing.load()\n"
    )

    assert printed(f"{ENTERS}\n{refuses}\nprint(entered(), lock_in([], network=False))") == "False True"


@pytest.mark.usefixtures("apart")
def test_folder_of_a_tape_is_gone_with_its_process(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    assert reason_of(lambda: "asked") == "asked"
    from clvlab.agents.isolation.agent import _WARM

    _WARM.close()
    assert list(tmp_path.iterdir()) == []
