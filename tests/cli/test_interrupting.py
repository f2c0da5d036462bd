import os
import pty
import signal
import subprocess
import sys
import time

import pytest

from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(os.name != "posix", reason="terminals and signals of POSIX")

BUSY = """
import os, time
from clvlab.arena import packs
from clvlab.packs import synthetic
from clvlab.runs import spec
from clvlab.sources import importer
def busy(*arguments, **options):
    os.write(1, b"busy\\n")
    {how}
spec.backtest_spec = synthetic.build = importer.import_source = packs.verified_pack = busy
from clvlab.cli import main
main()
"""
LOOKS_ALIVE = "time.sleep(3600)"
DEAF = "import hashlib; hashlib.pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)"  # outside the lock, for a quarter of an hour


LEFT = {
    "backtest starter": "nothing was written",
    "demo --json": "0 of 2 runs sealed in runs",
    "compare --pack starter baseline cumulative-drift": "0 of 2 runs sealed in runs",
    "packs verify starter": "nothing was written",
    "packs build --out mine": "no pack was written",
    "packs import csv odds.csv --out mine": "no pack was written",
}


FIRSTS = {said: command for command, said in reversed(LEFT.items())}.values()  # to say each of these


def alive(command):
    """What says the same as another command is tried in ``just duels``."""
    return pytest.param(command, LOOKS_ALIVE, id=command, marks=() if command in FIRSTS else pytest.mark.long)


def deaf(command):
    """What is done inside a library ends alike in every command: one is tried here, the others in ``just duels``."""
    return pytest.param(command, DEAF, id=f"{command}, deaf", marks=() if command.startswith("backtest") else pytest.mark.long)


@pytest.mark.parametrize(("command", "how"), [*map(alive, LEFT), *map(deaf, LEFT)])
def test_an_interrupt_ends_whatever_a_command_is_busy_with_and_says_what_was_written(command, how, tmp_path):
    ours, theirs = pty.openpty()
    call = [sys.executable, "-c", BUSY.format(how=how), *command.split()]
    process = subprocess.Popen(
        call,
        cwd=tmp_path,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=os.environ | {"TERM": "dumb"},
        start_new_session=True,
    )
    os.close(theirs)
    try:
        assert process.stdout.readline() == b"busy\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        code = process.wait(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    said = os.read(ours, 65536).decode()
    os.close(ours)

    assert code == 130
    assert f"interrupted: {LEFT[command]}" in said
    assert list(tmp_path.iterdir()) == []
