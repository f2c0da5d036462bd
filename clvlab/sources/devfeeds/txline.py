"""TxLINE on this machine: the stream with its marks, the blocks of five minutes, and the proofs of their messages."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import orjson

from clvlab.law.markets import key_parts
from clvlab.law.message import Message
from clvlab.packs.manifest import Fixture
from clvlab.packs.reader import Pack
from clvlab.proof.canonical import JsonObject
from clvlab.sources.capture.replay import announced_fixtures, messages_of
from clvlab.sources.devfeeds.faults import REFUSALS, FaultPlan, FeedFault, HttpRequest, HttpServer
from clvlab.sources.txline.proofs import leaf_hash, summary_hash

# A server's script: its messages are published one after the other at their times, even without a listener.


@dataclass(frozen=True, slots=True)
class ScriptedMessage:
    """A message, and its time in seconds after the script began."""

    text: bytes
    at_s: float = 0.0


@dataclass
class Script:
    """Publishes messages in a thread, from the first request on.

    Attributes
    ----------
    messages
        Messages by time.
    plan
        Faults. The script itself sends a message twice, swaps it with the next, leaves it out or cuts it off, or sets the clock
        ahead.
    ahead
        Moves the provider's time in a message ahead by seconds.
    published
        Messages so far, sent or due to be sent; append-only.
    """

    messages: Iterable[ScriptedMessage]
    plan: FaultPlan = field(default_factory=FaultPlan)
    ahead: Callable[[bytes, float], bytes] = lambda text, _: text
    published: list[bytes] = field(default_factory=list, init=False)
    skew_s: float = field(default=0.0, init=False)
    ended: threading.Event = field(default_factory=threading.Event, init=False)
    _news: threading.Condition = field(default_factory=threading.Condition, init=False)
    _started: bool = field(default=False, init=False)

    def begin(self, closing: threading.Event) -> None:
        """Begin to publish, once."""
        with self._news:
            started, self._started = self._started, True
        if not started:
            threading.Thread(target=self._publish, args=(closing,), name="clvlab-script", daemon=True).start()

    def wait(self, number: int, seconds: float) -> bool:
        """Wait at most ``seconds`` until message ``number`` is published; return whether it is."""
        with self._news:
            return self._news.wait_for(lambda: len(self.published) > number, seconds)

    def _publish(self, closing: threading.Event) -> None:
        start = time.monotonic()
        for scripted in self.messages:
            if closing.wait(max(0.0, start + scripted.at_s - time.monotonic())):
                return
            with self._news:
                self.published += self._with_faults(scripted.text)
                self._news.notify_all()
        with self._news:
            self.published += self._held
        self.ended.set()

    _held: list[bytes] = field(default_factory=list, init=False)

    def _with_faults(self, text: bytes) -> Iterator[bytes]:
        planned = self.plan.due(
            len(self.published), FeedFault.DUPLICATE, FeedFault.SWAP, FeedFault.HOLE, FeedFault.SKEW, FeedFault.MALFORMED
        )
        kind = planned.fault if planned else None
        if planned and kind is FeedFault.SKEW:
            self.skew_s = planned.seconds
        text = self.ahead(text, self.skew_s) if self.skew_s else text
        if kind is FeedFault.SWAP:
            self._held.append(text)
        elif kind is not FeedFault.HOLE:
            yield text[: len(text) // 2] if kind is FeedFault.MALFORMED else text
            yield from [text] if kind is FeedFault.DUPLICATE else []
            yield from self._held
            self._held.clear()


TOKENS = ("dev-jwt", "dev-api-token")
_BLOCK_MS = 300_000


class TxLineServer(HttpServer):
    """Speaks TxLINE's protocol from messages by time; the script begins when a client first listens.

    A request for one fixture outside ``fixtures`` gets 403. The server can send ``holds`` messages again, and says ``reset``
    after a longer gap.
    """

    def __init__(
        self,
        messages: Iterable[ScriptedMessage],
        plan: FaultPlan | None = None,
        *,
        fixtures: Iterable[Fixture] = (),
        jwt: str = TOKENS[0],
        api_token: str = TOKENS[1],
        holds: int | None = None,
        heartbeat_s: float = 1.0,
        port: int = 0,
    ) -> None:
        super().__init__(port)
        self.script = Script(messages, plan or FaultPlan(), _ahead)
        self.jwt = jwt
        self._fixtures = {fixture.fixture_id: fixture for fixture in fixtures}
        self._api_token, self._holds, self._heartbeat_s = api_token, holds, heartbeat_s
        self._at = 0  # number of messages that some client was sent
        self._listeners = 0
        self._guard = threading.Lock()

    @property
    def is_done(self) -> bool:
        """Whether everything was published and sent to a client."""
        return self.script.ended.is_set() and self._at >= len(self.script.published)

    @property
    def published_count(self) -> int:
        return len(self.script.published)

    @property
    def variables(self) -> dict[str, str]:
        own = {"URL": self.url, "JWT": self.jwt, "API_TOKEN": self._api_token}
        return {"CLVLAB_FEED": "txline"} | {f"CLVLAB_TXLINE_{name}": value for name, value in own.items()}

    def get(self, request: HttpRequest) -> None:
        if request.headers.get("Authorization") != f"Bearer {self.jwt}":
            return request.reply(401, b'{"message": "the token has expired"}')
        wanted = request.query.get("fixtureId")
        if request.headers.get("X-Api-Token") != self._api_token:
            return request.reply(403, b'{"message": "Bundle access denied"}')
        if wanted is not None and self._fixtures and int(wanted) not in self._fixtures:
            return request.reply(403, b'{"message": "Bundle access denied"}')
        parts = request.path.strip("/").split("/")
        if parts == ["api", "odds", "stream"]:
            return self._stream(request, wanted)
        if parts == ["api", "fixtures", "snapshot"]:
            return request.reply(200, orjson.dumps([_fixture_message(fixture) for fixture in self._fixtures.values()]))
        if parts[:3] == ["api", "odds", "updates"] and len(parts) == 6 and all(part.isdecimal() for part in parts[3:]):
            return self._block(request, *map(int, parts[3:]))
        if parts == ["api", "odds", "validation"]:
            proof = self._proof(request.query.get("messageId"))
            return (
                request.reply(404, b'{"message": "no proof yet"}') if proof is None else request.reply(200, orjson.dumps(proof))
            )
        return request.reply(404, b'{"message": "no such path"}')

    def _proof(self, message_id: str | None) -> JsonObject | None:
        """Return the proof of a message once its batch is over: a later message was published, or none will be."""
        raws = [raw for text in list(self.script.published) if (raw := _raw(text)) is not None]
        own = next((raw for raw in raws if raw["MessageId"] == message_id), None)
        if own is None or not (self.script.ended.is_set() or raws[-1]["Ts"] // _BLOCK_MS > own["Ts"] // _BLOCK_MS):
            return None
        batch: dict[int, list[JsonObject]] = {}
        for raw in raws:
            if raw["Ts"] // _BLOCK_MS == own["Ts"] // _BLOCK_MS:
                batch.setdefault(raw["FixtureId"], []).append(raw)
        return proof_in(batch, own)

    def _block(self, request: HttpRequest, day: int, hour: int, block: int) -> None:
        """Answer with the messages of five minutes; a malformed one has no time and is in no block."""
        number = (day * 24 + hour) * 12 + block
        own = [text for text in self.script.published if (_number(text, "Ts") or -1) // _BLOCK_MS == number]
        request.reply(200, b"[" + b", ".join(own) + b"]")

    def _stream(self, request: HttpRequest, wanted: str | None) -> None:
        request.begin_stream()
        at = self._place(request)
        self.script.begin(self.closing)
        stalled, quiet = 0.0, time.monotonic()
        while not self.closing.is_set():
            if time.monotonic() < stalled or not self.script.wait(at, min(self._heartbeat_s, 0.2)):
                if time.monotonic() >= quiet + self._heartbeat_s:
                    quiet = time.monotonic()
                    request.send(b'event: heartbeat\ndata: {"Ts":%d}\n\n' % ((time.time() + self.script.skew_s) * 1000))
                if time.monotonic() < stalled:
                    self.closing.wait(min(self._heartbeat_s, 0.02))
                continue
            planned = self.script.plan.due(at, FeedFault.CUT, FeedFault.STALL, *REFUSALS)
            if planned is not None and planned.fault in REFUSALS:
                self.refuse_next(planned)
                return request.cut()
            if planned is not None and planned.fault is FeedFault.STALL:
                stalled = time.monotonic() + planned.seconds
                continue
            text = self.script.published[at]
            event = b"id: %d:%d\ndata: %s\n\n" % (_number(text, "Ts") or 0, at, text)
            if planned is not None:
                return request.cut(event)
            if wanted is None or _number(text, "FixtureId") in (None, int(wanted)):
                request.send(event)
            at += 1
            self._at = max(at, self._at)
        return request.cut()

    def _place(self, request: HttpRequest) -> int:
        """Return the number of the message to continue from, after ``reset`` if earlier ones are no longer held."""
        published, mark = len(self.script.published), request.headers.get("Last-Event-ID")
        if mark is None:
            return published
        at = int(mark.partition(":")[2]) + 1
        if self._holds is None or at >= published - self._holds:
            return at
        request.send(b"event: reset\ndata: {}\n\n")
        return published


def txline_message(message: Message, message_id: str) -> bytes:
    """Return a tape's message as TxLINE would send it; a message without prices of its own is suspended."""
    kind, period, parameters = key_parts(message.market_key)
    priced = None not in message.odds_milli
    percents = ["NA" if prob is None else f"{prob // 100}.{prob % 100:02}0" for prob in message.prob_bps]
    raw = {
        "FixtureId": message.fixture_id, "MessageId": message_id, "Ts": message.ts_ms,
        "Bookmaker": "TXLineStablePriceDemargined", "BookmakerId": 10021, "SuperOddsType": kind, "GameState": None,
        "InRunning": message.in_running, "MarketParameters": parameters or None, "MarketPeriod": period or None,
        "PriceNames": message.sides, "Prices": message.odds_milli if priced else [], "Pct": percents if priced else [],
    }  # fmt: skip
    return orjson.dumps(raw)


