"""JupyterLab, Notebook 7 and marimo of the test's own, and the requests of pages in headless Chromium."""

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

__all__ = ["HOUSES", "WAIT_MS", "Lab", "Requests", "chromium", "jupyterlab", "marimo"]

WAIT_MS = 180_000  # for anything that comes by itself: a busy machine is slow, and a condition is awaited each time
HOUSES = {"JupyterLab": "lab/workspaces/{place}/tree/{notebook}", "Notebook 7": "notebooks/{notebook}"}
"""Path of a notebook in each of the applications that one server has."""
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
    """A running server of JupyterLab and Notebook 7."""

    url: str
    token: str
    root: Path

    def open(self, notebook: str, house: str = "JupyterLab") -> str:
        """URL of a notebook under the root, in a workspace of its own: none brings back the tabs of another."""
        path = HOUSES[house].format(place=secrets.token_hex(4), notebook=notebook)
        return f"{self.url}/{path}?token={self.token}"


@contextmanager
def jupyterlab(root: Path, home: Path) -> Iterator[Lab]:
    """Serve ``root`` on loopback; settings, runtime files and home are in ``home``, never the user's."""
    port = _free_port()
    token = secrets.token_hex(16)
    folders = {name: str(home / name.lower()) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")}
    folders |= {name: str(home / name.lower()) for name in ("JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR")}
    environment = os.environ | folders | {"HOME": str(home), "IPYTHONDIR": str(home / "ipython"), "JUPYTER_NO_CONFIG": "1"}
    _settle(home / "jupyterlab_settings_dir" / "@jupyterlab")
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}",
        "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={root}",
        "--ServerApp.jpserver_extensions={'notebook': True}", "--JupyterNotebookApp.expose_app_in_browser=True",
        "--LabApp.expose_app_in_browser=True", "--LabApp.news_url=", "--LabApp.extension_manager=readonly",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    with _served(command, environment, root, home / "jupyterlab.log", f"{url}/api/status?token={token}"):
        yield Lab(url, token, root)


@contextmanager
def marimo(app: Path, home: Path) -> Iterator[str]:
    """Serve an app of marimo on loopback, with a home of its own, and yield its URL."""
    port = _free_port()
    folders = {
        name: str(home / name.lower()) for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME")
    }
    options = ["--headless", "--host", "127.0.0.1", "--port", str(port), "--no-token"]
    command = [sys.executable, "-m", "marimo", "--yes", "run", str(app), *options]
    url = f"http://127.0.0.1:{port}"
    with _served(command, os.environ | folders | {"HOME": str(home)}, home, home / "marimo.log", f"{url}/health"):
        yield url


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _served(command: list[str], environment: dict[str, str], folder: Path, log: Path, status: str) -> Iterator[None]:
    """Run a server while it is needed, from the moment on at which its ``status`` answers."""
    with log.open("w") as lines:
        server = subprocess.Popen(command, env=environment, cwd=folder, stdout=lines, stderr=subprocess.STDOUT)
    try:
        _await_start(server, status, log)
        yield
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


def _await_start(server: subprocess.Popen[bytes], status: str, log: Path) -> None:
    deadline = time.monotonic() + WAIT_MS / 1000
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise RuntimeError(f"the server ended with {server.returncode}:\n{log.read_text()[-3000:]}")
        try:
            with urlopen(status, timeout=5) as answer:
                json.load(answer)
                return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"the server did not answer:\n{log.read_text()[-3000:]}")
