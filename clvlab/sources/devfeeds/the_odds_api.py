"""The Odds API on this machine: each poll gets the next body of a script, and the last one repeats."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from threading import Lock

import orjson

from clvlab.sources.devfeeds.faults import REFUSALS, FaultPlan, FeedFault, HttpRequest, HttpServer

KEY = "dev-key"


class TheOddsApiServer(HttpServer):
    """A server of version 4 that answers with a list of bodies; a planned fault takes the place of the body with its number.

    ``polls`` counts polls answered with a body or as unchanged, and ``quota`` is the number of credits left.
    """

    def __init__(
        self,
        bodies: Sequence[bytes],
        plan: FaultPlan | None = None,
        *,
        sport: str = "soccer_epl",
        key: str = KEY,
        quota: int = 500,
        port: int = 0,
    ) -> None:
        super().__init__(port)
        self.polls, self.quota = 0, quota
        self._bodies, self._plan, self._sport, self._key = bodies, plan or FaultPlan(), sport, key
        self._guard = Lock()

    def get(self, request: HttpRequest) -> None:
        if request.query.get("apiKey") != self._key:
            return self._reply(request, 401, b'{"error_code": "INVALID_KEY"}')
        if request.path not in (f"/v4/sports/{self._sport}/events", f"/v4/sports/{self._sport}/odds"):
            return self._reply(request, 404, b'{"error_code": "UNKNOWN_SPORT"}')
        with self._guard:
            if request.path.endswith("/events"):
                fields = ("id", "sport_key", "commence_time", "home_team", "away_team")
                events = [{key: event[key] for key in fields} for event in orjson.loads(self._bodies[0])]
                return self._reply(request, 200, orjson.dumps(events))
            return self._odds(request)

    def _odds(self, request: HttpRequest) -> None:
        planned = self._plan.due(self.polls, *REFUSALS, FeedFault.CUT, FeedFault.MALFORMED, FeedFault.NO_QUOTA)
        fault = planned.fault if planned else None
        if planned and fault in REFUSALS:
            self.refuse_next(planned)
            self.refuses(request)
            return None
        if fault is FeedFault.NO_QUOTA:
            self.quota = 0
            return self._reply(request, 401, b'{"error_code": "OUT_OF_USAGE_CREDITS"}')
        body = self._bodies[min(self.polls, len(self._bodies) - 1)]
        if fault is FeedFault.CUT:
            request.begin_stream()
            return request.cut(body)
        self.polls += 1
        etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        if request.headers.get("If-None-Match") == etag:
            return self._reply(request, 304, b"", etag)
        self.quota -= len(request.query["regions"].split(",")) * len(request.query["markets"].split(","))
        return self._reply(request, 200, body[: len(body) // 2] if fault is FeedFault.MALFORMED else body, etag)

    def _reply(self, request: HttpRequest, status: int, body: bytes, etag: str = "") -> None:
        headers = {"x_requests_remaining": str(self.quota), "x_requests_used": "0"} | ({"ETag": etag} if etag else {})
        request.reply(status, body, **headers)