def _fixture_message(fixture: Fixture) -> dict[str, object]:
    home, away = fixture.names if len(fixture.names) == 2 else (None, None)
    return {
        "FixtureId": fixture.fixture_id, "StartTime": fixture.kickoff_ts_ms, "Participant1": home, "Participant2": away,
    }  # fmt: skip


def _number(text: bytes, key: str) -> int | None:
    try:
        return int(orjson.loads(text)[key])
    except (ValueError, KeyError, TypeError):  # the plan made it malformed
        return None


def _raw(text: bytes) -> JsonObject | None:
    try:
        raw: JsonObject = orjson.loads(text)
    except orjson.JSONDecodeError:  # the plan made it malformed
        return None
    return raw


def proof_in(batch: Mapping[int, Sequence[JsonObject]], own: JsonObject) -> JsonObject:
    """Return the proof of a message in a batch of messages by fixture, in the shape of TxLINE's."""
    summaries = [
        {
            "fixtureId": number,
            "updateStats": {
                "updateCount": len(raws),
                "minTimestamp": min(raw["Ts"] for raw in raws),
                "maxTimestamp": max(raw["Ts"] for raw in raws),
            },
            "oddsSubTreeRoot": list(_path([leaf_hash(raw) for raw in raws], 0)[0]),
        }
        for number, raws in sorted(batch.items())
    ]
    raws = batch[own["FixtureId"]]
    at = [summary["fixtureId"] for summary in summaries].index(own["FixtureId"])
    _, sub_path = _path([leaf_hash(raw) for raw in raws], [raw["MessageId"] for raw in raws].index(own["MessageId"]))
    _, main_path = _path([summary_hash(summary) for summary in summaries], at)
    odds = {key: value for key, value in own.items() if key != "Pct"}
    return {"odds": odds, "summary": summaries[at], "subTreeProof": sub_path, "mainTreeProof": main_path}


