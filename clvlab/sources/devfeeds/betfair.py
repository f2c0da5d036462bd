"""A server on this machine that speaks Betfair's stream protocol, from a script of market change messages.

Each fault of a plan happens at the message of its number. ``cut``, ``duplicate``, ``stall``, ``skew`` and ``malformed`` have
their usual effect. ``401`` refuses the session and ``500`` says UNEXPECTED_ERROR; both close the connection. ``429`` closes it
and refuses connections with TOO_MANY_REQUESTS. ``old-snapshot`` treats the clock of the next resumption as too old and answers
with an image. Other faults have no counterpart in this protocol, and do nothing.
"""

from __future__ import annotations

import ipaddress
import random
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Unpack

import orjson

from clvlab.errors import MissingExtraError
from clvlab.sources.betfair.messages import MarketChange, MarketDefinition, StreamMessage
from clvlab.sources.devfeeds.faults import FaultPlan, FeedFault

# Markets for a stand-in of Betfair's stream: their whole state, and a script of made-up ones.


_START_MS = 1_780_000_000_000
STEP_MS = 1500
"""From one message to the next, on average."""
_KINDS = (("MATCH_ODDS", 3), ("OVER_UNDER_25", 2))


@dataclass
class Images:
    _definitions: dict[str, MarketDefinition] = field(default_factory=dict)
    _runners: dict[str, dict[tuple[Any, Any], dict[str, Any]]] = field(default_factory=dict)

    def take(self, changes: Iterable[MarketChange]) -> None:
        for change in changes:
            runners = self._runners.setdefault(change["id"], {})
            if change.get("img"):
                runners.clear()
            if "marketDefinition" in change:
                self._definitions[change["id"]] = change["marketDefinition"]
            for delta in change.get("rc", ()):
                runner = runners.setdefault((delta["id"], delta.get("hc")), {})
                for name, value in delta.items():
                    if not isinstance(value, list):
                        runner[name] = value
                        continue
                    entries = runner.setdefault(name, {})
                    entries.update({entry[0]: entry for entry in value})
                    runner[name] = {first: entry for first, entry in entries.items() if entry[-1]}

    def changes(self) -> list[MarketChange]:
        """Return a change with the whole state of each market."""
        return [
            {
                "id": market_id,
                "img": True,
                "marketDefinition": definition,
                "rc": [
                    {name: list(value.values()) if isinstance(value, dict) else value for name, value in runner.items()}
                    for runner in self._runners[market_id].values()
                ],
            }
            for market_id, definition in self._definitions.items()
        ]

    def event_of(self, market_id: str) -> str:
        """Return a market's event; empty if unknown."""
        return str(self._definitions.get(market_id, {}).get("eventId", ""))


@dataclass
class _MadeMarket:
    market_id: str
    definition: MarketDefinition
    prob: list[float]
    offers: dict[int, tuple[float, float]] = field(default_factory=dict)

    def quote(self, runner: int) -> Mapping[str, object]:
        """Return the offers for a runner's probability as a change."""
        odds = min(max(1 / (self.prob[runner] / sum(self.prob)), 1.05), 500.0)
        back, lay = round(odds * 0.99, 2), round(odds * 1.01 + 0.01, 2)
        old, self.offers[runner] = self.offers.get(runner), (back, lay)
        gone = ([], []) if old is None or old == (back, lay) else ([[old[0], 0]], [[old[1], 0]])
        return {"id": runner + 1, "atb": [*gone[0], [back, 20.0]], "atl": [*gone[1], [lay, 20.0]]}

    def define(self, **changes: Unpack[MarketDefinition]) -> MarketChange:
        self.definition = self.definition | changes
        return {"id": self.market_id, "marketDefinition": self.definition}

    def settle(self, winner: int) -> MarketChange:
        runners = [
            runner | {"status": "WINNER" if n == winner else "LOSER"} for n, runner in enumerate(self.definition["runners"])
        ]
        return self.define(status="CLOSED", runners=runners)


