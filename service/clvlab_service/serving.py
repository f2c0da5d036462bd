"""Running the service in this process, for ``clvlab serve``."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from pydantic import ValidationError

from clvlab.errors import SettingsError
from clvlab_service.app import create_app
from clvlab_service.dev import AUDIENCE, ISSUER, public_key_file
from clvlab_service.settings import LOOPBACK, Settings

_UNREAD_MS = 30_000


def serve(host: str, port: int, dev_folder: Path | None, say: Callable[[str], None]) -> None:
    """Serve until interrupted.

    Parameters
    ----------
    host, port
        Where to listen; port 0 is any free one.
    dev_folder
        Trust the key in this folder, on this machine only.
    say
        Called with each line for the terminal once the port is taken.

    Raises
    ------
    SettingsError
        Settings that can't be used.
    OSError
        The port is taken, or the host is not an address of this machine.
    SystemExit
        The start failed, which the log explains.
    """
    settings = _settings(host, dev_folder)
    config = uvicorn.Config(
        _created(settings),
        host=host,
        port=port,
        log_level="warning",
        access_log=False,  # the service has its own, with request ids
        ws_per_message_deflate=False,  # it would compress every message anew for each who watches
        proxy_headers=False,  # and its own setting of proxies
        timeout_graceful_shutdown=settings.shutdown_s,
    )
    sock = _listening(host, port)
    url = f"http://{f'[{host}]' if ':' in host else host}:{sock.getsockname()[1]}"
    say(f"clvlab serves {url}, with documentation at {url}/docs")
    if settings.database_url is None:
        say("The store is in memory: what is done now is gone when it stops. Set CLVLAB_DATABASE_URL to keep it.")
    say(_about_tokens(settings, dev_folder))
    server = uvicorn.Server(config)
    server.run(sockets=[sock])
    if not server.started:
        raise SystemExit(3)  # as uvicorn's own command does


def _listening(host: str, port: int) -> socket.socket:
    """Bind the port, so that its number is known before the start.

    The protocol is named because asyncio turns off Nagle's algorithm only where it stands; else each answer waits 40 ms.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)[0]
    sock = socket.socket(family, kind, protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if sys.platform == "linux":  # connections inherit it: a client that reads nothing any more keeps none of them open
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNREAD_MS)
    try:
        sock.bind(address)
    except OSError as error:
        sock.close()
        raise OSError(f"can't listen on {host} port {port}: {error.strerror}") from error
    return sock


def _settings(host: str, dev_folder: Path | None) -> Settings:
    given: dict[str, Any] = {}
    if dev_folder is not None:
        if host not in LOOPBACK:
            raise SettingsError(f"--dev trusts a key that lies on this disk, so it listens on {LOOPBACK} only, not {host!r}")
        given = {"jwt_public_key_file": public_key_file(dev_folder), "jwt_issuer": ISSUER, "jwt_audience": AUDIENCE}
    try:
        return Settings(**given)
    except ValidationError as error:
        raise SettingsError("; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())) from error


def _created(settings: Settings) -> Any:
    try:
        return create_app(settings)
    except ValueError as error:
        raise SettingsError(str(error)) from error


def _about_tokens(settings: Settings, dev_folder: Path | None) -> str:
    if dev_folder is not None:
        return f"For a token: clvlab dev-token --keys {dev_folder}"
    if settings.jwks_url or settings.jwt_public_key_file:
        return f"Tokens come from {settings.jwt_issuer}."
    return (
        "No keys are configured, so calls that need a token answer 401. "
        "To try them on this machine: clvlab serve --dev, and clvlab dev-token for a token."
    )
