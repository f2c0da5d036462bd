"""A WebSocket server on loopback that sends a script of made-up books, with planned faults."""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from types import TracebackType
from typing import Self

from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from clvlab.sources.devfeeds.faults import FaultPlan, FeedFault

# Made-up books of shares: their first state, and the change by each message. The same seed gives the same books.


CENT = 10
"""One cent in thousandths of a dollar, the unit of prices here."""
_DEPTH = 4
_WIDE = 8 * CENT  # new quotes narrow a spread above this


def iso_time(ts_ms: int) -> str:
    return datetime.fromtimestamp(ts_ms / 1000, UTC).isoformat()


@dataclass(frozen=True, slots=True)
class LadderChange:
    """The new size of a level of a share's book; 0 empties it."""

    share: str
    ts_ms: int
    is_bid: bool
    price: int
    size: int


@dataclass
class Ladders:
    """Books of shares: ``levels`` by share, as (is it a bid, price) -> size, and the last change's ``ts_ms`` by share."""

    levels: dict[str, dict[tuple[bool, int], int]] = field(default_factory=dict)
    ts_ms: dict[str, int] = field(default_factory=dict)

    def apply(self, change: LadderChange) -> int:
        """Apply a change; return by how much the level grew."""
        book = self.levels.setdefault(change.share, {})
        level = change.is_bid, change.price
        before = book.pop(level, 0)
        if change.size:
            book[level] = change.size
        self.ts_ms[change.share] = change.ts_ms
        return change.size - before

    def side(self, share: str, *, is_bid: bool) -> dict[int, int]:
        """Return the levels of one side by price."""
        return {price: size for (bid, price), size in sorted(self.levels.get(share, {}).items()) if bid is is_bid}

    def best(self, share: str) -> tuple[int, int]:
        """Return the best bid and ask; 0 and 1000 if missing."""
        return max(self.side(share, is_bid=True), default=0), min(self.side(share, is_bid=False), default=1000)


@dataclass(frozen=True, slots=True)
class LadderScript:
    """Content of a development server: the first books, then changes."""

    opening: Sequence[LadderChange]
    changes: Sequence[LadderChange]


def synthetic_script(
    shares: Iterable[str], messages: int, *, seed: int = 0, start_ms: int = 1_900_000_000_000, closes: bool = False
) -> LadderScript:
    """Make books that move by levels of a cent and are never crossed.

    The same seed gives the same script. ``start_ms`` is the first change's provider time; the others follow a tenth of a second
    apart. ``closes`` empties all levels at the end, as when a market is suspended over the close.
    """
    rng, names, ladders = random.Random(seed), list(shares), Ladders()  # noqa: S311  # a script, not a secret
    opening = []
    for share in names:
        middle = rng.randrange(20, 80) * CENT
        for step in range(1, _DEPTH + 1):
            for is_bid in (True, False):
                price = middle - step * CENT if is_bid else middle + step * CENT
                opening.append(LadderChange(share, start_ms, is_bid, price, rng.randrange(10, 500)))
    for change in opening:
        ladders.apply(change)
    changes: list[LadderChange] = []
    for number in range(messages):
        change = _step(rng, ladders, rng.choice(names), start_ms + 100 * (number + 1))
        ladders.apply(change)
        changes.append(change)
    if closes:
        left = [(share, *level) for share in names for level in ladders.levels[share]]
        end = start_ms + 100 * (messages + 1)
        changes += [LadderChange(share, end + n, is_bid, price, 0) for n, (share, is_bid, price) in enumerate(left)]
    return LadderScript(opening, changes)


def _step(rng: random.Random, ladders: Ladders, share: str, ts_ms: int) -> LadderChange:
    """Return a change that empties the best level now and then, or sets one near it; each side keeps its last level."""
    bid, ask = ladders.best(share)
    is_bid = rng.random() < 0.5
    best, inward = (bid, 1) if is_bid else (ask, -1)
    is_wide = ask - bid > _WIDE
    if rng.random() < (0.05 if is_wide else 0.3) and len(ladders.side(share, is_bid=is_bid)) > 1:
        return LadderChange(share, ts_ms, is_bid, best, 0)
    price = best + inward * CENT * rng.randrange(0 if is_wide else -_DEPTH, 3)
    if not (0 < price < ask if is_bid else bid < price < 100 * CENT):
        price = best
    return LadderChange(share, ts_ms, is_bid, price, rng.randrange(10, 500))