def made_up_markets(seed: int, *, events: int = 2, messages: int = 2000, start_ms: int = _START_MS) -> list[StreamMessage]:
    """Return a script of at least ``messages`` messages: two markets per event, from their first offers to their results.

    The first message of each market is its image, and every message has its own time. Markets are suspended now and then, and
    the second one of every event is suspended over the close.
    """
    chance = random.Random(seed)  # noqa: S311 - no secret
    markets = [_market(event, n, chance, start_ms) for event in range(1, events + 1) for n in range(len(_KINDS))]
    closing = markets[::2]
    changes = [market.define() | {"img": True, "rc": [market.quote(n) for n in range(len(market.prob))]} for market in markets]
    while len(changes) < messages * 9 // 10:
        changes += _move(chance.choice(markets), chance)
    changes += [market.define(status="SUSPENDED") for market in markets if market not in closing]
    while len(changes) < messages - 2 * len(markets):
        changes += _move(chance.choice(closing), chance)
    changes += [market.define(status="OPEN", inPlay=True) for market in markets]
    changes += [market.settle(chance.randrange(len(market.prob))) for market in markets]
    return [
        {"op": "mcm", "pt": start_ms + STEP_MS * n + chance.randrange(1000), "clk": None, "mc": [change]}
        for n, change in enumerate(changes)
    ]


def _move(market: _MadeMarket, chance: random.Random) -> list[MarketChange]:
    """Return a change of one runner's offers, or now and then a suspension and its end."""
    if chance.random() < 0.01:
        return [market.define(status="SUSPENDED"), market.define(status="OPEN")]
    runner = chance.randrange(len(market.prob))
    market.prob[runner] *= chance.uniform(0.93, 1.07)
    return [{"id": market.market_id, "rc": [market.quote(runner)]}]


def _market(event: int, number: int, chance: random.Random, start_ms: int) -> _MadeMarket:
    kind, runners = _KINDS[number]
    start = datetime.fromtimestamp(start_ms / 1000 + 7200, UTC)
    definition: MarketDefinition = {
        "eventId": str(9000 + event), "eventTypeId": "1", "eventName": f"Home {event} v Away {event}", "marketType": kind,
        "bettingType": "ODDS", "numberOfWinners": 1, "marketTime": start.strftime("%Y-%m-%dT%H:%M:%S.000Z"), "status": "OPEN",
        "inPlay": False, "runners": [{"id": n + 1, "status": "ACTIVE", "sortPriority": n + 1} for n in range(runners)],
    }  # fmt: skip
    return _MadeMarket(f"1.{100 * event + number}", definition, [chance.uniform(0.2, 1.0) for _ in range(runners)])


# One connection to a stand-in of Betfair's stream: its login, its subscription, and the sent messages with faults.


# The state that all connections to a stand-in of Betfair's stream share: the script, its position, and refusals.


