"""Agents of one's own run apart: what they do to their process reaches nothing here."""

import json
import mmap
import os
import signal
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest

import clvlab as cl
from clvlab.agents.isolation.agent import isolated
from clvlab.agents.isolation.limits import ProcessLimits
from clvlab.agents.isolation.sandbox import can_lock_in
from clvlab.engine.agent import Identity
from clvlab.engine.lookahead import lookahead_audit
from clvlab.engine.run import run
from clvlab.errors import AgentError, AgentFailedError, ClvlabError, UnknownAgentError
from clvlab.law.closing import Window
from clvlab.proof.canonical import sha256
from clvlab.proof.evidence import read_evidence
from clvlab.proof.verify import verify
from tests.factories import AUDITED, make_agent, make_decisions, make_own_run, make_tape, message
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.long

TAPE = make_tape([message(n, n * 60, {"part1": 4000 + 100 * n, "part2": 6000 - 100 * n}) for n in range(6)], {1: 3600})
EVEN = {"part1": 5000, "part2": 5000}
TWO = make_tape([message(n, n * 60, EVEN, fixture_id=number) for number in (1, 2) for n in range(6)], {1: 3600, 2: 3600})
OTHER = os.getpid()
sandboxed = pytest.mark.skipif(not can_lock_in(), reason="the kernel or libseccomp can't lock a process in")


class Own(cl.TickAgent):
    """Does something once, and backs the first message."""

    def __init__(self, act=None):
        self.act = act

    def on_tick(self, book):
        if book.tick_seq:
            return None
        said = str(self.act()) if self.act else None
        return book.back("part1", reason=said)


def reason_of(act, **limits):
    """What an agent's process found out."""
    return isolated(Own(act), **limits).decide(TAPE)["reason"].item()


def started(result):
    return read_evidence(result.sealed.events).started["agents"][0]


def test_code_of_an_agent_runs_in_another_process():
    assert int(reason_of(os.getpid)) != os.getpid()


def test_code_of_a_file_runs_in_another_process_from_its_first_line(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "import os, sys, clvlab, polars as pl\n"
        "import clvlab.engine.run, clvlab.engine.run\n"
        "clvlab.engine.run.with_states = clvlab.engine.run.seal = None\n"
        "sys.modules['clvlab.proof.verify'] = None\n"
        "PID = str(os.getpid())\n"
        "@clvlab.strategy\n"
        "def first(ticks):\n"
        "    return ticks.filter(pl.col('tick_seq') == 0).with_columns(reason=pl.lit(PID))\n"
    )

    test = cl.backtest("starter", f"{file}:first", audit=False)  # its process differs each time, and so does its reason

    assert test.run.verify().passed
    assert str(os.getpid()) not in set(test.source.evidence.decisions["reason"])


def test_label_says_how_far_the_process_was_locked_in_and_that_it_was_audited():
    audited, unchecked = make_own_run(TAPE, Own(), audit_seed=1), make_own_run(TAPE, Own())

    assert (started(audited)["causality"], started(unchecked)["causality"]) == (AUDITED, "unchecked")
    assert {"reads", "network"}.isdisjoint(started(audited))


@pytest.mark.parametrize("lacking", ["py_landlock", "pyseccomp"])
def test_process_that_is_not_locked_in_is_labelled_so(lacking, tmp_path, monkeypatch):
    (tmp_path / f"{lacking}.py").write_text("raise ImportError('not here')")
    (tmp_path / "clvlab").symlink_to(Path(cl.__file__).parent)
    monkeypatch.setattr("clvlab.agents.isolation.process.CLVLAB", tmp_path / "clvlab")

    result = make_own_run(TAPE, Own(lambda: lacking), audit_seed=1)

    assert started(result)["causality"] == "audited-process"


