"""A served arena for whoever plays in it from another environment."""

import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import httpx2

ROOT = Path(__file__).parents[2]
_START_S = 300


@contextmanager
def arena(port=8811):
    """Serve an arena with a store in memory, as a process; gives its URL."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "service"), os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "clvlab", "service", "serve", "--dev", "--port", str(port)]
        with (
            Path(folder, "log").open("wb") as log,
            subprocess.Popen(command, cwd=folder, stderr=log, env=os.environ | {"PYTHONPATH": paths}) as served,
        ):
            try:
                url, until = f"http://127.0.0.1:{port}", time.monotonic() + _START_S
                while not _answers(url):
                    if served.poll() is not None or time.monotonic() > until:
                        raise RuntimeError("the arena did not start: " + Path(folder, "log").read_text())
                    time.sleep(0.2)
                yield url
            finally:
                served.terminate()


def _answers(url):
    try:
        return httpx2.get(f"{url}/healthz", verify=False).status_code == 200
    except httpx2.TransportError:
        return False
