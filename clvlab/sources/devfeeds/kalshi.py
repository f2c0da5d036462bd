"""Kalshi on this machine: REST descriptions of matches, and signed WebSockets with made-up order books."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import orjson
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from websockets.http11 import Request

from clvlab.sources.capture.feed import now_ms
from clvlab.sources.devfeeds.faults import FaultPlan
from clvlab.sources.devfeeds.sockets import (
    CENT,
    LadderChange,
    Ladders,
    LadderScript,
    Peer,
    ScriptServer,
    iso_time,
    synthetic_script,
)
from clvlab.sources.kalshi.live import KEY, PATH, SIGNATURE, TIMESTAMP, is_signed

KEY_ID = "development"
_HOUR_MS, _DAY_MS = 3_600_000, 86_400_000
_API = "/trade-api/v2/"
_OUTCOMES = ("HOM", "TIE", "AWY")


class KalshiServer(ScriptServer):
    """Speaks ``/events/{event_ticker}``, ``/markets/{ticker}`` and the channel ``orderbook_delta``.

    The tickers of ``events`` are the script's shares; ``in_dollars`` writes prices as texts in dollars, not as numbers in
    cents. A handshake must be signed by ``key``, under the key id ``development``.
    """

    def __init__(
        self,
        events: Sequence[Mapping[str, Any]],
        script: LadderScript,
        plan: FaultPlan | None = None,
        *,
        in_dollars: bool = False,
        **how: Any,
    ) -> None:  # fmt: skip
        super().__init__(script, plan, **how)
        self.events = {event["event_ticker"]: event for event in events}
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._in_dollars = in_dollars

    @classmethod
    def synthetic(
        cls, *, matches: int = 2, messages: int = 1_000, seed: int = 0, start_ms: int | None = None, closes: bool = False,
        plan: FaultPlan | None = None, **how: Any,
    ) -> Self:  # fmt: skip
        """Make up matches of three outcomes each, from ``start_ms`` on, now if ``None``."""
        start = now_ms() if start_ms is None else start_ms
        events = [match_event(number, kickoff_ms=start + 2 * _HOUR_MS) for number in range(1, matches + 1)]
        tickers = [market["ticker"] for event in events for market in event["markets"]]
        script = synthetic_script(tickers, messages, seed=seed, start_ms=start, closes=closes)
        return cls(events, script, plan, **how)

    @property
    def api_url(self) -> str:
        return self.http_url + _API.rstrip("/")

    def write_key(self, path: Path) -> Path:
        """Write the private key, as a user has it."""
        path.write_bytes(self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return path

    def accepts(self, request: Request) -> bool:
        headers = [request.headers.get(name, "") for name in (KEY, SIGNATURE, TIMESTAMP)]
        return headers[0] == KEY_ID and is_signed(self.key.public_key(), headers[1], headers[2], "GET", PATH)

    def answer(self, path: str) -> bytes | None:
        kind, _, name = urlsplit(path).path.removeprefix(_API).partition("/")
        if kind == "events" and name in self.events:
            return orjson.dumps({"event": self.events[name]})
        markets = {market["ticker"]: market for event in self.events.values() for market in event["markets"]}
        return orjson.dumps({"market": markets[name]}) if kind == "markets" and name in markets else None

    def receive(self, peer: Peer, text: str) -> None:
        command = orjson.loads(text)
        if command["cmd"] == "unsubscribe":
            gone = {share for share, sid in peer.sids.items() if sid in command["params"]["sids"]}
            peer.shares -= gone
            for sid in command["params"]["sids"]:
                self.send(peer, orjson.dumps({"id": command["id"], "sid": sid, "type": "unsubscribed"}).decode())
            return
        tickers = set(command["params"]["market_tickers"])
        if not tickers <= self._shares:
            error = {"code": 16, "msg": "Market not found"}
            self.send(peer, orjson.dumps({"id": command["id"], "type": "error", "msg": error}).decode())
            return
        sid = len(peer.seqs) + 1
        peer.seqs[sid] = 0
        peer.sids |= dict.fromkeys(tickers, sid)
        subscription = {"channel": "orderbook_delta", "sid": sid}
        self.send(peer, orjson.dumps({"id": command["id"], "type": "subscribed", "msg": subscription}).decode())
        self.follow(peer, tickers)

    def text(self, peer: Peer, change: LadderChange, added: int) -> str:
        """Write an ``orderbook_delta``."""
        cents, side = (change.price, "yes") if change.is_bid else (100 * CENT - change.price, "no")
        price = {"price_dollars": _dollars(cents), "delta_fp": f"{added}.00"} if self._in_dollars else {"price": cents // CENT}
        delta = {"market_ticker": change.share, "delta": added, **price, "side": side, "ts_ms": self.time_ms(change.ts_ms)}
        return self._numbered_message(peer, "orderbook_delta", delta)

    def snapshot(self, peer: Peer, share: str, truth: Ladders) -> str:
        """Write an ``orderbook_snapshot``, which has no time."""
        no = {100 * CENT - price: size for price, size in truth.side(share, is_bid=False).items()}
        book: dict[str, object] = {"market_ticker": share}
        for side, bids in (("yes", truth.side(share, is_bid=True)), ("no", no)):
            if self._in_dollars:
                book[f"{side}_dollars"] = [[_dollars(price), size] for price, size in bids.items()]
            else:
                book[side] = [[price // CENT, size] for price, size in bids.items()]
        return self._numbered_message(peer, "orderbook_snapshot", book)

    def _numbered_message(self, peer: Peer, kind: str, body: Mapping[str, Any]) -> str:
        sid = peer.sids[body["market_ticker"]]
        peer.seqs[sid] += 1
        return orjson.dumps({"type": kind, "sid": sid, "seq": peer.seqs[sid], "msg": body}).decode()


def match_event(number: int, kickoff_ms: int = 1_782_417_600_000) -> Mapping[str, Any]:
    """Return the REST description of a match; the first one's tickers are ``MATCH-1-HOM``, ``-TIE`` and ``-AWY``.

    As at Kalshi, the markets close two weeks after the kickoff unless the match ends earlier.
    """
    ticker, names = f"MATCH-{number}", (f"Home {number}", "Tie", f"Away {number}")
    title = f"{names[0]} vs {names[2]} Winner?"
    about = {"event_ticker": ticker, "title": title}
    times = {
        "occurrence_datetime": iso_time(kickoff_ms),
        "close_time": iso_time(kickoff_ms + 14 * _DAY_MS),
        "can_close_early": True,
    }
    markets = [
        {**about, **times, "ticker": f"{ticker}-{outcome}", "yes_sub_title": name}
        for outcome, name in zip(_OUTCOMES, names, strict=True)
    ]
    return {**about, "mutually_exclusive": True, "markets": markets}


def _dollars(thousandths: int) -> str:
    return f"{thousandths / 1000:.4f}"
