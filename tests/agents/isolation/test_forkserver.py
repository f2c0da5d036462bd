"""The fork server: what its forks inherit, how they are kept from it, and what takes its place where it is not safe."""

import ctypes
import gc
import json
import locale
import os
import re
import resource
import secrets
import signal
import stat
import subprocess
import sys
import threading
import time
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path

import polars as pl
import pytest

import clvlab as cl
from clvlab.agents.isolation import process
from clvlab.agents.isolation.agent import isolated
from clvlab.agents.isolation.forkserver import ForkProcess, ForkServers
from clvlab.agents.isolation.process import AgentProcess
from clvlab.agents.isolation.sandbox import can_lock_in
from clvlab.engine.lookahead import lookahead_audit
from clvlab.errors import AgentError, AgentFailedError
from clvlab.law.schema import Held
from tests.agents.isolation.test_agent import TAPE, Own
from tests.length import few
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.skipif(not can_lock_in(), reason="the kernel or libseccomp can't lock a process in")


@pytest.fixture(autouse=True)
def servers(monkeypatch):
    """Fork servers of the test alone."""
    own = ForkServers()
    monkeypatch.setattr(process, "_SERVERS", own)
    yield own
    own.close()


@contextmanager
def asked(act=None, **limits):
    """A process of an agent, and a function that asks it for what it finds out."""
    agent = isolated(Own(act), **limits)
    own = AgentProcess(agent.code, agent.limits)
    try:
        yield own, lambda: own.decisions(TAPE, **agent.configured)["reason"].item()
    finally:
        own.close()


def found(act, kind=ForkProcess, **limits):
    with asked(act, **limits) as (own, ask):
        answer = ask()
        assert type(own._process) is kind
    return answer


@contextmanager
def started_alone(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(ForkServers, "fork", lambda *_, **__: None)
        yield


def children(pid):
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def server_pids(servers):
    """The number of each server, whose parent waits for it."""
    return [until(lambda own=server: children(own._process.pid))[0] for server in servers._servers]


def is_running(pid):
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it may end between opening and reading
        return False


# What a fork inherits.


def condition():
    """What a process could notice of how it came to be."""
    import random

    looks = []
    for _ in range(3):  # a file that a library's thread has open for a moment is not inherited
        time.sleep(0.01)
        looks.append({})
        for file in range(64):
            with suppress(OSError):
                looks[-1][file] = stat.S_IFMT(os.fstat(file).st_mode)
    files = dict(set.intersection(*(set(look.items()) for look in looks)))
    limits = [name for name in dir(resource) if name.startswith("RLIMIT_") and name != "RLIMIT_AS"]
    told = {
        "environment": sorted(os.environ.items()),
        "files": files,
        "numbers": [os.getpid(), os.getppid()],
        "user": [os.getuid(), os.geteuid(), os.getgid(), sorted(os.getgroups())],
        "signals": sorted((int(one), str(signal.getsignal(one)).partition(" at ")[0]) for one in signal.valid_signals()),
        "blocked": sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ()))),
        "limits": {name: resource.getrlimit(getattr(resource, name)) for name in limits},
        "cores": sorted(os.sched_getaffinity(0)),
        "locale": [locale.getlocale(), locale.setlocale(locale.LC_ALL), time.tzname],
        "threads": [one.name for one in threading.enumerate()],
        "flags": [str(sys.flags), sys.path, sys.getrecursionlimit(), sys.getswitchinterval(), hash("clvlab")],
        "warnings": [str(one) for one in warnings.filters],
        "garbage": [gc.isenabled(), gc.get_threshold(), gc.get_debug()],
        "streams": [type(one).__name__ for one in (sys.stdin, sys.stdout, sys.stderr)],
        "modes": [oct(Path(name).stat().st_mode) for name in ("/usr", "/proc")],
        "random": [random.getstate()[0], "numpy.random" in sys.modules],
    }
    try:
        told["folder"] = str(Path.cwd())
    except OSError as error:
        told["folder"] = error.strerror
    print(json.dumps(told))


