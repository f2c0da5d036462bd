"""Real processes get a signal at a report of progress, so the moment is the same on any machine."""

import os
import pty
import shutil
import signal
import subprocess
import sys

import psutil
import pytest

from clvlab.packs.synthetic import Recipe, build
from tests.commands import clvlab
from tests.length import few
from tests.packs.remote.buckets import BUCKET, bucket
from tests.packs.remote.web import serving
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="terminals and signals of POSIX")

WATCHED = """
import os, sys, threading, time
from clvlab.base import progress
at = sys.argv.pop(1)
def told(watch, stage, done=0, total=0):
    if threading.current_thread() is threading.main_thread():
        if at in ("", stage):
            os.write(1, f"@{stage}\\n".encode())
        while at == stage:
            time.sleep(1)
progress.Watch.__call__ = told
from clvlab.cli import main
main()
"""
AGENTS = """
import sys, time
import clvlab as cl

class Slow(cl.TickAgent):
    def on_tick(self, book):
        if book.tick_seq > 5:
            print("deciding", file=sys.stderr)
            time.sleep(3600)

@cl.strategy
def busy(ticks):
    print("deciding", file=sys.stderr)
    while True:
        pass

@cl.strategy
def slow(ticks, turn=1):
    if turn > 3:
        print("deciding", file=sys.stderr)
        time.sleep(3600)
    time.sleep(2)
    return ticks.head(0)
"""
ODDS = "fixture,kickoff,time,market,side,odds\n" + "".join(
    f"match {number},2026-03-0{1 + number}T15:00Z,2026-03-0{1 + number}T{hour}:00Z,WINNER||,{side},{odds}\n"
    for number in range(4)
    for hour in (10, 11, 12)
    for side, odds in (("home", 2.1), ("away", 1.8))
)
BETS = "placed_at,match,market,pick,odds,stake\n2026-01-02T09:00Z,Birch North - Glen North,1X2,home,2.1,£10\n"
COMMANDS = {
    "import": ("packs import csv odds.csv --out mine", "mine", "no pack was written"),
    "build": ("packs build --out mine --fixtures 3 --messages 30", "mine", "no pack was written"),
    "verify pack": ("packs verify pack", None, "nothing was written"),
    "pull": ("packs pull {web}/pack --out mine", "mine", "no pack was written"),
    "push": ("packs push pack {bucket}/{turn}", None, "the pack appears there once it is complete"),
    "backtest": ("backtest pack --agent baseline --runs-folder more", "more", "nothing was written"),
    "backtest in a log": ("backtest pack --agent baseline --runs-folder more --log log.db", "more", "nothing was written"),
    "sweep": ("sweep pack --agent baseline --grid stake=1,2,3", None, "a sweep writes nothing"),
    "grade": ("bets grade bets.csv --pack starter --runs-folder more", "more", "nothing was written"),
    "verify run": ("verify {run}", None, "0 of 1 verified"),
    "replay": ("verify {run} --replay --pack pack", None, "0 of 1 verified"),
    "report": ("report {run} --pack pack --html sheet.html", "sheet.html", "no page was written"),
    "audit": ("log audit kept.db --state state.json", "state.json", "no state was written"),
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with everything that the commands read, and the places that they name."""
    folder = tmp_path_factory.mktemp("prepared")
    build(Recipe(3, 4, 40), folder / "pack")
    (folder / "odds.csv").write_text(ODDS)
    (folder / "bets.csv").write_text(BETS)
    code, said, wrong = clvlab(folder, "backtest", "pack", "--log", "kept.db", "--runs-folder", "runs")
    assert code == 0, said + wrong
    run = next((folder / "runs").iterdir()).name
    with serving(folder) as web, bucket() as made:
        yield folder, {"run": f"runs/{run}", "web": web.url().rstrip("/"), "bucket": f"s3://{BUCKET}"}, made.variables


def started(folder, variables, at, command):
    """Start a command that stops at its first report of a stage, and return it with its standard error, a terminal."""
    ours, theirs = pty.openpty()
    settings = {"TERM": "dumb", "CLVLAB_PROGRESS_AFTER_S": "600", "CLVLAB_CACHE": str(folder.parent / "cache")}
    process = subprocess.Popen(
        [sys.executable, "-c", WATCHED, at, *command.split()],
        cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs, start_new_session=True,
        env=os.environ | variables | settings,
    )  # fmt: skip
    os.close(theirs)
    return process, ours


def said_on(ours):
    """Return what was said on a terminal whose other end is closed."""
    found = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # EIO: no process has the other end
            part = b""
        if not part:
            os.close(ours)
            return found.decode()
        found += part


def left_in(folder):
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def of_session(number):
    """Return the living processes of a session."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == number and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, ProcessLookupError):
            continue
    return found


def copied(prepared, tmp_path):
    folder = tmp_path / "work"
    shutil.copytree(prepared[0], folder)
    return folder


def whole(folder, variables, command):
    """Run a command to its end, and return its reports."""
    process, ours = started(folder, variables, "", command)
    out = process.communicate(timeout=PATIENCE_S)[0].decode()
    assert process.returncode == 0, out + said_on(ours)
    os.close(ours)
    return [line[1:] for line in out.splitlines() if line.startswith("@")]


def interrupted(folder, variables, at, command, number):
    process, ours = started(folder, variables, at, command)
    try:
        assert any(line.startswith(b"@") for line in iter(process.stdout.readline, b""))
        process.send_signal(number)
        code = process.wait(timeout=PATIENCE_S)
        until(lambda: not of_session(process.pid))
        return code, said_on(ours)
    finally:
        process.kill()
        process.stdout.close()


def sampled(name):
    """One command of each kind is interrupted by default, the others in ``just duels``."""
    kinds = ("import", "backtest in a log")
    return pytest.param(name, marks=() if name in kinds else pytest.mark.long)


@few(1)
@pytest.mark.parametrize("name", [*map(sampled, COMMANDS)])
def test_a_signal_at_any_moment_leaves_nothing_half_written_and_the_command_works_again(name, prepared, tmp_path):
    text, written, left = COMMANDS[name]
    folder, variables = copied(prepared, tmp_path), prepared[2]
    before = left_in(folder)
    committed = "log.db" if name == "backtest in a log" else "-"  # its entries stay, and the run with them

    first = copied(prepared, tmp_path / "first")
    reports = whole(first, variables, text.format(**prepared[1], turn="first"))
    done, command = left_in(first), text.format(**prepared[1], turn="then")
    for number, at in [(signal.SIGINT, reports[0]), (signal.SIGTERM, reports[len(reports) // 2]), (signal.SIGINT, reports[-1])]:
        code, said = interrupted(folder, variables, at, command, number)

        how, wanted = {signal.SIGINT: ("interrupted", 130), signal.SIGTERM: ("terminated", 143)}[number]
        assert (code, said.count(f"{how}: "), "Traceback" in said) == (wanted, 1, False), said
        found = {path: content for path, content in left_in(folder).items() if not path.startswith(committed)}
        is_left = found == before
        assert is_left or found == done, set(found) ^ set(before)
        assert (left in said) is is_left, said
        if not is_left:
            shutil.rmtree(folder / written)

    whole(folder, variables, command)
    assert written is None or (folder / written).exists()
    assert committed == "-" or clvlab(folder, "log", "audit", "log.db")[0] == 0


OF_AGENTS = {
    "backtest pack --agent agents.py:Slow --runs-folder more": "nothing was written",
    "backtest pack --agent agents.py:busy --runs-folder more": "nothing was written",
    "sweep pack --agent agents.py:slow --grid turn=1,2,3,4,5,6,7,8": "a sweep writes nothing",
}


@few(1)
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
@pytest.mark.parametrize("command", OF_AGENTS)
def test_a_signal_ends_an_agent_that_does_not_answer_and_every_worker(command, number, prepared, tmp_path):
    folder = copied(prepared, tmp_path)
    (folder / "agents.py").write_text(AGENTS)
    (folder / "temporary").mkdir()
    before = left_in(folder)
    process, ours = started(folder, {"CLVLAB_WORKERS": "2", "TMPDIR": str(folder / "temporary")}, "", command)

    try:
        said = os.read(ours, 65536)
        while b"deciding" not in said and process.poll() is None:
            said += os.read(ours, 65536)
        process.send_signal(number)
        code = process.wait(timeout=PATIENCE_S)
        until(lambda: not of_session(process.pid))
    finally:
        process.kill()
        process.stdout.close()

    said = said.decode() + said_on(ours)
    assert code == {signal.SIGINT: 130, signal.SIGTERM: 143}[number]
    assert (said.count(OF_AGENTS[command]), "leaked" in said) == (1, False), said
    assert left_in(folder) == before