@pytest.mark.parametrize(
    ("act", "kind", "says"),
    [
        (lambda: os._exit(3), "ProcessEnded", "status 3"),
        (lambda: [None for _ in iter(int, 1)], "TimedOut", "no answer in 2 s"),
        (lambda: [_written(fd, b"garbage" * 9) for fd in range(3, 20)], "GarbledAnswer", "a frame of kind"),
        (lambda: bytearray(2 << 30), "MemoryError", None),
        (lambda: 1 // 0, "ZeroDivisionError", "division"),
        (lambda: sys.exit("enough"), "SystemExit", "enough"),
        (lambda: (_ for _ in ()).throw(KeyboardInterrupt), "KeyboardInterrupt", None),
    ],
    ids=["exits", "hangs", "garbage", "memory", "error", "sys.exit", "interrupt"],
)
def test_failure_of_a_process_is_the_agents_and_its_cause_stands_in_evidence(act, kind, says):
    broken = isolated(Own(act), timeout_s=2 if kind == "TimedOut" else PATIENCE_S, memory_mb=1024)

    with pytest.raises(AgentFailedError, match=says) as caught:
        run(TAPE, [broken], Window())
    beside = run(TAPE, [broken, make_agent(make_decisions({}))], Window())

    assert caught.value.kind == kind
    assert [error["error"] for error in beside.evidence.errors] == [kind]
    assert beside.scores["agent_id"].to_list() == ["a"]
    assert verify(beside.sealed).passed


@pytest.fixture
def unlocked(tmp_path, monkeypatch):
    """A system without what locks a process in."""
    (tmp_path / "py_landlock.py").write_text("raise ImportError('not here')")
    (tmp_path / "pyseccomp.py").write_text("raise ImportError('not here')")
    (tmp_path / "clvlab").symlink_to(Path(cl.__file__).parent)
    monkeypatch.setattr("clvlab.agents.isolation.process.CLVLAB", tmp_path / "clvlab")


@pytest.mark.usefixtures("unlocked")
@pytest.mark.parametrize("closes", [False, True])
def test_process_that_an_agent_started_keeps_nobody_waiting(closes, tmp_path):
    """It holds the pipes of the agent's process, which can start one where it is not locked in."""
    left = tmp_path / "left"

    def forks():
        if os.fork() == 0:
            os.setsid()
            left.write_text(str(os.getpid()))
            threading.Event().wait()
            os._exit(0)
        if closes:
            os._exit(0)
        threading.Event().wait()

    try:
        with pytest.raises(AgentFailedError, match="no answer in 4 s"):
            run(TAPE, [isolated(Own(forks), timeout_s=4)], Window())
    finally:
        os.kill(int(left.read_text()), signal.SIGKILL)


@pytest.mark.usefixtures("unlocked")
def test_shared_memory_is_bounded_also_where_no_sandbox_refuses_it():
    def taken():
        held = []
        with suppress(OSError, MemoryError):
            while len(held) < 100:
                held.append(mmap.mmap(-1, 128 << 20))
        return len(held)

    assert 0 < int(reason_of(taken, memory_mb=256)) <= 4


@pytest.mark.parametrize("kind", [b"F", b"I", b"O", b"A"])
def test_long_answer_of_a_kind_that_is_short_is_not_read(kind):
    frame = kind + struct.pack("<Q", 1 << 29)

    with pytest.raises(AgentFailedError, match="a frame of kind"):
        reason_of(lambda: [_written(fd, frame) for fd in range(3, 20)])


class Talkative:
    """Waits at every tick, so many times."""

    identity = Identity("talkative", "own", "1")

    def __init__(self, times, reason=None):
        self.times, self.reason = times, reason

    def decide(self, tape):  # noqa: ARG002  as the engine asks
        wait = make_decisions({"action": "WAIT", "market_key": None, "side": None, "reason": self.reason})
        return wait.select(pl.all().repeat_by(self.times).explode())


@pytest.mark.parametrize(
    ("agent", "says"),
    [
        (Talkative(20_000), "20,000 decisions, and at most 10,024 are read"),
        (Talkative(400_000), "a frame of kind b'D' and [0-9,]+ bytes, the limit is"),
        (Talkative(2, "x" * 1_000_000), "2,000,[0-9]{3} bytes are more than 2 decisions can have"),
    ],
    ids=["too many", "far too many", "long texts"],
)
def test_answer_beyond_what_was_asked_is_not_read(agent, says):
    with pytest.raises(AgentFailedError, match=f"GarbledAnswer: .*{says}"):
        isolated(agent).decide(TAPE)


def test_long_print_is_cut_and_no_failure(capsys):
    assert reason_of(lambda: print("x" * (5 << 20))) == "None"
    assert 0 < capsys.readouterr().out.count("x") <= 1 << 20


def test_print_steers_no_terminal(capsys):
    reason_of(lambda: print("\x1b[1Averified\x07"))

    assert capsys.readouterr().out == "\\x1b[1Averified\\x07\n"


def _written(fd, data):
    with suppress(OSError):
        os.write(fd, data)


def test_traceback_of_the_agents_own_code_comes_with_its_error():
    def looked_up():
        return {}["missing"]

    with pytest.raises(AgentFailedError) as caught:
        reason_of(looked_up)

    note = caught.value.__notes__[0]
    assert note.startswith("In the agent's process:")
    assert "in looked_up" in note
    assert "KeyError: 'missing'" in note


def test_process_that_ended_is_replaced_by_a_new_one():
    agent = isolated(Own(lambda: os._exit(1)))

    for _ in range(2):
        with pytest.raises(AgentFailedError, match="ProcessEnded"):
            agent.decide(TAPE)


def test_a_process_is_kept_for_questions_and_never_for_what_is_sealed():
    drawn = []

    def of_the_process():
        drawn.extend([] if drawn else [os.urandom(8).hex()])
        return drawn[0]

    agent = isolated(Own(of_the_process))

    kept = {agent.decide(TAPE)["reason"].item() for _ in range(3)}
    sealed = {run(TAPE, [agent], Window()).evidence.decisions["reason"].item() for _ in range(2)}

    assert len(kept) == 1
    assert len(sealed) == 2
    assert kept.isdisjoint(sealed)


def test_what_an_agent_prints_is_shown_once_however_long_the_tape(capsys):
    def loud():
        print("hello from the agent")
        print("a warning", file=sys.stderr)

    make_own_run(TAPE, Own(loud), audit_seed=1)
    lookahead_audit(isolated(Own(lambda: print("of a part"))), TWO, seed=1, max_rows=12)

    out, err = capsys.readouterr()
    assert out.count("hello from the agent") == 1
    assert err.count("a warning") == 1
    assert out.count("of a part") == 2  # once a fixture


def test_script_without_a_guard_runs_once(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import clvlab as cl, polars as pl\n"
        "print('begun')\n"
        "@cl.strategy\n"
        "def early(ticks):\n"
        "    return ticks.filter(pl.col('tick_seq') == 1)\n"
        "print(cl.backtest('starter', early).run.verify().passed)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(cl.__file__).parents[1])}

    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, env=environment)

    assert done.stdout.split() == ["begun", "True"]


def test_modules_of_ones_own_travel_with_the_agent(tmp_path, monkeypatch):
    (tmp_path / "own_helpers.py").write_text(
        "import polars as pl\nLEAST = 2\ndef late():\n    return pl.col('tick_seq') >= LEAST\n"
    )
    (tmp_path / "own_agents.py").write_text(
        "import clvlab\nimport own_helpers\nfrom own_helpers import late\n"
        "@clvlab.strategy\n"
        "def patient(ticks):\n"
        "    return ticks.filter(late(), own_helpers.late())\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import own_agents

    decided = isolated(own_agents.patient).decide(TAPE)

    assert decided["tick_seq"].min() == 2


def test_agent_that_holds_what_no_process_can_take_is_refused():
    with pytest.raises(AgentError, match=r"Own can't be taken to a process of its own.*open files, locks or connections"):
        isolated(Own(threading.Lock().acquire))


def test_environment_of_an_agent_holds_nothing_of_ones_own(monkeypatch):
    monkeypatch.setenv("MY_CLOSES", "secret")

    assert reason_of(lambda: os.environ.get("MY_CLOSES")) == "None"
    assert reason_of(lambda: os.environ.get("MY_CLOSES"), network=True) == "secret"


PLANTED = ["LC_CLVLAB", "POLARS_CLVLAB", "POLARS_TEMP_DIR", "PYTHONCLVLAB", "PYTHONDONTWRITECLVLAB", "PYTHONWARNINGS"]
SET = {"HOME": "/closes", "LANG": "de_DE", "PATH": "/closes", "TMPDIR": "/closes", "TZ": "Mars/1", "PYTHONHASHSEED": "7"}


def test_environment_of_an_agent_is_the_same_whatever_ours_says(monkeypatch):
    plain = reason_of(lambda: sorted(os.environ.items()))
    for name, value in SET.items() | {(name, "closes") for name in PLANTED} | {("LD_LIBRARY_PATH", "/closes")}:
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", f"/closes{os.pathsep}{os.environ.get('PYTHONPATH', '')}")

    assert reason_of(lambda: sorted(os.environ.items())) == plain
    assert "closes" not in plain


def test_number_of_threads_that_an_agent_finds_is_one_that_it_could_count(monkeypatch):
    monkeypatch.setattr(pl, "thread_pool_size", lambda: 0xC105E5)

    assert int(reason_of(lambda: os.environ["POLARS_MAX_THREADS"])) == os.cpu_count()


def test_sets_have_one_order_in_every_process():
    first, second = (isolated(Own(lambda: list({"a", "b", "c", "d", "e", "f"}))) for _ in range(2))

    assert run(TAPE, [first], Window()).sealed == run(TAPE, [second], Window()).sealed


OUTSIDE = {
    "what a user's processes have queued": lambda: Path("/proc/self/status").read_text(),
    "a file of the system": lambda: Path("/etc/passwd").read_text(),
    "its own file": lambda: Path(__file__).read_text(),
    "the folder of a pack": lambda: list(cl.open_pack("season").source.folder.iterdir()),
    "the ticks of a pack": lambda: (cl.open_pack("season").source.folder / "ticks.parquet").read_bytes(),
    "a file at home": lambda: Path.home().joinpath("clvlab-left-behind").write_text("closes"),
    "a file where it works": lambda: Path("left-behind").write_text("closes"),
    "a folder of shared memory": lambda: Path("/dev/shm/clvlab").mkdir(),
    "a link": lambda: Path.home().joinpath("clvlab-link").symlink_to("/etc/passwd"),
    "the length of a file": lambda: os.truncate(__file__, 0),
    "who may read": lambda: Path(os.__file__).chmod(0o644),
    "when it was read": lambda: os.utime(os.__file__, (1, 1)),
    "a note on a file": lambda: os.setxattr(os.__file__, "user.x", b"1"),
    "a socket": lambda: __import__("socket").socket(),
    "a connection": lambda: __import__("socket").create_connection(("127.0.0.1", 9)),
    "a socket of this machine": lambda: __import__("socket").socket(__import__("socket").AF_UNIX),
    "a program": lambda: subprocess.run(["/bin/true"], check=True),
    "a fork": os.fork,
    "a signal": lambda: os.kill(os.getppid(), 0),
    "another program in its place": lambda: os.execv(sys.executable, [sys.executable]),
    "a limit": lambda: __import__("resource").setrlimit(9, (-1, -1)),
    "its priority": lambda: os.setpriority(os.PRIO_PROCESS, 0, 5),
    "another process": lambda: list(Path(f"/proc/{OTHER}").iterdir()),
    "the root": lambda: list(Path("/").iterdir()),
    "sockets of the machine": lambda: Path("/proc/self/net/unix").read_text(),
    "sockets of the machine, by a thread": lambda: Path(f"/proc/self/task/{os.getpid()}/net/tcp").read_text(),
    "faults of pages": lambda: Path("/proc/self/stat").read_text(),
    "faults of pages, by a thread": lambda: Path(f"/proc/self/task/{os.getpid()}/stat").read_text(),
    "how it was started": lambda: Path("/proc/self/environ").read_bytes(),
    "groups of processes": lambda: list(Path("/sys/fs/cgroup").iterdir()),
    "the target of a link": lambda: Path("/proc/self").readlink(),
    "a note on a file of others": lambda: os.getxattr(os.__file__, "user.x"),
    "the notes on a file": lambda: os.listxattr(os.__file__),
    "file systems": lambda: os.statvfs("/"),
}


def outcomes(acts, **limits):
    """What came of acts, each tried by one process that is locked in: what it gave, or the error by its class and its cause."""

    def tried():
        found = {}
        for name, act in acts.items():
            try:
                found[name] = ["done", str(act())]
            except (OSError, ValueError, MemoryError, ClvlabError) as error:
                found[name] = [type(error).__name__, getattr(error, "strerror", None)]
        return json.dumps(found)

    return json.loads(reason_of(tried, **limits))


@pytest.fixture(scope="module")
def reached():
    return outcomes(OUTSIDE)


@sandboxed
@pytest.mark.parametrize("name", OUTSIDE)
def test_locked_in_agent_can_neither_read_nor_write_nor_reach_anything(reached, name):
    refusals = ("PermissionError", "FileNotFoundError", "UnknownPackError", "PackFormatError", "OSError", "ValueError")
    assert reached[name][0] in refusals


@sandboxed
def test_locked_in_agent_may_use_libraries_and_threads():
    def act():
        from concurrent.futures import ThreadPoolExecutor

        import numpy as np
        import pyarrow as pa

        with ThreadPoolExecutor(2) as pool:
            return int(np.sum(list(pool.map(len, ["a", "bb"]))) + pa.array([1]).sum().as_py())

    assert reason_of(act) == "4"


@sandboxed
def test_file_that_is_allowed_can_be_read_and_its_hash_is_sealed(tmp_path):
    model = tmp_path / "model.json"
    model.write_text('{"edge": 1}')

    agent = isolated(Own(lambda: model.read_text()), reads=[model])
    result = run(TAPE, [agent], Window(), audit_seed=1)

    assert result.evidence.decisions["reason"].item() == '{"edge": 1}'
    named = {"name": "model.json", "sha256": sha256(model.read_bytes())}
    assert started(result)["reads"] == [named]
    assert verify(result.sealed).passed
    with pytest.raises(AgentFailedError, match=r"PermissionError|FileNotFoundError"):
        run(TAPE, [isolated(Own(lambda: model.read_text()))], Window())


@sandboxed
def test_file_that_is_allowed_can_be_read_by_the_name_it_was_given(tmp_path, monkeypatch):
    folder = tmp_path / "models" / "first"
    folder.mkdir(parents=True)
    (folder / "model.json").write_text("1")
    (tmp_path / "newest").symlink_to("models/first")
    monkeypatch.chdir(tmp_path)
    names = ["newest/model.json", str(tmp_path / "newest" / "model.json"), "models/first/model.json"]

    for name in names:
        assert reason_of(lambda name=name: Path(name).read_text(), reads=[name]) == "1"


def test_file_that_changes_while_it_is_read_is_noticed(tmp_path):
    model = tmp_path / "model.json"
    model.write_text("1")
    agent = isolated(Own(), reads=[model])
    _ = agent.identity
    model.write_text("2")

    with pytest.raises(AgentError, match="a file that the agent may read changed"):
        run(TAPE, [agent], Window())


def test_network_is_sealed_where_it_is_allowed():
    def bound():
        import socket

        with socket.socket() as own:
            own.bind(("127.0.0.1", 0))
        return "reached"

    result = make_own_run(TAPE, isolated(Own(bound), network=True), audit_seed=1)

    assert (result.evidence.decisions["reason"].item(), started(result)["network"]) == ("reached", True)
    assert verify(result.sealed).passed


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({"memory_mb": 0}, "memory_mb must be a positive number"),
        ({"timeout_s": -1}, "timeout_s"),
        ({"timeout_s": float("nan")}, "timeout_s"),
        ({"network": 1}, "network must be True or False, not 1"),
        ({"reads": "model.json"}, "reads must be a list of files"),
        ({"reads": ["/"]}, "'/' is not one"),
        ({"reads": ["none.json"]}, "is not one"),
    ],
    ids=str,
)
def test_limit_out_of_its_range_is_refused_by_its_value(limits, says):
    with pytest.raises(AgentError, match=says):
        isolated(Own(), **limits)


