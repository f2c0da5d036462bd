"""What the HTTP servers that stand in for providers share: a port on loopback, threads, and requests refused on plan."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import parse_qsl, urlsplit

import orjson

from clvlab.feeds.devfeeds.faults import FeedFault, PlannedFault

REFUSALS = (FeedFault.UNAUTHORIZED, FeedFault.TOO_MANY, FeedFault.BROKEN)


_STATUS = {FeedFault.UNAUTHORIZED: 401, FeedFault.TOO_MANY: 429, FeedFault.BROKEN: 500}


class HttpRequest:
    """A request that is being answered."""

    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        split = urlsplit(handler.path)
        self.path, self.query, self.headers = split.path, dict(parse_qsl(split.query)), handler.headers
        self._handler = handler

    def reply(self, status: int, body: bytes, **headers: str) -> None:
        """Answer it whole; names of headers are written with underscores."""
        own = self._handler
        own.send_response(status)
        for name, value in ({"Content_Type": "application/json"} | headers).items():
            own.send_header(name.replace("_", "-"), value)
        own.send_header("Content-Length", str(len(body)))
        own.end_headers()
        own.wfile.write(body)

    def begin_stream(self) -> None:
        """Answer it in parts, as events."""
        own = self._handler
        own.send_response(200)
        own.send_header("Content-Type", "text/event-stream")
        own.send_header("Transfer-Encoding", "chunked")
        own.end_headers()

    def send(self, part: bytes) -> None:
        """Send a part."""
        self._handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))

    def cut(self, part: bytes = b"") -> None:
        """End the connection in the middle of a part; without one, after the last."""
        if part:
            self._handler.wfile.write(b"%x\r\n%s" % (len(part), part[: len(part) // 2]))
        else:
            self._handler.wfile.write(b"0\r\n\r\n")
        self._handler.close_connection = True


class HttpServer:
    """A server on 127.0.0.1 while its context lasts; port 0 takes a free one."""

    def __init__(self, port: int = 0) -> None:
        own = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                request = HttpRequest(self)
                try:
                    if not own.refuses(request):
                        own.get(request)
                except OSError:  # the client has given up
                    self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Stay silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._refusals: list[PlannedFault] = []
        self._refused_until = 0.0
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        """Address to ask."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def get(self, request: HttpRequest) -> None:
        """Answer a GET."""
        raise NotImplementedError

    def refuse_next(self, planned: PlannedFault) -> None:
        """Refuse the next request, or all of the next seconds."""
        if planned.seconds:
            self._refused_until = time.monotonic() + planned.seconds
        self._refusals.append(planned)

    def refuses(self, request: HttpRequest) -> bool:
        """Refuse a request if one is to be refused."""
        if not self._refusals:
            return False
        planned, left = self._refusals[0], self._refused_until - time.monotonic()
        if left <= 0:
            self._refusals.pop(0)
            if planned.seconds:
                return self.refuses(request)
        after = {"Retry_After": str(max(1, round(left)))} if planned.fault is FeedFault.TOO_MANY and left > 0 else {}
        request.reply(_STATUS[planned.fault], orjson.dumps({"message": "refused on plan"}), **after)
        return True
