"""A loopback server of a ``DevChain``: JSON-RPC over HTTP, as Solana nodes speak it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from clvlab.anchor.devchain import DevChain, NodeError

_MAX_REQUEST = 1 << 20


def server(chain: DevChain, port: int = 0) -> ThreadingHTTPServer:
    """Bind a server on loopback; port 0 takes a free one."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one packet an answer
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", "0"))
            if length > _MAX_REQUEST:
                self._reply(413, {"error": "request too large"})
                self.close_connection = True
                return
            try:
                status, body = _answered(chain, json.loads(self.rfile.read(length)))
            except (ValueError, AttributeError) as error:
                status, body = 400, {"error": f"no JSON-RPC request: {error}"}
            self._reply(status, body)

        def _reply(self, status: int, body: Any) -> None:
            content = json.dumps(body).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
                self.wfile.flush()
            except (BrokenPipeError, ConnectionResetError):  # the client has given up
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Stay silent."""

    made = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    made.daemon_threads = True
    return made


def _answered(chain: DevChain, request: dict[str, Any]) -> tuple[int, Any]:
    method, number = request.get("method", ""), request.get("id")
    if fault := chain.fault("hang", method):
        time.sleep(fault.seconds)
    if fault := chain.fault("http", method):
        return fault.status, {"error": "injected"}
    try:
        answer: dict[str, Any] = {"result": chain.answer(method, request.get("params") or [])}
    except NodeError as error:
        data = {} if error.data is None else {"data": error.data}
        answer = {"error": {"code": error.code, "message": error.message, **data}}
    if chain.fault("lost_reply", method):
        return 504, {"error": "injected"}
    return 200, {"jsonrpc": "2.0", "id": number, **answer}


@contextmanager
def serving(chain: DevChain, port: int = 0) -> Iterator[str]:
    """Serve a chain while the context lasts; returns its address."""
    with server(chain, port) as made:
        thread = Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{made.server_port}"
        finally:
            made.shutdown()
            thread.join()
