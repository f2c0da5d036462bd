"""A JupyterLab of the test's own, and a page of headless Chromium that notes every request."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

__all__ = ["WAIT_MS", "Lab", "Requests", "chromium", "jupyterlab"]

WAIT_MS = 180_000  # for anything that comes by itself: a busy machine is slow, and a condition is awaited each time
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    """Path of the system's Chromium."""
    return next((path for path in map(shutil.which, _BROWSERS) if path), None)


@dataclass
class Requests:
    """What pages asked for, by URL."""

    urls: list[str] = field(default_factory=list)

    @property
    def external(self) -> list[str]:
        """Requests to another host than this machine."""
        asked = [urlsplit(url) for url in self.urls]
        return [url.geturl() for url in asked if url.scheme not in {"data", "blob", "file", "about"} and not _is_local(url)]


def _is_local(url: object) -> bool:
    return getattr(url, "hostname", None) in {"127.0.0.1", "localhost"}


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab."""

    url: str
    token: str
    root: Path

    def open(self, notebook: str) -> str:
        """URL of a notebook under the root, in a workspace of its own: none brings back the tabs of another."""
        return f"{self.url}/lab/workspaces/{secrets.token_hex(4)}/tree/{notebook}?token={self.token}"


@contextmanager
def jupyterlab(root: Path, home: Path) -> Iterator[Lab]:
    """Serve ``root`` on loopback; settings, runtime files and home are in ``home``, never the user's."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(16)
    folders = {name: str(home / name.lower()) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")}
    folders |= {name: str(home / name.lower()) for name in ("JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR")}
    environment = os.environ | folders | {"HOME": str(home), "IPYTHONDIR": str(home / "ipython"), "JUPYTER_NO_CONFIG": "1"}
    _settle(home / "jupyterlab_settings_dir" / "@jupyterlab")
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}",
        "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={root}",
        "--LabApp.expose_app_in_browser=True", "--LabApp.news_url=", "--LabApp.extension_manager=readonly",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]  # fmt: skip
    with (home / "jupyterlab.log").open("w") as log:
        server = subprocess.Popen(command, env=environment, cwd=root, stdout=log, stderr=subprocess.STDOUT)
    try:
        _await_start(server, f"http://127.0.0.1:{port}", token, home / "jupyterlab.log")
        yield Lab(f"http://127.0.0.1:{port}", token, root)
    finally:
        server.terminate()
        server.wait(timeout=60)


def _settle(settings: Path) -> None:
    """Ask for no news, and keep every cell on the page, also those out of sight."""
    chosen = {
        "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
        "notebook-extension/tracker": {"windowingMode": "none"},
    }
    for name, values in chosen.items():
        path = settings / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))


def _await_start(server: subprocess.Popen[bytes], url: str, token: str, log: Path) -> None:
    deadline = time.monotonic() + WAIT_MS / 1000
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise RuntimeError(f"JupyterLab ended with {server.returncode}:\n{log.read_text()[-3000:]}")
        try:
            with urlopen(f"{url}/api/status?token={token}", timeout=5) as answer:
                json.load(answer)
                return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"JupyterLab did not answer:\n{log.read_text()[-3000:]}")