@contextmanager
def nothing(_):
    yield


@contextmanager
def in_a_folder(tmp_path):
    before = os.open(".", os.O_RDONLY)
    os.chdir(tmp_path)
    try:
        yield
    finally:
        os.fchdir(before)
        os.close(before)


@contextmanager
def in_a_folder_that_is_gone(tmp_path):
    (tmp_path / "gone").mkdir()
    with in_a_folder(tmp_path / "gone"):
        (tmp_path / "gone").rmdir()
        yield


@contextmanager
def on_one_core(_):
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def of_few_files(_):
    before = resource.getrlimit(resource.RLIMIT_SIGPENDING)
    resource.setrlimit(resource.RLIMIT_SIGPENDING, (before[0] - 1, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_SIGPENDING, before)


@contextmanager
def with_other_variables(_):
    os.environ.update(CLVLAB_SECRET="closes", LC_ALL="de_DE", PYTHONWARNINGS="error", TZ="Mars/1")
    try:
        yield
    finally:
        for name in ("CLVLAB_SECRET", "LC_ALL", "PYTHONWARNINGS", "TZ"):
            del os.environ[name]


@contextmanager
def in_another_locale(_):
    before = locale.setlocale(locale.LC_ALL)
    locale.setlocale(locale.LC_ALL, "C")
    try:
        yield
    finally:
        locale.setlocale(locale.LC_ALL, before)


CHANGES = [nothing, in_a_folder, in_a_folder_that_is_gone, on_one_core, of_few_files, with_other_variables, in_another_locale]


@few(2)
@pytest.mark.parametrize("change", CHANGES)
def test_fork_is_in_the_condition_of_a_process_that_is_started_then(change, tmp_path, monkeypatch, capsys):
    found(lambda: "the servers are there before")

    with change(tmp_path):
        found(condition)
        forked = json.loads(capsys.readouterr().out)
        with started_alone(monkeypatch):
            found(condition, subprocess.Popen)

    assert forked == json.loads(capsys.readouterr().out)


@few(1)
@pytest.mark.parametrize("before", [0o000, 0o777])
def test_what_may_be_done_with_new_files_and_what_is_ignored_here_reaches_no_fork(before, capsys):
    found(condition)
    plain = capsys.readouterr().out
    process._SERVERS.close()

    mask, hangup = os.umask(before), signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        found(condition)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        signal.signal(signal.SIGHUP, hangup)
        os.umask(mask)

    assert capsys.readouterr().out == plain


DRAWN = {
    "of Python": lambda: __import__("random").random(),
    "of the system": lambda: secrets.token_hex(8),
    "of NumPy": lambda: __import__("numpy").random.random(),
    "of NumPy's generators": lambda: __import__("numpy").random.default_rng().random(),
    "of Polars": lambda: pl.Series(range(10_000)).sample(4).to_list(),
    "of the order in Polars": lambda: pl.DataFrame({"n": [str(n) for n in range(1000)]}).unique()["n"].head(9).to_list(),
    "of PyArrow": lambda: __import__("pyarrow.compute").compute.random(2).to_pylist(),
    "of names of files": lambda: next(__import__("tempfile")._get_candidate_names()),
    "of UUIDs": lambda: __import__("uuid").uuid4().hex,
}


def test_no_two_forks_draw_the_same():
    def drawn():
        return json.dumps({name: str(draw()) for name, draw in DRAWN.items()})

    one, other = json.loads(found(drawn)), json.loads(found(drawn))

    assert {name for name in DRAWN if one[name] == other[name]} == set()


def test_agent_that_draws_by_addresses_in_memory_is_not_deterministic():
    """All forks of a server have its addresses."""
    with pytest.raises(AgentError, match="is not deterministic"):
        lookahead_audit(isolated(Own(lambda: id(object()))), TAPE, seed=1)


def test_server_has_one_thread_and_nothing_that_is_ours(servers, monkeypatch):
    monkeypatch.setenv("CLVLAB_SECRET", "closes")
    found(lambda: "forked")

    for pid in server_pids(servers):
        own = Path(f"/proc/{pid}")
        assert len(list((own / "task").iterdir())) == 1
        assert b"closes" not in (own / "environ").read_bytes()
        assert sorted({str(file.readlink()).partition(":")[0] for file in (own / "fd").iterdir()}) == [
            "/dev/null",
            "anon_inode",
            "socket",
        ]
        assert [
            line for line in (own / "maps").read_text().splitlines() if "w" in line.split()[1] and "s" in line.split()[1]
        ] == []


def held_in_memory(parts):
    """Where a text that no part of this code spells out lies in this process's memory."""
    wanted = "".join(parts).encode()
    places = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        where, kind, *_ = line.split()
        if kind.startswith("rw"):
            start, end = (int(one, 16) for one in where.split("-"))
            data = ctypes.string_at(start, end - start)
            at = data.find(wanted)
            while at >= 0:
                places.append(start + at)
                at = data.find(wanted, at + 1)
            del data
    return places


def test_fork_has_nothing_of_those_before_it_in_memory(tmp_path):
    """The server was told neither what an agent may read nor where its tape lies."""
    marker = f"model-{secrets.token_hex(8)}"
    (tmp_path / marker).write_text("weights")
    halves = [marker[:9], marker[9:]]
    with asked(lambda: len(held_in_memory(halves)), reads=[tmp_path / marker]) as (_, ask):
        assert int(ask()) > 1  # beside what the search itself holds

        assert int(found(lambda: len(held_in_memory(halves)))) <= 1


# How forks are kept from the server and from each other.


def test_fork_has_open_files_of_its_own_alone():
    def written():
        for file in range(1024):
            with suppress(OSError):
                os.write(file, b"garbage" * 9)

    with asked(lambda: "asked") as (_, ask):
        assert ask() == "asked"
        with pytest.raises(AgentFailedError, match="GarbledAnswer"):
            found(written)
        assert ask() == "asked"
    assert found(lambda: "forked after that") == "forked after that"


def reaching(pid):
    libc = ctypes.CDLL(None, use_errno=True)

    def called(*arguments):
        return "done" if libc.syscall(*arguments) >= 0 else os.strerror(ctypes.get_errno())

    outcome = {name: called(*call) for name, call in {
        "ptrace, attach": (101, 16, pid, 0, 0),
        "ptrace, seize": (101, 0x4206, pid, 0, 0),
        "memory": (310, pid, bytes(64), 1, bytes(64), 1, 0),
        "signal": (62, pid, 0),
        "signal to all": (62, -1, 0),
        "signal to the group": (62, 0, 0),
        "signal to a thread": (234, pid, pid, 0),
        "handle": (434, pid, 0),
        "limits": (302, pid, 7, None, bytes(16)),
        "its files": (438, 3, 0, 0),
    }.items()}  # fmt: skip
    for name in ("mem", "fd", "maps", "environ", "status", "cwd"):
        try:
            Path(f"/proc/{pid}/{name}").read_bytes()
            outcome[name] = "done"
        except OSError as error:
            outcome[name] = error.strerror
    return outcome


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of calls")
def test_fork_reaches_neither_the_server_nor_those_that_wait_nor_another_fork(servers, capsys):
    with asked(lambda: "asked") as (beside, ask):
        assert ask() == "asked"
        others = [*server_pids(servers), *(one._process.pid for one in servers._servers), beside._process.pid, beside._first]
        others += [1, os.getpid()]
        found(lambda: print(json.dumps({pid: reaching(pid) for pid in others})))
        outcomes = json.loads(capsys.readouterr().out)

        assert ask() == "asked"
    refused = {"Operation not permitted", "Permission denied", "No such file or directory", "No such process"}
    own = {"maps"}  # in namespaces of its own it is number 1
    done = {(pid, name) for pid, all_ in outcomes.items() for name, told in all_.items() if told not in refused}
    assert {(pid, name) for pid, name in done if not (pid == "1" and name in own | {"signal to a thread", "status"})} == set()


@pytest.mark.long
def test_many_forks_leave_neither_processes_nor_open_files(servers):
    found(lambda: "first")
    pids = server_pids(servers)
    before = [len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids]
    ours = len(list(Path("/proc/self/fd").iterdir()))

    def exits():
        os._exit(3)

    for act in (exits, lambda: threading.Event().wait(0.01), lambda: "answered", lambda: bytearray(8 << 30)) * 5:
        with suppress(AgentFailedError):
            found(act, memory_mb=512)

    gc.collect()
    until(lambda: [children(pid) for pid in pids] == [[], []])
    assert [len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids] == before
    assert len(list(Path("/proc/self/fd").iterdir())) <= ours
    assert server_pids(servers) == pids


def test_status_of_a_fork_is_that_of_a_process(monkeypatch):
    def outcomes(kind):
        for act in (lambda: os._exit(3), lambda: ctypes.string_at(8)):
            with pytest.raises(AgentFailedError) as caught:
                found(act, kind)
            yield str(caught.value)

    forked = list(outcomes(ForkProcess))
    with started_alone(monkeypatch):
        assert list(outcomes(subprocess.Popen)) == forked
    assert ["status 3" in forked[0], "status -11" in forked[1]] == [True, True]


def test_processes_of_many_threads_get_answers_of_their_own():
    agents, answers = [isolated(Own(lambda number=number: number)) for number in range(8)], {}

    def ask(number):
        agent = agents[number]
        own = AgentProcess(agent.code, agent.limits, grows=number % 2 == 1)
        answers[number] = own.decisions(TAPE, **agent.configured)["reason"].item(), type(own._process)
        own.close()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)

    assert answers == {number: (str(number), ForkProcess) for number in range(8)}