@dataclass
class Exchange:
    """A script of ``mcm`` messages in progress, with the arguments of ``BetfairServer``; safe from several threads."""

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
        self._refusing = code, time.monotonic() + seconds

    @property
    def refusal(self) -> str:
        """Reason to refuse a connection now; empty without one."""
        code, until = self._refusing
        return code if time.monotonic() < until else ""

    def publish(self, upto: int) -> None:
        with self._guard:
            self.published = min(max(self.published, upto), len(self.script))

    def skew(self, number: int, seconds: float) -> None:
        self._skews.append((number, round(seconds * 1000)))

    def time_ms(self, number: int) -> int:
        """Return the time of a message; of the first one for ``None``."""
        ahead_ms = sum(ms for since, ms in self._skews if since <= number)
        return (int(self.script[max(number, 0)]["pt"]) if self.script else 0) + ahead_ms

    def image(self) -> tuple[int, list[MarketChange]]:
        """Return the number of published messages, and a change with the whole state of every market."""
        with self._guard:
            for message in self.script[self._imaged : self.published]:
                self._images.take(message.get("mc") or ())
            self._imaged = self.published
            return self.published, self._images.changes()

    def message(self, number: int, market_filter: Mapping[str, Any]) -> StreamMessage:
        """Return a message of the script, with the changes that a filter matches."""
        changes = self.matches(self.script[number].get("mc") or (), market_filter)
        return {"op": "mcm", "pt": self.time_ms(number), "mc": changes}

    def matches(self, changes: Sequence[MarketChange], market_filter: Mapping[str, Any]) -> list[MarketChange]:
        """Return the changes whose market or event a filter matches."""
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
    def __init__(self, exchange: Exchange, peer: ssl.SSLSocket) -> None:
        self._exchange, self._peer, self._rest = exchange, peer, b""
        self._id = self._at = 0
        self._heartbeat_s = 5.0
        self._filter: Mapping[str, Any] = {}
        self._spoke_s = time.monotonic()

    def converse(self) -> None:
        self._say({"op": "connection", "connectionId": f"devfeed-{id(self)}"})
        self._authenticate(self._request())
        wants = self._request()
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

    def _authenticate(self, request: Mapping[str, Any]) -> None:
        exchange = self._exchange
        planned = exchange.plan.due(exchange.published, *_REFUSALS)
        if planned is not None:
            exchange.refuse(_REFUSALS[planned.fault], planned.seconds)
            self._refuse(_REFUSALS[planned.fault])
        if exchange.refusal:
            self._refuse(exchange.refusal)
        if request.get("appKey") != exchange.app_key:
            self._refuse("INVALID_APP_KEY" if request.get("appKey") else "NO_APP_KEY")
        if request.get("session") != exchange.session:
            self._refuse("INVALID_SESSION_INFORMATION")
        self._say({"op": "status", "id": request.get("id"), "statusCode": "SUCCESS", "connectionClosed": False})

    def _refuse(self, code: str) -> None:
        self._say({
            "op": "status", "statusCode": "FAILURE", "errorCode": code, "errorMessage": code.lower(), "connectionClosed": True,
        })  # fmt: skip
        raise LeftError

    def _subscribe(self, clk: int | None) -> int:
        """Send missed messages or an image; return the number of the next message."""
        exchange = self._exchange
        published, changes = exchange.image()
        known = clk is not None and published - exchange.kept <= clk <= published
        if clk is not None and known and exchange.plan.due(published, FeedFault.OLD_SNAPSHOT) is None:
            missed = (exchange.message(number, self._filter) for number in range(clk, published))
            self._send_parts("RESUB_DELTA", [message for message in missed if message["mc"]], published)
            return published
        wanted, size = exchange.matches(changes, self._filter), exchange.segment
        pt = exchange.time_ms(published - 1)
        parts: list[StreamMessage] = [{"op": "mcm", "pt": pt, "mc": wanted[n : n + size]} for n in range(0, len(wanted), size)]
        self._send_parts("SUB_IMAGE", parts, published)
        return published

    def _send_parts(self, kind: str, parts: Sequence[StreamMessage], clk: int) -> None:
        """Send messages as segments of one message; the last segment has the clocks."""
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

    def _request(self) -> Mapping[str, Any]:
        while _CRLF not in self._rest:
            part = self._peer.recv(1 << 16)
            if not part:
                raise LeftError
            self._rest += part
        line, _, self._rest = self._rest.partition(_CRLF)
        request = orjson.loads(line)
        return request if isinstance(request, dict) else {}

    def _rest_for(self, seconds: float) -> None:
        """Send only heartbeats for ``seconds``, and leave when the client does."""
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


# A certificate for a server on this machine. The server makes it at its start, and only clients set to trust it do.


