"""What keeps agents in where the kernel permits them no root of their own: on some machines, and in most containers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clvlab.agents.isolation.sandbox import can_lock_in
from tests.length import few, length

pytestmark = pytest.mark.skipif(not can_lock_in(), reason="the kernel or libseccomp can't lock a process in")
ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent.relative_to(ROOT)
HELD = (
    "import json; from clvlab.agents.isolation.process import AgentProcess; "
    "from clvlab.agents.isolation.limits import ProcessLimits; "
    "process = AgentProcess(None, ProcessLimits.of()); print(json.dumps(process.held)); process.close()"
)


def confined(how, *arguments):
    """Run Python with arguments where the kernel permits less."""
    command = [sys.executable, "-m", "tests.agents.isolation.confined", how, sys.executable, *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(params=["no-namespaces", "container"])
def condition(request):
    tried = confined(request.param, "-c", "print('runs')")
    if tried.stdout.strip() != "runs":
        pytest.skip(f"{request.param} can't be made here: {tried.stderr.strip().splitlines()[-1]}")
    return request.param


by_container = pytest.mark.parametrize(
    "condition", [pytest.param("no-namespaces", marks=pytest.mark.long), "container"], indirect=True
)


@few(1)
def test_evidence_says_that_there_was_no_root_of_its_own(condition):
    assert json.loads(confined(condition, "-c", HELD).stdout) == ["calls", "files"]


def test_who_has_no_powers_has_a_root_of_its_own_in_a_namespace_of_users():
    user = "import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x10000000) != 0)"
    if confined("no-powers", "-c", user).returncode:
        pytest.skip("no namespaces of users here")

    assert json.loads(confined("no-powers", "-c", HELD).stdout) == ["calls", "files", "processes", "root"]


IN_SHORT = "refused or bounded or powers or writ or mounts"  # each list of calls, and files


def passes(condition, *names):
    asked = [str(HERE / name) if name.endswith(".py") else name for name in names]
    done = confined(condition, "-m", "pytest", "-q", "-p", "no:cacheprovider", *asked)

    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-2_000:]


@by_container
def test_calls_are_refused_and_files_can_not_be_read(condition):
    passes(condition, "test_sandbox.py", "test_root.py", *length(("-k", IN_SHORT), ()))


@pytest.mark.long
def test_attacks_fail(condition):
    passes(condition, "test_attacks.py")
