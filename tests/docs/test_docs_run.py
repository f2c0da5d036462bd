"""Runs what the documentation tells a reader to run, in the order of each page, in an empty folder.

A line of a ``console`` block that starts with ``$ `` is a command; the lines under it are what it must print, and a
``text`` block is what the ``python`` block above it must print. ``...`` stands for anything. Blocks marked ``interop`` need
Go, which the extra of that name brings. Blocks marked ``realdata`` need odds that are not part of the project; they find them
under ``messages/``.
"""

import io
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from contextlib import chdir, contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import pytest

from clvlab.cli import output
from tests.commands import clvlab
from tests.length import whole_only
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
GUIDES = sorted([*ROOT.glob("docs/tutorials/*.md"), *ROOT.glob("docs/how-to/*.md")])
PAGES = [*GUIDES, *sorted([*ROOT.glob("docs/reference/*.md"), *ROOT.glob("docs/explanation/*.md")])]
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVED = "127.0.0.1:8000"  # in pages; here each page has a port of its own
WIDTH = 120
PLAIN = re.compile(  # nothing that only a shell understands, but for a file that takes what is printed
    r"(clvlab (?!service |devchain|devfeed|demo)[^|&;<>()$`?\n#~]+)(?:> (\S+))?"
)
ACTIVATED = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # the environment of the tests, as a reader's


@dataclass(frozen=True)
class Step:
    line: int
    code: str
    expected: str | None
    is_python: bool
    needs_real_odds: bool
    needs_go: bool = False


def steps(text):
    found = []
    for block in FENCE.finditer(text):
        kind, marks, body = block.groups()
        line = text.count("\n", 0, block.start()) + 2
        real = "realdata" in marks.split()
        if kind == "python":
            found.append(Step(line, body, None, is_python=True, needs_real_odds=real))
        elif kind == "text" and found and found[-1].is_python and found[-1].expected is None:
            last = found.pop()
            found.append(Step(last.line, last.code, body, is_python=True, needs_real_odds=last.needs_real_odds))
        elif kind == "console":
            for part in re.split(r"^(?=\$ )", body, flags=re.MULTILINE)[1:]:
                command, _, printed = part[2:].partition("\n")
                needs_go = "interop" in marks.split()
                found.append(Step(line, command, printed or None, is_python=False, needs_real_odds=real, needs_go=needs_go))
    return found


def ours(command, port):
    """The command with a free port."""
    return command.replace(SERVED, f"127.0.0.1:{port}")


def expanded(command, folder):
    """The arguments of a command, names with a star as a shell gives them."""
    for word in shlex.split(command)[1:]:
        found = sorted(str(path.relative_to(folder)) for path in folder.glob(word)) if "*" in word else []
        yield from found or [word]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


@contextmanager
def nothing_left(folder):
    """Ends services and feeds that a page started, if the page did not come to that."""
    try:
        yield
    finally:
        for pid in folder.glob("*.pid"):
            with suppress(ProcessLookupError):
                os.kill(int(pid.read_text()), signal.SIGTERM)


def run(step, page, folder, namespace, port):
    where = f"{page.name}:{step.line}: {step.code}"
    if step.is_python:
        printed = io.StringIO()
        with chdir(folder), redirect_stdout(printed):
            exec(compile(ours(step.code, port), f"{page.name}:{step.line}", "exec"), namespace)
        return where, printed.getvalue()
    if plain := PLAIN.fullmatch(step.code.strip()):
        command, file = plain.groups()
        with patch.object(output.out, "_width", WIDTH), patch.dict(os.environ, PATH=ACTIVATED):
            code, out, err = clvlab(folder, *expanded(ours(command, port), folder))
        assert code == 0, f"{where}\nexit status {code}\n{out}{err}"
        if file is None:
            return where, out
        (folder / file).write_text(out, encoding="utf-8")
        return where, ""
    environment = os.environ | {
        "PATH": ACTIVATED,
        "COLUMNS": str(WIDTH),
        "NO_COLOR": "1",
        "CLVLAB_PORT": str(port),
        "CLVLAB": str(ROOT),
    }
    done = subprocess.run(
        ["sh", "-c", ours(step.code, port)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, f"{where}\nexit status {done.returncode}\n{done.stdout}{done.stderr}"
    return where, done.stdout


def matches(expected, printed):
    pattern = ".*".join(re.escape(part) for part in expected.rstrip("\n").split("..."))
    return re.fullmatch(pattern, printed.rstrip("\n"), re.DOTALL)


def work_through(page, folder, chosen):
    namespace, port = {"__name__": "__page__"}, free_port()
    with nothing_left(folder):
        for step in chosen:
            where, printed = run(step, page, folder, namespace, port)
            if step.expected is not None:
                assert matches(step.expected, printed), f"{where}\nprints\n{printed}\nnot\n{step.expected}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_step_of_a_page_works(page, tmp_path):
    all_steps = [step for step in steps(page.read_text(encoding="utf-8")) if not step.needs_real_odds]
    chosen = [step for step in all_steps if not step.needs_go or find_spec("go")]  # the extra "interop" brings Go

    work_through(page, tmp_path, chosen)


@whole_only
@pytest.mark.realdata
@pytest.mark.parametrize("page", [page for page in PAGES if "realdata" in page.read_text("utf-8")], ids=lambda page: page.name)
def test_every_step_on_real_odds_works(page, tmp_path, realdata):
    (tmp_path / "messages").symlink_to(realdata.resolve(), target_is_directory=True)

    work_through(page, tmp_path, steps(page.read_text(encoding="utf-8")))


def test_tutorials_and_how_to_pages_are_found_and_have_steps():
    assert GUIDES
    assert all(steps(page.read_text(encoding="utf-8")) for page in GUIDES)
