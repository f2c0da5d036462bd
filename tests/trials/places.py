"""Services and workers in processes of their own over a store that the trial chooses, and the clients that ask them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import httpx2
import psutil
from clvlab_service.dev import dev_token

from clvlab.arena.log.operations import new_key

CLVLAB = [sys.executable, "-m", "clvlab"]
PACK = {"source_mode": "replay", "pack_id": "starter"}
FIXTURE = 90000000
Made = TypeVar("Made", bound="Process")


@dataclass
class Process:
    """A process of clvlab over a store."""

    folder: Path
    settings: dict[str, str]
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def process(self) -> psutil.Process:
        assert self._process is not None, "it was not started"
        return psutil.Process(self._process.pid)

    def command(self) -> list[str]:
        """Arguments of clvlab."""
        raise NotImplementedError

    def is_ready(self, said: str) -> bool:
        """Tell whether it does its work, by what it said so far."""
        raise NotImplementedError

    def start(self) -> None:
        """Start it, and wait until it does its work.

        Raises
        ------
        RuntimeError
            It ended, or was not ready within three minutes.
        """
        log = self.folder / f"clvlab-{id(self)}.log"
        quiet = {"CLVLAB_LOG_LEVEL": "error", "PYTHONPATH": os.pathsep.join(sys.path)}
        environment = os.environ | quiet | self.settings
        with log.open("wb") as output:
            self._process = subprocess.Popen([*CLVLAB, *self.command()], cwd=self.folder, env=environment, stderr=output)
        until = time.monotonic() + 180
        while self._process.poll() is None and time.monotonic() < until:
            if self.is_ready(log.read_text()):
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


@dataclass
class Service(Process):
    """``clvlab service serve`` on a port that stays its own over restarts."""

    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        return ["service", "serve", "--dev", "--keys", str(self.folder / "keys"), "--port", str(self.port)]

    def is_ready(self, said: str) -> bool:
        found = re.search(r"serves http://127\.0\.0\.1:(\d+)", said)
        if found:
            self.port = int(found[1])
        return found is not None and answers(self.url)


class Worker(Process):
    """``clvlab service worker``."""

    def command(self) -> list[str]:
        return ["service", "worker"]

    def is_ready(self, said: str) -> bool:
        return "clvlab works for " in said


def answers(url: str) -> bool:
    """Tell whether a service answers."""
    try:
        return httpx2.get(f"{url}/healthz", timeout=2).status_code == 200
    except httpx2.HTTPError:
        return False


@contextmanager
def services(folder: Path, count: int, **settings: str) -> Iterator[Sequence[Service]]:
    """Run so many services over one store, with one key of the run log."""
    with running([Service(folder, with_key(folder, settings)) for _ in range(count)]) as made:
        yield made


def with_key(folder: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings with the one key of the run log."""
    if not (folder / "log.key").exists():
        new_key("trials.example", folder / "log.key")
    return {"CLVLAB_LOG_KEY_FILE": str(folder / "log.key"), **settings}


@contextmanager
def running(made: Sequence[Made]) -> Iterator[Sequence[Made]]:
    """Start processes, and end them all."""
    try:
        start(made)
        yield made
    finally:
        for process in made:
            process.stop()


def start(made: Sequence[Process]) -> None:
    """Start processes at once, and wait until all of them do their work."""
    with ThreadPoolExecutor(len(made)) as threads:
        for started in [threads.submit(process.start) for process in made]:
            started.result()


def client(folder: Path, url: str, owner: str | None, timeout_s: float = 90) -> httpx2.Client:
    """Return a client of an owner, or of nobody."""
    headers = {} if owner is None else {"Authorization": f"Bearer {dev_token(folder / 'keys', owner, 86_000)}"}
    return httpx2.Client(base_url=url, headers=headers, timeout=timeout_s)
