"""``clvlab service serve`` in a process of its own, and an owner who sets up what is measured."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CLVLAB = [sys.executable, "-m", "clvlab"]
_EAGER = {"cooldown_s": 0, "min_drift_micro_logits": 1, "min_persistence": 0.0, "warmup_ticks": 1}
_PATH = {"PYTHONPATH": os.pathsep.join(sys.path)}


@dataclass(frozen=True)
class Served:
    """A service that runs: where, a token, and its process."""

    port: int
    token: str
    pid: int

    def processor_s(self) -> float:
        """Processor time of all threads of the service so far."""
        ticks = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[11:13]  # proc(5): utime and stime
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(folder: Path, packs: Mapping[str, tuple[int, int]], **settings: str) -> Iterator[Served]:
    """Serve packs of so many fixtures and messages from a store in memory."""
    for pack, (fixtures, messages) in packs.items():
        _run(folder, "packs", "build", "--out", f"packs/{pack}", "--fixtures", str(fixtures), "--messages", str(messages))
        _run(folder, "packs", "admit", pack, "--catalog", "packs")
    environment = os.environ | {"CLVLAB_PACKS": "packs", "CLVLAB_LOG_LEVEL": "error"} | settings | _PATH
    log = folder / "serve.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*_CLVLAB, "service", "serve", "--dev", "--port", "0"], cwd=folder, env=environment, stderr=output
        )
        try:
            while not (found := re.search(r"http://127\.0\.0\.1:(\d+),", log.read_text())):
                if process.poll() is not None:
                    raise RuntimeError(log.read_text())
                time.sleep(0.05)
            time.sleep(1)
            yield Served(int(found[1]), _run(folder, "service", "dev-token").strip(), process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)


def _run(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        [*_CLVLAB, *arguments], cwd=folder, env=os.environ | _PATH, capture_output=True, text=True, check=True
    ).stdout


class Owner:
    """Sets up what is measured."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def get(self, path: str) -> Any:
        return self._ask("GET", path, None)

    def post(self, path: str, body: Any = None, expect: int | None = None) -> Any:
        return self._ask("POST", path, body, expect)

    def competition(self, pack_id: str, fixture_id: int, agents: int) -> str:
        """A competition with so many eager agents."""
        config = {"competition_type": "bench", "source_mode": "replay", "market_scope": "all", "roster_size": max(agents, 2)}
        created = self.post("/competitions", config | {"pack_id": pack_id, "fixture_id": fixture_id})["competition_id"]
        for number in range(agents):
            entry = {"strategy": "cumulative-drift", "config": _EAGER, "proof_mode": "reproducible"}
            self.post(f"/competitions/{created}/agents", entry | {"agent_id": f"agent-{number}"})
        return str(created)

    def run_of(self, decisions: int, pack_id: str, fixture_id: int) -> tuple[str, int]:
        """A run of at least so many decisions, of as few agents as that takes."""
        for agents in range(1, 1000):
            run_id = self.post(f"/competitions/{self.competition(pack_id, fixture_id, agents)}/start")["run_id"]
            metrics = self.get(f"/runs/{run_id}")["metrics"]["agents"]
            made = sum(agent["valid_count"] + agent["invalid_count"] + agent["pending_count"] for agent in metrics)
            if made >= decisions:
                return run_id, made
        raise RuntimeError("the agents decide too little")

    def _ask(self, method: str, path: str, body: Any, expect: int | None = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=600)
        connection.request(method, path, None if body is None else json.dumps(body), self._headers)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        if response.status not in ((200, 201) if expect is None else (expect,)):
            raise RuntimeError(f"{method} {path}: {response.status} {content[:500]!r}")
        return json.loads(content)