# Where a server is not there, or not safe.


def test_forks_outlive_their_server_and_the_next_process_is_started(servers):
    with asked(lambda: "asked") as (own, ask):
        assert ask() == "asked"
        for pid in server_pids(servers):
            os.kill(pid, signal.SIGKILL)
        for server in servers._servers:
            server._process.wait(PATIENCE_S)

        assert ask() == "asked"
        assert own.alive
        assert found(lambda: "started", subprocess.Popen) == "started"
    assert not own.alive


def test_server_that_is_killed_before_it_has_forked_keeps_nobody_waiting():
    agent = isolated(Own(lambda: "started"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("clvlab.agents.isolation.forkserver._MODULE", "this")  # a module of Python that ends at once
        own = AgentProcess(agent.code, agent.limits)
        try:
            assert own.decisions(TAPE, **agent.configured)["reason"].item() == "started"
            assert isinstance(own._process, subprocess.Popen)
        finally:
            own.close()


UNSAFE = {
    "another thread": "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()",
    "memory that forks would share": "import mmap; shared = mmap.mmap(-1, 4096)",
    "no lock": "import sys; sys.modules['py_landlock'] = None",
}


@pytest.fixture
def beforehand(tmp_path, monkeypatch):
    """A function that has servers run a program before all else."""
    monkeypatch.setattr("clvlab.agents.isolation.process.CLVLAB", tmp_path / "clvlab")
    ours = f"import sys; sys.path.insert(0, {str(Path(cl.__file__).parents[1])!r})"
    of_server = "if 'clvlab.agents.isolation.forkserver' in sys.orig_argv:"
    return lambda program: (tmp_path / "sitecustomize.py").write_text(f"{ours}\n{of_server}\n    {program}")


@few(1)
@pytest.mark.parametrize("unsafe", UNSAFE)
def test_process_is_started_where_a_server_would_not_be_safe(unsafe, beforehand):
    beforehand(UNSAFE[unsafe])

    for _ in range(2):
        assert found(lambda: "started", subprocess.Popen) == "started"


def test_fork_that_can_not_be_locked_in_gets_no_agent(beforehand):
    beforehand("import clvlab.agents.isolation.sandbox as own; own.lock_in = lambda *_, **__: False")

    with asked(lambda: "locked in") as (own, ask):
        assert ask() == "locked in"
        assert isinstance(own._process, subprocess.Popen)
        assert {Held.CALLS, Held.FILES} <= set(own.held)


def test_fork_of_this_process_has_servers_of_its_own(servers):
    found(lambda: "forked")
    pids = server_pids(servers)

    ours, theirs = os.pipe()
    if (child := os.fork()) == 0:
        try:
            with asked() as (own, _):
                told = [*map(str, own.held), type(own._process).__name__, server_pids(servers) != pids]
            os.write(theirs, str(told).encode())
        finally:
            servers.close()
            os._exit(0)
    os.close(theirs)
    os.waitpid(child, 0)
    with os.fdopen(ours) as told:
        assert re.fullmatch(r"\['calls', 'files'.*, 'ForkProcess', True\]", told.read())

    assert found(lambda: "forked") == "forked"
    assert server_pids(servers) == pids


USER = """
import json, os, sys, time
from contextlib import closing
from clvlab.agents.isolation import process
from clvlab.agents.isolation.agent import isolated
from clvlab.agents.isolation.process import AgentProcess
from tests.agents.isolation.test_agent import TAPE, Own
from tests.agents.isolation.test_forkserver import server_pids

agent = isolated(Own(lambda: [None for _ in iter(int, 1)]))
own = AgentProcess(agent.code, agent.limits)
own.held
if "forks" in sys.argv and os.fork() == 0:
    time.sleep(600)
print(json.dumps([*server_pids(process._SERVERS), own._process.pid, own._first]), flush=True)
try:
    own.decisions(TAPE, **agent.configured)
except KeyboardInterrupt:
    own.close()
    other = isolated(Own(lambda: "asked again"))
    with closing(AgentProcess(other.code, other.limits)) as again:
        print(again.decisions(TAPE, **other.configured)["reason"].item(), type(again._process).__name__, flush=True)
"""


@contextmanager
def user(*arguments):
    root = Path(__file__).parents[3]
    environment = os.environ | {"PYTHONPATH": str(root)}
    command = [sys.executable, "-c", USER, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True) as own:
        try:
            yield own, json.loads(own.stdout.readline())
        finally:
            with suppress(ProcessLookupError):
                os.killpg(own.pid, signal.SIGKILL)


@few(1)
@pytest.mark.parametrize("forks", [[], ["forks"]], ids=["alone", "with a fork that lives on"])
def test_server_and_forks_end_with_their_user(forks):
    with user(*forks) as (own, pids):
        assert all(map(is_running, pids))
        own.kill()

        until(lambda: not any(map(is_running, pids)))


@pytest.mark.long
def test_interrupt_reaches_the_user_and_not_the_server():
    with user() as (own, pids):
        time.sleep(0.2)
        os.killpg(own.pid, signal.SIGINT)

        assert own.stdout.readline() == "asked again ForkProcess\n"
        assert [is_running(pid) for pid in pids[2:]] == [False, False]
        assert own.wait(PATIENCE_S) == 0
        until(lambda: not any(map(is_running, pids)))


_KEPT_TO_THE_END = """
import polars as pl
import clvlab as cl

@cl.strategy
def lucky(ticks, *, rest: int = 0):
    return ticks.filter(pl.col("prob_bps") % 97 == rest)

for rest in range(3):
    cl.backtest("starter", lucky, params={"rest": rest})
"""


@pytest.mark.long
def test_processes_that_are_kept_to_the_end_of_a_script_end_in_silence(tmp_path):
    (tmp_path / "own.py").write_text(_KEPT_TO_THE_END)
    done = subprocess.run([sys.executable, "own.py"], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (0, "")