def test_default_limits_are_settings(monkeypatch):
    monkeypatch.setenv("CLVLAB_AGENT_TIMEOUT_S", "7")
    monkeypatch.setenv("CLVLAB_AGENT_MEMORY_MB", "2048")

    assert ProcessLimits.of() == ProcessLimits(2048, 7)
    assert ProcessLimits.of(timeout_s=1.5).timeout_s == 1.5
    monkeypatch.setenv("CLVLAB_AGENT_TIMEOUT_S", "soon")
    with pytest.raises(AgentError, match="CLVLAB_AGENT_TIMEOUT_S must be a whole number, not 'soon'"):
        ProcessLimits.of()


@pytest.mark.parametrize("named", ["none.py:x", "mine.txt:x", "baseline", "a.py"])
def test_agent_in_a_file_that_is_not_there_is_refused(named):
    with pytest.raises((AgentError, UnknownAgentError), match=r"no Python file|named as file.py:name"):
        isolated(named)


def test_name_and_parameters_of_an_agent_are_told_to_its_process():
    @cl.strategy
    def least(ticks, *, seq=0):
        return ticks.filter(pl.col("tick_seq") == seq)

    agent = isolated(least).with_params("second", seq=2)

    assert (agent.identity.agent_id, agent.identity.config["seq"]) == ("second", 2)
    assert set(agent.decide(TAPE)["tick_seq"]) == {2}
    with pytest.raises(AgentError, match="has no parameter 'rise'"):
        _ = isolated(least, params={"rise": 1}).identity
    with pytest.raises(AgentError, match="Own can't be entered as 'second'"):
        _ = isolated(Own()).with_params("second").identity


def test_identity_is_a_claim_but_for_what_is_known_here():
    class Liar(Own):
        @property
        def identity(self):
            return Identity("liar", "baseline", "1", causality="template", reads=(("x", "y"),), network=True)

        def decide(self, tape):
            return super().decide(tape).with_columns(agent_id=pl.lit("liar"))

    agent = started(make_own_run(TAPE, Liar()))

    assert (agent["strategy"], agent["causality"]) == ("baseline", "unchecked")
    assert agent["source_sha256"].startswith("sha256:")
    assert {"reads", "network"}.isdisjoint(agent)


def test_worker_is_told_all_it_needs_and_nothing_more(tmp_path):
    environment = {"PYTHONPATH": str(Path(cl.__file__).parents[1]), "PATH": os.environ["PATH"]}
    settings = {"folder": str(tmp_path), "grows": False, "memory_mb": 4096, "network": False, "reads": []}
    command = [sys.executable, "-P", "-m", "clvlab.agents.isolation.worker", json.dumps(settings)]

    done = subprocess.run(command, input=b"", capture_output=True, check=True, env=environment)

    ready = json.loads(done.stdout[9:])
    assert set(ready) == {"sandbox", "namespace", "process"}
    assert ready["sandbox"] == can_lock_in()