def write_certificate(folder: Path, name: str = "localhost", address: str = "127.0.0.1") -> tuple[Path, Path]:
    """Write a new self-signed certificate and its key; return both files."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ModuleNotFoundError as error:
        raise MissingExtraError("anchor", error.name) from error
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"clvlab devfeed {name}")])
    now = datetime.now(UTC)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, crl_sign=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    names = x509.SubjectAlternativeName([x509.DNSName(name), x509.IPAddress(ipaddress.ip_address(address))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(identifier, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / "certificate.pem", folder / "key.pem"
    public.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private.touch(mode=0o600)
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return public, private


class BetfairServer:
    """A stand-in for Betfair's stream, as a context.

    Parameters
    ----------
    script
        ``mcm`` messages with ``pt`` and ``mc``; the server adds clocks.
    published
        Messages published before the first connection: they are in the first image.
    missed
        Further messages published while a client is away after a fault.
    kept
        Messages that can be sent again; an earlier clock is too old.
    segment
        Markets in one segment of an image.
    pace_s
        Time between messages.

    Attributes
    ----------
    sent
        Every completely sent line with market changes.
    finished
        Set once a client has been sent the end of the script.
    """

    host = "127.0.0.1"

    def __init__(
        self,
        script: Sequence[StreamMessage],
        plan: FaultPlan | None = None,
        *,
        app_key: str = "key",
        session: str = "session",
        published: int = 0,
        missed: int = 3,
        kept: int = 1000,
        segment: int = 50,
        pace_s: float = 0.0,
        port: int = 0,
    ) -> None:
        self.exchange = Exchange(script, plan or FaultPlan(), app_key, session, published, missed, kept, segment, pace_s)
        self.port = port
        self._threads: list[threading.Thread] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def sent(self) -> list[bytes]:
        return self.exchange.sent

    @property
    def finished(self) -> threading.Event:
        return self.exchange.finished

    @property
    def is_done(self) -> bool:
        """Whether a client has been sent the end of the script."""
        return self.finished.is_set()

    @property
    def published_count(self) -> int:
        return self.exchange.published

    @property
    def variables(self) -> dict[str, str]:
        """Settings to listen with, once the context was entered."""
        own = {"HOST": self.host, "PORT": str(self.port), "CAFILE": self.cafile}
        keys = {"APP_KEY": self.exchange.app_key, "SESSION_TOKEN": self.exchange.session}
        return {"CLVLAB_FEED": "betfair"} | {f"CLVLAB_BETFAIR_{name}": value for name, value in (own | keys).items()}

    def __enter__(self) -> BetfairServer:
        self._listener = socket.create_server((self.host, self.port))
        self._folder = tempfile.TemporaryDirectory(prefix="clvlab-devfeed-")
        certificate, key = write_certificate(Path(self._folder.name))
        self.cafile = str(certificate)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._listener.settimeout(0.2)
        self.port = self._listener.getsockname()[1]
        self._begin(self._accept)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.exchange.closing.set()
        for thread in self._threads:
            thread.join(5)
        self._listener.close()
        if self._folder is not None:
            self._folder.cleanup()

    def _begin(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, name="devfeed-betfair", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self.exchange.closing.is_set():
            try:
                peer, _ = self._listener.accept()
            except TimeoutError:
                continue
            self._begin(self._serve, peer)

    def _serve(self, peer: socket.socket) -> None:
        peer.settimeout(PATIENCE_S)
        with peer:
            try:
                with self._context.wrap_socket(peer, server_side=True) as secure:
                    Conversation(self.exchange, secure).converse()
            except (OSError, ValueError, LeftError):  # the client left, was cut off, or sent an unreadable request
                return


def betfair_server(*, speed: float = 60.0, plan: FaultPlan | None = None, port: int = 0) -> BetfairServer:
    """Return a server of two made-up matches, from now until their results, at ``speed`` times their pace."""
    script = made_up_markets(0, start_ms=int(time.time() * 1000))
    first = sum("img" in change for message in script for change in message["mc"])  # a client can then find these markets
    return BetfairServer(script, plan, published=first, pace_s=STEP_MS / 1000 / speed, port=port)
