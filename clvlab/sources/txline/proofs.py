"""Prices proved by their provider: TxLINE's Merkle proofs of the messages behind scored entries and closes.

A leaf is the SHA-256 of a message in Borsh, a node that of its two children, both without a prefix; the path leads to the root
of the fixture's messages in a batch of five minutes. ``docs/reference/provider-proofs.md`` says what is known and assumed.
``clv_verify.py`` makes the same checks with separate code.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from clvlab.errors import EvidenceError, SourceError
from clvlab.packs.files import lines_of
from clvlab.packs.manifest import PROOFS_FILE
from clvlab.packs.reader import Pack
from clvlab.proof.verify import Verification
from clvlab.sources.capture.records import CaptureRecord, records_of
from clvlab.sources.txline.messages import BOOKMAKER, stable_price

HEADER = b'{"provider":"txline","schema":"clvlab-provider-proofs/1"}'
MAX_PROOFS_BYTES = 256 << 20
DAY_MS = 86_400_000
_MAX_PATH = 64
_WRONG = (KeyError, TypeError, ValueError, AttributeError, OverflowError, struct.error)

Tick = tuple[int, int]
"""A fixture, and the number of a message in it."""
Ask = Callable[[str, int], bytes | None]
"""Asks for the proof of a message by id and time; ``None`` before it is published."""


def leaf_hash(odds: Mapping[str, Any]) -> bytes:
    """Return the leaf of a message: the SHA-256 of its fields in Borsh; ``Pct`` is not one of them.

    Raises
    ------
    KeyError, TypeError, ValueError, AttributeError, struct.error
        A field is missing, or has another type or range.
    """
    names, prices = odds["PriceNames"], odds["Prices"]
    return sha256(
        struct.pack("<q", odds["FixtureId"]) + _text(odds["MessageId"]) + struct.pack("<q", odds["Ts"])
        + _text(odds["Bookmaker"]) + struct.pack("<i", odds["BookmakerId"]) + _text(odds["SuperOddsType"])
        + _optional(odds["GameState"]) + struct.pack("<?", odds["InRunning"]) + _optional(odds["MarketParameters"])
        + _optional(odds["MarketPeriod"]) + struct.pack("<I", len(names)) + b"".join(map(_text, names))
        + struct.pack(f"<I{len(prices)}i", len(prices), *prices)
    ).digest()  # fmt: skip


def _text(text: str) -> bytes:
    content = text.encode()
    return struct.pack("<I", len(content)) + content


def _optional(text: str | None) -> bytes:
    return b"\0" if text is None else b"\1" + _text(text)


def climbed(value: bytes, path: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the root that a path of siblings leads to from a leaf."""
    if len(path) > _MAX_PATH:
        raise ValueError(f"a path of {len(path)} siblings")
    for step in path:
        sibling = bytes(step["hash"])
        if len(sibling) != 32 or type(step["isRightSibling"]) is not bool:
            raise ValueError("a sibling is no hash with its side")
        value = sha256(value + sibling if step["isRightSibling"] else sibling + value).digest()
    return value


def summary_hash(summary: Mapping[str, Any]) -> bytes:
    """Return the leaf of a batch's summary, computed as its provider's types say, and unconfirmed."""
    stats = summary["updateStats"]
    times = struct.pack("<iqq", stats["updateCount"], stats["minTimestamp"], stats["maxTimestamp"])
    return sha256(struct.pack("<q", summary["fixtureId"]) + times + bytes(summary["oddsSubTreeRoot"])).digest()


