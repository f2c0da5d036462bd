import os
import pty
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="terminals and signals of POSIX")

BUSY = """
import os, time
from clvlab.application import backtests
from clvlab.cli import main, packs
def busy(*arguments, **options):
    os.write(1, b"busy\\n")
    {how}
backtests.plan_backtest = packs.build = packs.import_source = packs.packs.verified_pack = busy
main()
"""
LOOKS_ALIVE = "time.sleep(60)"
DEAF = "import hashlib; hashlib.pbkdf2_hmac('sha256', b'', b'', 60_000_000)"  # outside the lock, for many seconds


@pytest.mark.parametrize("how", [LOOKS_ALIVE, DEAF], ids=["between instructions", "inside a library"])
@pytest.mark.parametrize(
    ("command", "left"),
    [
        (["backtest", "starter"], "nothing was written"),
        (["demo", "--json"], "0 of 2 runs are sealed in runs"),
        (["compare", "--pack", "starter", "baseline", "cumulative-drift"], "0 of 2 runs are sealed in runs"),
        (["packs", "verify", "starter"], "nothing was written"),
        (["packs", "build", "--out", "mine"], "no pack was written"),
        (["packs", "import", "csv", "odds.csv", "--out", "mine"], "no pack was written"),
    ],
    ids=lambda given: "-".join(given[:2]) if isinstance(given, list) else "",
)
def test_an_interrupt_ends_within_half_a_second_and_says_what_was_written(command, left, how, tmp_path):
    ours, theirs = pty.openpty()
    call = [sys.executable, "-c", BUSY.format(how=how), *command]
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
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        code = process.wait(timeout=20)
        took_s = time.monotonic() - begun
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    said = os.read(ours, 65536).decode()
    os.close(ours)

    assert code == 130
    assert took_s < 2  # half a second on a machine that has nothing else to do
    assert f"interrupted: {left}" in said
    assert list(tmp_path.iterdir()) == []