def _path(level: Sequence[bytes], at: int) -> tuple[bytes, list[JsonObject]]:
    """Return the root over leaves, and the path to it of the leaf ``at``; an odd node rises unchanged."""
    path = []
    while len(level) > 1:
        sibling = at ^ 1
        if sibling < len(level):
            path.append({"hash": list(level[sibling]), "isRightSibling": sibling > at})
        level = [
            sha256(b"".join(level[n : n + 2])).digest() if n + 1 < len(level) else level[n] for n in range(0, len(level), 2)
        ]
        at //= 2
    return level[0], path


def _ahead(text: bytes, seconds: float) -> bytes:
    raw = orjson.loads(text)
    return orjson.dumps(raw | {"Ts": raw["Ts"] + round(seconds * 1000)})


# Development feeds that send the ticks of a pack.


def txline_server(
    pack: Pack, fixture_ids: Sequence[int] = (), *, speed: float = 60.0, plan: FaultPlan | None = None, port: int = 0
) -> TxLineServer:
    """Return a server of some or all fixtures of a pack, with times moved so that the first message is now.

    Raises
    ------
    FeedError
        The pack does not have a fixture.
    """
    messages = messages_of(pack, fixture_ids)
    first_ms = messages[0].ts_ms if messages else 0
    shift_ms = int(time.time() * 1000) - first_ms
    chosen = set(fixture_ids) or set(pack.fixture_ids)
    return TxLineServer(
        [
            ScriptedMessage(
                txline_message(message._replace(ts_ms=message.ts_ms + shift_ms), f"dev:{number:08}"),
                (message.ts_ms - first_ms) / 1000 / speed,
            )
            for number, message in enumerate(messages)
        ],
        plan,
        fixtures=[
            fixture.model_copy(update={"kickoff_ts_ms": fixture.kickoff_ts_ms and fixture.kickoff_ts_ms + shift_ms})
            for fixture_id, fixture in announced_fixtures(pack).items()
            if fixture_id in chosen
        ],
        port=port,
    )
