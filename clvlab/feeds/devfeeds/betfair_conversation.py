"""One connection to a stand-in of Betfair's stream: who asks, for what, and what is sent, faults among it."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from clvlab.feeds.devfeeds.betfair_markets import Images
from clvlab.feeds.devfeeds.faults import FaultPlan, FeedFault
from clvlab.packs.importers.betfair_book import MarketChange, StreamMessage

# What lies behind every connection to a stand-in of Betfair's stream: the script, how far it is, and whom it refuses.


@dataclass
class Exchange:
    """A script of ``mcm`` messages that goes by; several threads may ask.

    Attributes
    ----------
    script, plan, app_key, session, published, missed, kept, segment, pace_s
        As of ``BetfairServer``; ``published`` goes on.
    sent
        Every line with market changes that was sent whole.
    finished
        Set once some client has been sent the end of the script.
    closing
        Set when the server ends.
    """

    script: Sequence[StreamMessage]
    plan: FaultPlan
    app_key: str
    session: str
    published: int
    missed: int
    kept: int
    segment: int
    pace_s: float
    sent: list[bytes] = field(default_factory=list)
    finished: threading.Event = field(default_factory=threading.Event)
    closing: threading.Event = field(default_factory=threading.Event)
    _images: Images = field(default_factory=Images)
    _imaged: int = 0
    _skews: list[tuple[int, int]] = field(default_factory=list)
    _refusing: tuple[str, float] = ("", 0.0)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        changes = (change for message in self.script for change in message.get("mc") or ())
        self._events = {
            change["id"]: str(change["marketDefinition"].get("eventId")) for change in changes if "marketDefinition" in change
        }

    def refuse(self, code: str, seconds: float) -> None:
        """Have connections refused for so long."""
        self._refusing = code, time.monotonic() + seconds

    @property
    def refusal(self) -> str:
        """Why a connection is refused now; empty if it is not."""
        code, until = self._refusing
        return code if time.monotonic() < until else ""

    def publish(self, upto: int) -> None:
        """Let messages lie behind, up to that number."""
        with self._guard:
            self.published = min(max(self.published, upto), len(self.script))

    def skew(self, number: int, seconds: float) -> None:
        """Have the clock be so far ahead from a message on."""
        self._skews.append((number, round(seconds * 1000)))

    def time_ms(self, number: int) -> int:
        """Return the time of a message; of the first one, for none."""
        ahead_ms = sum(ms for since, ms in self._skews if since <= number)
        return (int(self.script[max(number, 0)]["pt"]) if self.script else 0) + ahead_ms

    def image(self) -> tuple[int, list[MarketChange]]:
        """Return how many messages lie behind, and a change for every market that says all of it."""
        with self._guard:
            for message in self.script[self._imaged : self.published]:
                self._images.take(message.get("mc") or ())
            self._imaged = self.published
            return self.published, self._images.changes()

    def message(self, number: int, market_filter: Mapping[str, Any]) -> StreamMessage:
        """Return a message of the script, with the changes that a filter takes in."""
        changes = self.wanted(self.script[number].get("mc") or (), market_filter)
        return {"op": "mcm", "pt": self.time_ms(number), "mc": changes}

    def wanted(self, changes: Sequence[MarketChange], market_filter: Mapping[str, Any]) -> list[MarketChange]:
        """Return the changes of the markets that a filter takes in, by their ids and those of their events."""
        market_ids, event_ids = market_filter.get("marketIds"), market_filter.get("eventIds")
        return [
            change
            for change in changes
            if (not market_ids or change["id"] in market_ids) and (not event_ids or self._events.get(change["id"]) in event_ids)
        ]


PATIENCE_S = 15.0
_CRLF = b"\r\n"
_REFUSALS = {
    FeedFault.UNAUTHORIZED: "INVALID_SESSION_INFORMATION",
    FeedFault.TOO_MANY: "TOO_MANY_REQUESTS",
    FeedFault.BROKEN: "UNEXPECTED_ERROR",
}


class LeftError(Exception):
    """The connection is over."""


class Conversation:
    """One connection: who it is, what it wants, and how far it is."""

    def __init__(self, exchange: Exchange, peer: ssl.SSLSocket) -> None:
        self._exchange, self._peer, self._rest = exchange, peer, b""
        self._id = self._at = 0
        self._heartbeat_s = 5.0
        self._filter: Mapping[str, Any] = {}
        self._spoke_s = time.monotonic()

    def converse(self) -> None:
        self._say({"op": "connection", "connectionId": f"devfeed-{id(self)}"})
        self._authenticate(self._asked())
        wants = self._asked()
        self._id, self._filter = wants.get("id", 0), wants.get("marketFilter") or {}
        self._heartbeat_s = (wants.get("heartbeatMs") or 5000) / 1000
        if wants.get("op") != "marketSubscription":
            self._refuse("INVALID_REQUEST")
        clk = wants.get("clk")
        if clk is not None and not str(clk).isdecimal():
            self._refuse("INVALID_CLOCK")
        self._say({"op": "status", "id": self._id, "statusCode": "SUCCESS", "connectionClosed": False})
        self._at = self._subscribe(None if clk is None or wants.get("initialClk") is None else int(clk))
        if "EX_ALL_OFFERS" not in (wants.get("marketDataFilter") or {}).get("fields", ["EX_ALL_OFFERS"]):
            self._rest_for(float("inf"))
        for number in range(self._at, len(self._exchange.script)):
            self._publish(number)
            self._at = number + 1
        self._exchange.finished.set()
        self._rest_for(float("inf"))

    def _authenticate(self, asked: Mapping[str, Any]) -> None:
        exchange = self._exchange
        planned = exchange.plan.due(exchange.published, *_REFUSALS)
        if planned is not None:
            exchange.refuse(_REFUSALS[planned.fault], planned.seconds)
            self._refuse(_REFUSALS[planned.fault])
        if exchange.refusal:
            self._refuse(exchange.refusal)
        if asked.get("appKey") != exchange.app_key:
            self._refuse("INVALID_APP_KEY" if asked.get("appKey") else "NO_APP_KEY")
        if asked.get("session") != exchange.session:
            self._refuse("INVALID_SESSION_INFORMATION")
        self._say({"op": "status", "id": asked.get("id"), "statusCode": "SUCCESS", "connectionClosed": False})

    def _refuse(self, code: str) -> None:
        self._say({
            "op": "status", "statusCode": "FAILURE", "errorCode": code, "errorMessage": code.lower(), "connectionClosed": True,
        })  # fmt: skip
        raise LeftError

    def _subscribe(self, clk: int | None) -> int:
        """Send what was missed, or an image; return the number of the message that comes next."""
        exchange = self._exchange
        published, changes = exchange.image()
        known = clk is not None and published - exchange.kept <= clk <= published
        if clk is not None and known and exchange.plan.due(published, FeedFault.OLD_SNAPSHOT) is None:
            missed = (exchange.message(number, self._filter) for number in range(clk, published))
            self._send_parts("RESUB_DELTA", [message for message in missed if message["mc"]], published)
            return published
        wanted, size = exchange.wanted(changes, self._filter), exchange.segment
        pt = exchange.time_ms(published - 1)
        parts: list[StreamMessage] = [{"op": "mcm", "pt": pt, "mc": wanted[n : n + size]} for n in range(0, len(wanted), size)]
        self._send_parts("SUB_IMAGE", parts, published)
        return published

    def _send_parts(self, kind: str, parts: Sequence[StreamMessage], clk: int) -> None:
        """Send messages as the segments of one; the clocks come with the last."""
        clocks = {"initialClk": f"begin-{kind.lower()}", "clk": str(clk)}
        if not parts:
            self._say({"op": "mcm", "id": self._id, "ct": kind, "pt": self._exchange.time_ms(clk - 1)} | clocks)
        for n, part in enumerate(parts):
            last = n == len(parts) - 1
            segment = {} if len(parts) == 1 else {"segmentType": "SEG_END" if last else "SEG" if n else "SEG_START"}
            self._send_line({**part, "id": self._id, "ct": kind, **segment, **(clocks if last else {})})

    def _publish(self, number: int) -> None:
        exchange, plan = self._exchange, self._exchange.plan
        if exchange.pace_s:
            self._rest_for(exchange.pace_s)
        while planned := plan.due(number, FeedFault.STALL, FeedFault.SKEW):
            if planned.fault is FeedFault.STALL:
                self._rest_for(planned.seconds)
            else:
                exchange.skew(number, planned.seconds)
        if exchange.closing.is_set():
            raise LeftError
        self._beat()
        message = exchange.message(number, self._filter) | {"id": self._id, "clk": str(number + 1)}
        planned = plan.due(number, FeedFault.CUT, FeedFault.DUPLICATE, FeedFault.MALFORMED, *_REFUSALS)
        if planned is not None and planned.fault in (FeedFault.CUT, *_REFUSALS):
            exchange.publish(number + 1 + exchange.missed)
            if planned.fault is FeedFault.CUT:
                line = orjson.dumps(message) + _CRLF
                self._peer.sendall(line[: len(line) // 2])
                raise LeftError
            exchange.refuse(_REFUSALS[planned.fault], planned.seconds)
            self._refuse(_REFUSALS[planned.fault])
        exchange.publish(number + 1)
        if not message["mc"]:
            return
        if planned is not None and planned.fault is FeedFault.MALFORMED:
            line = orjson.dumps(message)
            self._peer.sendall(line[: len(line) // 2] + _CRLF)
            return
        for _ in range(1 if planned is None else 2):
            self._send_line(message)

    def _send_line(self, message: Mapping[str, object]) -> None:
        text = orjson.dumps(message)
        self._peer.sendall(text + _CRLF)
        self._spoke_s = time.monotonic()
        self._exchange.sent.append(text)

    def _say(self, message: Mapping[str, object]) -> None:
        self._peer.sendall(orjson.dumps(message) + _CRLF)
        self._spoke_s = time.monotonic()

    def _beat(self) -> None:
        if time.monotonic() - self._spoke_s >= self._heartbeat_s:
            pt = self._exchange.time_ms(self._at - 1)
            self._say({"op": "mcm", "id": self._id, "ct": "HEARTBEAT", "clk": str(self._at), "pt": pt})

    def _asked(self) -> Mapping[str, Any]:
        """Return the client's next message."""
        while _CRLF not in self._rest:
            part = self._peer.recv(1 << 16)
            if not part:
                raise LeftError
            self._rest += part
        line, _, self._rest = self._rest.partition(_CRLF)
        asked = orjson.loads(line)
        return asked if isinstance(asked, dict) else {}

    def _rest_for(self, seconds: float) -> None:
        """Send heartbeats alone for so long, and leave when the client does."""
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0:
            if self._exchange.closing.is_set():
                raise LeftError
            self._beat()
            self._peer.settimeout(max(min(left_s, 0.1), 0.001))
            try:
                if not self._peer.recv(1 << 16):
                    raise LeftError
            except TimeoutError:
                continue
            finally:
                self._peer.settimeout(PATIENCE_S)