_REFUSALS = {
    FeedFault.UNAUTHORIZED: HTTPStatus.UNAUTHORIZED,
    FeedFault.TOO_MANY: HTTPStatus.TOO_MANY_REQUESTS,
    FeedFault.BROKEN: HTTPStatus.INTERNAL_SERVER_ERROR,
}
_SENDING = (
    FeedFault.CUT,
    FeedFault.DUPLICATE,
    FeedFault.SWAP,
    FeedFault.STALL,
    FeedFault.HOLE,
    FeedFault.OLD_SNAPSHOT,
    FeedFault.SKEW,
    FeedFault.MALFORMED,
)
_WAIT_S = 0.02


@dataclass(eq=False)
class Peer:
    """A connection, its shares, and the messages sent to it whole.

    ``sids`` and ``seqs`` are for a provider that numbers its messages: subscription by share, and last number by subscription.
    """

    socket: ServerConnection
    shares: set[str] = field(default_factory=set)
    sids: dict[str, int] = field(default_factory=dict)
    seqs: dict[int, int] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)
    is_cut: bool = False


class ScriptServer(ABC):
    """Sends a script's changes, ``pace_s`` apart, to all followers of the share, once every share is followed.

    After a cut ``missed`` changes are skipped; then the server waits until every share is followed again. ``number`` is
    the number of the next change, and ``is_done`` is set once the whole script was sent.
    """

    def __init__(
        self,
        script: LadderScript,
        plan: FaultPlan | None = None,
        *,
        pace_s: float = 0.0,
        missed: int = 3,
        ping_s: float | None = None,
    ) -> None:
        self._script, self._plan, self._pace_s, self._missed = script, plan or FaultPlan(), pace_s, missed
        self._truth, self._guard = Ladders(), threading.RLock()
        for change in script.opening:
            self._truth.apply(change)
        self._shares = set(self._truth.levels)
        self._old: list[LadderChange] = []
        self._to_skip = self._skew_ms = 0
        self._closed = threading.Event()
        self._refusal: tuple[HTTPStatus, float] | None = None
        self.peers: list[Peer] = []
        self.number = 0
        self.is_done = threading.Event()
        self._server = serve(
            self._serve, "127.0.0.1", 0, process_request=self._request, compression=None,
            ping_interval=ping_s, ping_timeout=None, close_timeout=0.5,
        )  # fmt: skip
        self.port: int = self._server.socket.getsockname()[1]
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._server.serve_forever, self._send_all)]

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    @property
    def http_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        self._closed.set()
        self._server.shutdown()
        for thread in self._threads:
            thread.join()

    @abstractmethod
    def answer(self, path: str) -> bytes | None:
        """Return the answer to a request; ``None`` if the path is unknown."""

    @abstractmethod
    def accepts(self, request: Request) -> bool:
        """Return whether a handshake has valid credentials."""

    @abstractmethod
    def receive(self, peer: Peer, text: str) -> None:
        """Handle a client's message; called under the lock."""

    @abstractmethod
    def text(self, peer: Peer, change: LadderChange, added: int) -> str:
        """Write a change whose level grew by ``added``."""

    @abstractmethod
    def snapshot(self, peer: Peer, share: str, truth: Ladders) -> str:
        """Write the whole book of a share."""

    def send(self, peer: Peer, text: str) -> None:
        try:
            peer.socket.send(text)
            peer.sent.append(text)
        except ConnectionClosed:
            peer.is_cut = True

    def follow(self, peer: Peer, shares: set[str]) -> None:
        """Send the books of these shares and their later changes; old books first, if there are any."""
        for change in [change for change in self._old if change.share in shares]:
            self._old.remove(change)
            self.send(peer, self.snapshot(peer, change.share, _before(self._truth, change)))
        for share in sorted(shares):
            self.send(peer, self.snapshot(peer, share, self._truth))
        peer.shares |= shares

    def time_ms(self, ts_ms: int) -> int:
        return ts_ms + self._skew_ms

    def _request(self, socket: ServerConnection, request: Request) -> Response | None:
        fault = self._plan.due(self.number, *_REFUSALS)
        if fault is not None:
            self._refusal = _REFUSALS[fault.fault], time.monotonic() + fault.seconds
        if self._refusal is not None:
            status, until = self._refusal
            if fault is None and time.monotonic() >= until:
                self._refusal = None
            else:
                response = socket.respond(status, "refused\n")
                response.headers["Retry-After"] = "0"
                return response
        if request.headers.get("Upgrade", "").lower() == "websocket":
            return None if self.accepts(request) else socket.respond(HTTPStatus.UNAUTHORIZED, "no valid key\n")
        found = self.answer(request.path)
        if found is None:
            return socket.respond(HTTPStatus.NOT_FOUND, "there is nothing\n")
        headers = Headers({"Content-Type": "application/json", "Content-Length": str(len(found)), "Connection": "close"})
        return Response(HTTPStatus.OK, "OK", headers, found)

    def _serve(self, socket: ServerConnection) -> None:
        peer = Peer(socket)
        with self._guard:
            self.peers.append(peer)
        try:
            for text in socket:
                with self._guard:
                    self.receive(peer, text if isinstance(text, str) else text.decode())
        except ConnectionClosed:
            pass  # the client went away, or was cut off
        finally:
            peer.is_cut = True

    def _send_all(self) -> None:
        held: list[Callable[[], None]] = []  # messages that are sent after the next one
        for number, change in enumerate(self._script.changes):
            self.number = number
            fault = self._plan.due(number, *_SENDING)
            if fault is not None and fault.fault is FeedFault.STALL:
                self._stall(fault.seconds)
            while self._to_skip == 0 and not self._is_followed() and not self._closed.is_set():
                self._closed.wait(_WAIT_S)
            if self._closed.wait(self._pace_s) or self._closed.is_set():
                return
            with self._guard:
                if fault is not None and fault.fault is FeedFault.SKEW:
                    self._skew_ms += round(fault.seconds * 1000)
                later = self._send_one(change, None if fault is None else fault.fault)
                for send in held:
                    send()
                held = later
        for send in held:
            send()
        self.is_done.set()

    def _stall(self, seconds: float) -> None:
        """Send nothing for ``seconds``, or until the followers have left."""
        end_s = time.monotonic() + seconds
        while self._is_followed() and time.monotonic() < end_s and not self._closed.is_set():
            self._closed.wait(_WAIT_S)

    def _is_followed(self) -> bool:
        with self._guard:
            return self._shares <= {share for peer in self.peers if not peer.is_cut for share in peer.shares}

    def _send_one(self, change: LadderChange, fault: FeedFault | None) -> list[Callable[[], None]]:
        later: list[Callable[[], None]] = []
        added = self._truth.apply(change)
        self._to_skip = max(0, self._to_skip - 1)
        for peer in [peer for peer in self.peers if not peer.is_cut and change.share in peer.shares]:
            text = self.text(peer, change, added)
            if fault is FeedFault.CUT:
                self._cut(peer, text)
            elif fault is FeedFault.SWAP:
                later.append(lambda peer=peer, text=text: self.send(peer, text))  # type: ignore[misc]
            elif fault is FeedFault.MALFORMED:
                self.send(peer, text[: len(text) // 2])
            elif fault is not FeedFault.HOLE:
                self.send(peer, text)
            if fault is FeedFault.DUPLICATE:
                self.send(peer, text)
            if fault is FeedFault.OLD_SNAPSHOT:
                self._old.append(change)
                self._cut(peer, text)
        return later

    def _cut(self, peer: Peer, text: str) -> None:
        """End a connection in the middle of a message."""
        peer.is_cut = True
        self._to_skip = self._missed
        whole = Frame(Opcode.TEXT, text.encode()).serialize(mask=False)
        try:
            peer.socket.socket.sendall(whole[: len(whole) // 2])
            peer.socket.socket.shutdown(2)
        except OSError:
            pass  # it went away by itself


def _before(truth: Ladders, change: LadderChange) -> Ladders:
    """Return a share's book as of just before a change."""
    old = Ladders({change.share: dict(truth.levels[change.share])}, {change.share: change.ts_ms - 1})
    old.apply(LadderChange(change.share, change.ts_ms - 1, change.is_bid, change.price, change.size + 1))
    return old
