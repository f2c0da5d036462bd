"""A witness as a small HTTP server: one address that logs post their checkpoints to.

References
----------
C2SP ``tlog-witness``.
"""

from __future__ import annotations

import logging
import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any

from clvlab.arena.log.witnesses import SIZE_TYPE
from clvlab.errors import LogError, LogForkError, WitnessRefusalError
from clvlab.log.note import Verifier, read_signer
from clvlab.log.witness import Witness

logger = logging.getLogger("clvlab.witness")
_MAX_BODY = 1 << 18
_TIMEOUT_S = 10.0
_CONNECTIONS = 64
_PLAIN = "text/plain; charset=utf-8"


class WitnessServer(ThreadingHTTPServer):
    """Server of a witness at an address; ``clock`` returns the seconds since 1970 that it signs."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], witness: Witness, clock: Callable[[], int]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, _Handler)
        self.witness, self.clock = witness, clock
        self._free = BoundedSemaphore(_CONNECTIONS)

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        return f"http://{f'[{host!s}]' if ':' in str(host) else host!s}:{port}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection on a thread of its own; more than the limit are closed at once."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()


class _Handler(BaseHTTPRequestHandler):
    server: WitnessServer
    protocol_version = "HTTP/1.1"
    timeout = _TIMEOUT_S

    def do_POST(self) -> None:
        stated = self.headers.get("Content-Length", "")
        if not stated.isascii() or not stated.isdigit() or len(stated) > 9 or int(stated) > _MAX_BODY:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE if stated.isdigit() else HTTPStatus.LENGTH_REQUIRED)
            return
        body = self.rfile.read(int(stated))
        if self.path != "/add-checkpoint":
            self._send(HTTPStatus.NOT_FOUND, _PLAIN, f"only /add-checkpoint is here, not {self.path[:80]!a}\n")
            return
        try:
            line = self.server.witness.cosign(body.decode(), self.server.clock())
        except LogForkError as error:
            logger.error("%s", error)
            self._send(error.status, _PLAIN, f"{error.reason}\n")
        except WitnessRefusalError as error:
            stale = error.size is not None
            self._send(error.status, SIZE_TYPE if stale else _PLAIN, f"{error.size if stale else error}\n")
        except UnicodeDecodeError as error:
            self._send(HTTPStatus.BAD_REQUEST, _PLAIN, f"the request is not text: {error.reason}\n")
        except (LogError, OSError) as error:  # of the witness's own files, whose names are nobody else's
            logger.error("no cosignature: %s", error)
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, _PLAIN, "the state of the witness can't be used\n")
        else:
            self._send(HTTPStatus.OK, _PLAIN, line)

    def _refuse(self, status: HTTPStatus) -> None:
        self.close_connection = True  # the body was not read
        self._send(status, _PLAIN, f"{status.phrase}: a request has at most {_MAX_BODY} bytes, and says how many\n")

    def _send(self, status: int, kind: str, text: str) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, form: str, *values: object) -> None:
        logger.info("%s: %s", self.address_string(), form % values)


@contextmanager
def serve_witness(place: str, key: Path, logs: Sequence[str], state: Path) -> Iterator[WitnessServer]:
    """Open the server of a witness at ``host:port``; ``LogError`` for another place, or one that can't be listened at."""
    host, _, port = place.rpartition(":")
    if not host or not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65_535:
        raise LogError(f"an address to serve at is host:port, not {place!r}")
    witness = Witness(read_signer(key), [Verifier.parse(log) for log in logs], state)
    try:
        server = WitnessServer((host.strip("[]"), int(port)), witness, lambda: int(time.time()))
    except OSError as error:
        raise LogError(f"nothing can be served at {place!r}: {error}") from error
    with server:
        yield server
