"""Planned faults of stand-ins for providers, and the HTTP server that some of them share."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Self
from urllib.parse import parse_qsl, urlsplit

import orjson

from clvlab.errors import FeedError

# Planned faults of a development feed, which test a recorder before a real provider does.


class FeedFault(StrEnum):
    CUT = "cut"
    """The connection ends in the middle of a message."""
    DUPLICATE = "duplicate"
    """A message is sent twice."""
    SWAP = "out-of-order"
    """A message is sent after the one that follows it."""
    STALL = "stall"
    """Heartbeats go on, messages do not, for so many seconds or until the client leaves; then they come late."""
    HOLE = "sequence-hole"
    """A message is left out."""
    OLD_SNAPSHOT = "old-snapshot"
    """After a cut the first snapshot is older than the last delta."""
    SKEW = "skew"
    """The provider's clock is so many seconds ahead from here on."""
    UNAUTHORIZED = "401"
    """The next request, or the connection, is refused as one without a valid key."""
    TOO_MANY = "429"
    """The next requests are refused for so many seconds, with Retry-After."""
    BROKEN = "500"
    """The next request fails at the server."""
    MALFORMED = "malformed"
    """A message is cut off within its JSON."""
    NO_QUOTA = "no-quota"
    """Nothing is left of what was paid for, from here on."""


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault at message number ``at``, counted from 0 over all connections."""

    at: int
    fault: FeedFault
    seconds: float = 0.0


@dataclass
class FaultPlan:
    """Faults of a server, each of which happens once; safe from several threads."""

    faults: Iterable[PlannedFault] = ()
    _left: list[PlannedFault] = field(init=False)
    _guard: Lock = field(default_factory=Lock, init=False)

    def __post_init__(self) -> None:
        self._left = sorted(self.faults, key=lambda planned: planned.at)

    def due(self, number: int, *kinds: FeedFault) -> PlannedFault | None:
        """Take the next fault, of some or all kinds, that is due at message ``number``."""
        with self._guard:
            for planned in self._left:
                if planned.at <= number and (not kinds or planned.fault in kinds):
                    self._left.remove(planned)
                    return planned
        return None


_PLANNED = re.compile(r"([a-z0-9-]+)@(\d+)(?::(\d+(?:\.\d+)?))?")


def read_plan(text: str) -> FaultPlan:
    """Read faults as written on a command line.

    Examples
    --------
    >>> read_plan("cut@100,stall@200:5").due(150)
    PlannedFault(at=100, fault=<FeedFault.CUT: 'cut'>, seconds=0.0)
    """
    planned = []
    for part in filter(None, text.split(",")):
        found = _PLANNED.fullmatch(part.strip())
        if found is None or found[1] not in list(FeedFault):
            raise FeedError(
                f"{part!r} is no fault: it is KIND@MESSAGE or KIND@MESSAGE:SECONDS, with a kind of {', '.join(FeedFault)}"
            )
        planned.append(PlannedFault(int(found[2]), FeedFault(found[1]), float(found[3] or 0)))
    return FaultPlan(planned)


REFUSALS = (FeedFault.UNAUTHORIZED, FeedFault.TOO_MANY, FeedFault.BROKEN)


_STATUS = {FeedFault.UNAUTHORIZED: 401, FeedFault.TOO_MANY: 429, FeedFault.BROKEN: 500}


class HttpRequest:
    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        split = urlsplit(handler.path)
        self.path, self.query, self.headers = split.path, dict(parse_qsl(split.query)), handler.headers
        self._handler = handler

    def reply(self, status: int, body: bytes, **headers: str) -> None:
        """Send a whole answer; names of headers are written with underscores."""
        own = self._handler
        own.send_response(status)
        for name, value in ({"Content_Type": "application/json"} | headers).items():
            own.send_header(name.replace("_", "-"), value)
        own.send_header("Content-Length", str(len(body)))
        own.end_headers()
        own.wfile.write(body)

    def begin_stream(self) -> None:
        own = self._handler
        own.send_response(200)
        own.send_header("Content-Type", "text/event-stream")
        own.send_header("Transfer-Encoding", "chunked")
        own.end_headers()

    def send(self, part: bytes) -> None:
        self._handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))

    def cut(self, part: bytes = b"") -> None:
        """End the connection in the middle of a part; without a part, end it after the last one."""
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
        raise NotImplementedError

    def refuse_next(self, planned: PlannedFault) -> None:
        """Refuse the next request, or all requests of the next seconds."""
        if planned.seconds:
            self._refused_until = time.monotonic() + planned.seconds
        self._refusals.append(planned)

    def refuses(self, request: HttpRequest) -> bool:
        """Refuse a request if one is due, and return whether it was."""
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
