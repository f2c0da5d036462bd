"""Services in processes of their own over a store that the trial chooses, and the clients that ask them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import psutil
from clvlab_service.dev import dev_token

from clvlab.application.log.operations import new_key

CLVLAB = [sys.executable, "-m", "clvlab"]
PACK = {"source_mode": "replay", "pack_id": "starter"}
FIXTURE = 90000000


@dataclass
class Service:
    """``clvlab serve`` on a port that stays its own over restarts."""

    folder: Path
    settings: dict[str, str]
    port: int = 0
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def process(self) -> psutil.Process:
        assert self._process is not None, "the service was not started"
        return psutil.Process(self._process.pid)

    def start(self) -> None:
        """Start it, and wait until it answers.

        Raises
        ------
        RuntimeError
            It ended, or did not answer within a minute.
        """
        log = self.folder / f"serve-{id(self)}.log"
        command = [*CLVLAB, "serve", "--dev", "--keys", str(self.folder / "keys"), "--port", str(self.port)]
        quiet = {"CLVLAB_LOG_LEVEL": "error", "PYTHONPATH": os.pathsep.join(sys.path)}
        with log.open("wb") as output:
            self._process = subprocess.Popen(command, cwd=self.folder, env=os.environ | quiet | self.settings, stderr=output)
        until = time.monotonic() + 60
        while self._process.poll() is None and time.monotonic() < until:
            if found := re.search(r"serves http://127\.0\.0\.1:(\d+)", log.read_text()):
                self.port = int(found[1])
                if answers(self.url):
                    return
            time.sleep(0.05)
        raise RuntimeError(log.read_text()[-3000:])

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it without a word."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it as an operator does."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
            try:
                self._process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self.kill()


def answers(url: str) -> bool:
    """Tell whether a service answers."""
    try:
        return httpx2.get(f"{url}/healthz", timeout=2).status_code == 200
    except httpx2.HTTPError:
        return False


@contextmanager
def services(folder: Path, count: int, **settings: str) -> Iterator[Sequence[Service]]:
    """Run so many services over one store, with one key of the run log."""
    if not (folder / "log.key").exists():
        new_key("trials.example", folder / "log.key")
    shared = {"CLVLAB_LOG_KEY_FILE": str(folder / "log.key")} | settings
    made = [Service(folder, shared) for _ in range(count)]
    try:
        for service in made:
            service.start()
        yield made
    finally:
        for service in made:
            service.stop()


def client(folder: Path, url: str, owner: str | None, timeout_s: float = 90) -> httpx2.Client:
    """Return a client of an owner, or of nobody."""
    headers = {} if owner is None else {"Authorization": f"Bearer {dev_token(folder / 'keys', owner, 86_000)}"}
    return httpx2.Client(base_url=url, headers=headers, timeout=timeout_s)