def implied_bps(price: int) -> int:
    """Return the probability of a price in basis points: 100 / odds as ``Pct`` has it, to three places, then to two.

    Examples
    --------
    >>> [implied_bps(price) for price in (1048, 25_800, 140_000)]
    [9542, 388, 71]
    """
    return ((200_000_000 + price) // (2 * price) + 5) // 10


@dataclass(frozen=True, slots=True)
class PricedState:
    """The state of a scored entry or close: the message that gave it, and ``where`` in the evidence it stands."""

    market_key: str
    ts_ms: int
    prices: Mapping[str, int | None]
    probs: Mapping[str, int | None]
    where: str


@dataclass(frozen=True, slots=True)
class ProvedPrices:
    """What proofs show of a run.

    Attributes
    ----------
    states
        Number of messages of scored entries and closes, all proved.
    probabilities
        How many of them have the probabilities that follow from their prices.
    moved_ms
        Longest time from a message to the sealed time of its state.
    roots
        Roots of the fixtures' batches.
    batches
        By day since the epoch: roots of whole batches, unconfirmed.
    """

    states: int
    probabilities: int
    moved_ms: int
    roots: frozenset[bytes]
    batches: Mapping[int, frozenset[bytes]]

    @property
    def text(self) -> str:
        rest = self.states - self.probabilities
        open_ = f"; of {rest:,} the price is proved, the probability not" if rest else ""
        moved = f"; sealed times are up to {self.moved_ms:,} ms later than the provider's" if self.moved_ms else ""
        return (
            f"TxLINE's proofs of the {self.states:,} messages of scored entries and closes lead to {len(self.roots):,} roots "
            f"of its batches; of {self.probabilities:,} the probability follows from the price{open_}{moved}"
        )


def scored_states(verification: Verification, events: bytes) -> dict[Tick, PricedState]:
    """Return the states of a verified run's scored entries and their closes, by the message that gave them."""
    if verification.scores is None:
        raise EvidenceError("the evidence can't be read, so no price of it can be proved")
    rows = verification.scores.select("seq", "reason").iter_rows()
    scored = {seq for seq, reason in rows if reason == "scored"}
    found: dict[Tick, PricedState] = {}
    markets: set[tuple[int, str]] = set()
    for line in events.splitlines():
        event = orjson.loads(line)
        own = event["payload"]
        if event["kind"] == "DECISION" and event["seq"] in scored:
            market_key = own["action"]["market_key"]
            markets.add((own["fixture_id"], market_key))
            _add(found, own["fixture_id"], market_key, own["market_state"], f"the entry of seq {event['seq']}")
        elif event["kind"] == "MARKET_CLOSE" and (own["fixture_id"], own["market_key"]) in markets:
            _add(found, own["fixture_id"], own["market_key"], own["closing"], f"the close of {own['market_key']}")
    return found


def _add(found: dict[Tick, PricedState], fixture_id: int, market_key: str, state: Mapping[str, Any], where: str) -> None:
    prices, probs = ({side["side"]: side[name] for side in state["sides"]} for name in ("odds_milli", "prob_bps"))
    found.setdefault((fixture_id, state["tick_seq"]), PricedState(market_key, state["ts_ms"], prices, probs, where))


def check_proofs(states: Mapping[Tick, PricedState], lines: bytes, *, is_pre_match: bool) -> ProvedPrices:
    """Require a file of proofs to have one of each state, and each to lead from the state's prices to its batch.

    Raises
    ------
    EvidenceError
        A proof is missing, can't be read, is about another price, or does not lead to its root; the message names which.
    """
    head, *rest = lines.splitlines() or [b""]
    if head != HEADER:
        raise EvidenceError(f"no proofs of clvlab-provider-proofs/1: the first line is {head[:80]!r}")
    probabilities, moved_ms, roots, proved = 0, 0, set[bytes](), set[Tick]()
    batches: dict[int, set[bytes]] = {}
    for number, line in enumerate(rest, 2):
        try:
            own = orjson.loads(line)
            tick, proof = (own["fixture_id"], own["tick_seq"]), own["proof"]
            if tick not in states:
                continue
            state = states[tick]
            named = f"line {number}, {state.where} (fixture {tick[0]}, tick {tick[1]})"
            fault = _fault(state, tick[0], own["leaf"], proof, is_pre_match=is_pre_match)
            moved_ms = max(moved_ms, state.ts_ms - proof["odds"]["Ts"])
            batches.setdefault(proof["summary"]["updateStats"]["minTimestamp"] // DAY_MS, set()).add(
                climbed(summary_hash(proof["summary"]), proof["mainTreeProof"])
            )
        except _WRONG as error:
            raise EvidenceError(f"line {number} of the proofs can't be read: {type(error).__name__}: {error}") from error
        if fault is not None:
            raise EvidenceError(f"{named}: {fault}")
        roots.add(bytes(proof["summary"]["oddsSubTreeRoot"]))
        if tick not in proved:
            probabilities += all(state.probs[side] == implied_bps(price or 1) for side, price in state.prices.items())
        proved.add(tick)
    missing = [state.where for tick, state in states.items() if tick not in proved]
    if missing:
        raise EvidenceError(f"{len(missing):,} of {len(states):,} messages have no proof, first that of {missing[0]}")
    by_day = {day: frozenset(found) for day, found in sorted(batches.items())}
    return ProvedPrices(len(states), probabilities, moved_ms, frozenset(roots), by_day)


def _fault(state: PricedState, fixture_id: int, leaf: str, proof: Mapping[str, Any], *, is_pre_match: bool) -> str | None:
    """Return why a proof does not prove a state's prices; ``None`` if it does."""
    odds, summary, stats = proof["odds"], proof["summary"], proof["summary"]["updateStats"]
    value = leaf_hash(odds)
    if value.hex() != leaf:
        return f"the leaf is {leaf!r:.80}, its message has {value.hex()}"
    if climbed(value, proof["subTreeProof"]) != bytes(summary["oddsSubTreeRoot"]):
        return "the leaf and its siblings do not lead to oddsSubTreeRoot"
    market_key = "|".join([odds["SuperOddsType"], odds["MarketPeriod"] or "", odds["MarketParameters"] or ""])
    if odds["Bookmaker"] != BOOKMAKER or odds["FixtureId"] != fixture_id or market_key != state.market_key:
        return f"the proof is of {odds['Bookmaker']!r:.80}, fixture {odds['FixtureId']}, {market_key!r:.200}"
    proved = dict(zip(odds["PriceNames"], odds["Prices"], strict=True))
    if len(odds["PriceNames"]) != len(state.prices) or proved != state.prices:
        return f"the proved prices are {proved!r:.200}, the sealed ones {state.prices!r:.200}"
    if not stats["minTimestamp"] <= odds["Ts"] <= stats["maxTimestamp"] or summary["fixtureId"] != fixture_id:
        return f"the message of {odds['Ts']} lies outside its batch of fixture {summary['fixtureId']}"
    if odds["Ts"] > state.ts_ms or (is_pre_match and odds["InRunning"]):
        return f"the message of {odds['Ts']} is later than its sealed time {state.ts_ms}, or came in play"
    return None


# Proofs are asked of the provider, and kept: in a capture those of all messages, of a run those of its scored states.


def messages_of(pack: Pack) -> Iterator[bytes]:
    """Return the provider's messages in a pack, verbatim.

    Raises
    ------
    SourceError
        The pack keeps no messages of TxLINE.
    """
    if not (pack.manifest.normaliser or "").startswith("txline"):
        raise SourceError(f"pack {pack.pack_id!r} was not made of messages of TxLINE, which alone are proved")
    return texts_of(pack.folder / "raw" / raw.name for raw in pack.manifest.raw)


def texts_of(files: Iterable[Path]) -> Iterator[bytes]:
    """Return the messages in files of messages or segments of a capture, verbatim."""
    for path in files:
        _, first = next(lines_of(path), (1, b""))
        if b'"clvlab-capture/' not in first:
            yield from (line for _, line in lines_of(path))
        else:
            yield from (one.text for one in records_of(path) if isinstance(one, CaptureRecord) and one.text is not None)


def kept_proofs(pack: Pack) -> dict[str, bytes]:
    """Return the provider's proofs that a pack keeps, by message id."""
    digest = pack.manifest.proofs_sha256
    lines = b"" if digest is None else pack.files.content(PROOFS_FILE, digest, f"{PROOFS_FILE} of {pack.pack_id!r}")
    return {_id_of(line): line for line in lines.splitlines()}


def _id_of(line: bytes) -> str:
    try:
        return str(orjson.loads(line)["odds"]["MessageId"])
    except _WRONG as error:
        raise SourceError(f"a proof of {PROOFS_FILE} can't be read: {type(error).__name__}: {error}") from error


def keep_proofs(texts: Iterable[bytes], ask: Ask, path: Path) -> tuple[int, int]:
    """Append the proof of each priced message to a file, unless it is there; return how many it has, and how many lack."""
    known = {_id_of(line) for line in path.read_bytes().splitlines()} if path.exists() else set[str]()
    missing = 0
    with path.open("ab") as file:
        for message_id, ts_ms in _priced(texts):
            if message_id in known:
                continue
            answer = ask(message_id, ts_ms)
            missing += answer is None
            if answer is not None:
                known.add(_id_of(answer))
                file.write(answer + b"\n")
    return len(known), missing


def _priced(texts: Iterable[bytes]) -> Iterator[tuple[str, int]]:
    for text in texts:
        try:
            raw = orjson.loads(text)
            if None not in stable_price(raw).odds_milli:
                yield raw["MessageId"], raw["Ts"]
        except (ArithmeticError, *_WRONG):  # makes no tick, so no run can rest on it
            continue


def proofs_of(pack: Pack, states: Mapping[Tick, PricedState], ask: Ask) -> tuple[bytes, int]:
    """Return a file of the proofs of some states, from the pack or else by ``ask``, and how many are missing.

    A state's message is that of its market and prices with the last time up to its own.

    Raises
    ------
    SourceError
        The pack has no message that gives a state.
    """
    wanted: dict[tuple[int, str, frozenset[Any]], list[Tick]] = {}
    for tick, state in states.items():
        wanted.setdefault((tick[0], state.market_key, frozenset(state.prices.items())), []).append(tick)
    matched: dict[Tick, tuple[int, str]] = {}
    for text in messages_of(pack):
        try:
            raw = orjson.loads(text)
            own = stable_price(raw)
        except (ArithmeticError, *_WRONG):
            continue
        key = own.fixture_id, own.market_key, frozenset(zip(own.sides, own.odds_milli, strict=True))
        for tick in wanted.get(key, ()):
            if own.ts_ms <= states[tick].ts_ms and matched.get(tick, (-1, ""))[0] < own.ts_ms:
                matched[tick] = own.ts_ms, raw["MessageId"]
    lost = [state.where for tick, state in states.items() if tick not in matched]
    if lost:
        raise SourceError(f"pack {pack.pack_id!r} has no message that gives {lost[0]}: name the pack of the run")
    kept, lines, missing = kept_proofs(pack), [HEADER], 0
    for tick in sorted(states):
        ts_ms, message_id = matched[tick]
        answer = kept.get(message_id) or ask(message_id, ts_ms)
        if answer is None:
            missing += 1
            continue
        try:
            proof = orjson.loads(answer)
            leaf = leaf_hash(proof["odds"]).hex()
        except _WRONG as error:
            raise SourceError(f"the proof of message {message_id!r} can't be read: {type(error).__name__}: {error}") from error
        lines.append(orjson.dumps({"fixture_id": tick[0], "leaf": leaf, "proof": proof, "tick_seq": tick[1]}))
    return b"\n".join(lines) + b"\n", missing
