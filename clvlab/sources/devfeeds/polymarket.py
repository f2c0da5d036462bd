"""Polymarket on this machine: gamma's descriptions of matches, and the market channel with made-up books."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import orjson
from websockets.http11 import Request

from clvlab.sources.capture.feed import now_ms
from clvlab.sources.devfeeds.faults import FaultPlan
from clvlab.sources.devfeeds.sockets import LadderChange, Ladders, LadderScript, Peer, ScriptServer, iso_time, synthetic_script
from clvlab.sources.polymarket.live import PATH

_HOUR_MS = 3_600_000


class PolymarketServer(ScriptServer):
    """Speaks gamma's ``/events`` and the market channel; the assets of ``events`` are the script's shares."""

    def __init__(
        self, events: Sequence[Mapping[str, Any]], script: LadderScript, plan: FaultPlan | None = None, **how: Any
    ) -> None:
        super().__init__(script, plan, **how)
        self.events = list(events)

    @classmethod
    def synthetic(
        cls, *, matches: int = 2, messages: int = 1_000, seed: int = 0, start_ms: int | None = None, closes: bool = False,
        plan: FaultPlan | None = None, **how: Any,
    ) -> Self:  # fmt: skip
        """Make up matches of three outcomes each, from ``start_ms`` on, now if ``None``."""
        start = now_ms() if start_ms is None else start_ms
        events = [match_event(number, kickoff=iso_time(start + _HOUR_MS)) for number in range(1, matches + 1)]
        assets = [f"{number}{outcome}" for number in range(1, matches + 1) for outcome in "123"]
        script = synthetic_script(assets, messages, seed=seed, start_ms=start, closes=closes)
        return cls(events, script, plan, **how)

    def accepts(self, request: Request) -> bool:
        """Return true: no key is needed."""
        return request.path == PATH

    def answer(self, path: str) -> bytes | None:
        parts = urlsplit(path)
        if parts.path != "/events":
            return None
        wanted = {values[0] for values in parse_qs(parts.query).values()}
        return orjson.dumps([event for event in self.events if {event["slug"], event["id"]} & wanted])

    def receive(self, peer: Peer, text: str) -> None:
        if text == "PING":
            peer.socket.send("PONG")
            return
        self.follow(peer, set(orjson.loads(text)["assets_ids"]) & self._shares)

    def text(self, _peer: Peer, change: LadderChange, _added: int) -> str:
        """Write a ``price_change``."""
        bid, ask = self._truth.best(change.share)
        entry = {
            "asset_id": change.share, "price": _dollars(change.price), "size": str(change.size),
            "side": "BUY" if change.is_bid else "SELL", "hash": f"{self.number:x}",
            "best_bid": _dollars(bid), "best_ask": _dollars(ask),
        }  # fmt: skip
        head = {"market": "0x0", "timestamp": str(self.time_ms(change.ts_ms)), "event_type": "price_change"}
        return orjson.dumps({**head, "price_changes": [entry]}).decode()

    def snapshot(self, _peer: Peer, share: str, truth: Ladders) -> str:
        """Write a ``book``."""
        sides = {
            name: [{"price": _dollars(price), "size": str(size)} for price, size in truth.side(share, is_bid=is_bid).items()]
            for name, is_bid in (("bids", True), ("asks", False))
        }
        head = {"event_type": "book", "asset_id": share, "market": "0x0", "hash": f"{self.number:x}"}
        return orjson.dumps({**head, "timestamp": str(self.time_ms(truth.ts_ms[share])), **sides}).decode()


def match_event(number: int, kickoff: str = "2026-06-25T20:00:00Z", assets: Sequence[str] = ()) -> Mapping[str, object]:
    """Return gamma's description of a match; assets ``11``, ``12`` and ``13`` of the first one are home, draw and away."""
    home, away = f"Home {number}", f"Away {number}"
    own = assets or [f"{number}{outcome}" for outcome in "123"]
    titles = (home, f"Draw ({home} vs. {away})", away)
    markets = [
        {
            "id": asset, "slug": f"match-{number}-{place}", "question": f"Will {title} win?", "groupItemTitle": title,
            "outcomes": '["Yes", "No"]', "clobTokenIds": orjson.dumps([asset, f"{asset}0"]).decode(),
            "sportsMarketType": "moneyline", "closed": False,
        }
        for place, (title, asset) in enumerate(zip(titles, own, strict=True))
    ]  # fmt: skip
    about = {"id": str(1000 + number), "slug": f"match-{number}", "title": f"{home} vs. {away}", "startTime": kickoff}
    return {**about, "negRisk": True, "live": False, "markets": markets}


def _dollars(thousandths: int) -> str:
    return f"{thousandths / 1000:.3f}"
