"""The chain of a seat: an agent elsewhere answers a past tape tick by tick, and no tick leaves before the answer to the last.

Entry n of the chain hashes entry n-1, tick n with a salt, and decision n. The heads stand in the run log, and the whole chain
in the bundle of the run, where this module judges it. ``docs/reference/bundle-format.md`` describes both.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256 as digest_of
from itertools import groupby
from math import floor
from typing import Any

from clvlab.errors import BundleError, EvidenceError
from clvlab.law.schema import Causality
from clvlab.log.entries import HeldEntry, ReleasedEntry, SeatEntry, read_entry
from clvlab.log.note import Signer, write_note
from clvlab.proof.bundle import run_of
from clvlab.proof.canonical import HASH, JsonObject, canonical, parsed, sha256
from clvlab.proof.verify import Verification

SEAT_SCHEMA, CHAIN_SCHEMA = "clvlab-seat/1", "clvlab-seat-chain/1"
STRATEGY, STRATEGY_VERSION, KIND = "seat", "1", "seat"
SEAT_PART = "seat.json"
SECRET_BYTES = 32
DEFAULT_STAKE = 100
_ALIAS_DIGITS = 16
_ALIASES = 16_384
_HEX = re.compile(f"[0-9a-f]{{{2 * SECRET_BYTES}}}")


class Blind(StrEnum):
    """What a seat hides: nothing, or names, ids, dates and the order of sides, also over a pack that is held back.

    ``live`` hides nothing, as nobody knows the prices of a match that is still to be played.
    """

    OPEN = "open"
    ALIASED = "aliased"
    HELD_BACK = "held-back"
    LIVE = "live"

    @property
    def hides(self) -> bool:
        """Whether names are aliases."""
        return self in (Blind.ALIASED, Blind.HELD_BACK)


# Everything that a seat hides follows from its secret, which the log commits to before the first tick and a bundle opens.


def blind_commitment(secret: bytes) -> str:
    return sha256(b"clvlab-seat-blind/1\0" + secret)


def _derived(secret: bytes, message: bytes) -> bytes:
    return hmac.digest(secret, message, digest_of)


def run_salt(secret: bytes) -> str:
    """Return the salt of the sealed configuration. Without it, run id and commitment would name the fixture to who guesses."""
    return _derived(secret, b"run").hex()


def tick_salt(secret: bytes, tick: int) -> str:
    return _derived(secret, f"tick{tick}".encode()).hex()


def drawn(secret: bytes, count: int) -> int:
    """Return the index that a secret draws among ``count``."""
    return int.from_bytes(_derived(secret, b"draw")) % count


@lru_cache(maxsize=_ALIASES)  # a tick mostly repeats names of earlier ticks
def alias(secret: bytes, kind: str, *names: str | int) -> str:
    """Return the alias of a ``fixture`` (its id), a ``market`` (fixture and key) or a ``side`` (fixture, key and side)."""
    return f"{kind[0]}-{_derived(secret, canonical([kind, *names])).hex()[:_ALIAS_DIGITS]}"


def sealed_config(seat_id: str, blind: Blind, secret: bytes, competition_id: str | None = None) -> JsonObject:
    """Return the configuration that is sealed of the agent in a seat; only a seat in a competition names one."""
    own = {"blind_commitment": blind_commitment(secret), "run_salt": run_salt(secret)}
    named = {} if competition_id is None else {"competition": competition_id}
    return {"seat": seat_id, "blind": blind.value, **own, **named}


# The chain.


def header(seat_id: str, agent_id: str, run_id: str, secret: bytes) -> JsonObject:
    commitment = blind_commitment(secret)
    return {"schema": SEAT_SCHEMA, "seat": seat_id, "agent_id": agent_id, "run_id": run_id, "blind_commitment": commitment}


def first_head(of: JsonObject) -> str:
    """Return the head before the first decision, from the header."""
    return sha256(canonical(of))


def tick_digest(salt: str, view: Mapping[str, Any]) -> str:
    return sha256(canonical({"salt": salt, "view": view}))


def next_head(before: str, tick: str, decisions: Sequence[JsonObject], *, missed: bool) -> str:
    """Return the head after a decision; ``tick`` is the digest of the tick, ``decisions`` are as recorded."""
    return sha256(canonical({"before": before, "tick": tick, "decisions": decisions, "missed": missed}))


def receipt(signer: Signer, seat_id: str, tick: int, head: str) -> str:
    """Return a signed note that the chain of a seat had this head after a tick."""
    text = f"{SEAT_SCHEMA}\n{seat_id}\n{tick}\n{head}\n"
    return write_note(text, signer.line(text))


# Judgement of the part ``seat.json`` of a bundle.

_FILE = {"blind": str, "entries": list, "header": dict, "schema": str, "secret": str, "ticks": list}
_TICK = {"decisions": list, "head": str, "missed": bool, "tick": str}
_CLAIMED = {"reason": str, "confidence": str, "claimed_edge_bps": int}
_KEYS = {"WAIT": _CLAIMED, "BACK": _CLAIMED | {"market": str, "side": str, "stake": int, "limit_odds_milli": int}}
_NEEDED = {"WAIT": {"action"}, "BACK": {"action", "market", "side", "stake"}}

TickViews = Callable[[Blind, bytes], Iterable[tuple[tuple[int, int], JsonObject]]]
"""Fixture and tick number on the tape, and the view, of each tick of a seat, made from a pack at hand."""


@dataclass(frozen=True, slots=True)
class DecisionChain:
    """A seat's chain that was recomputed. ``entries`` are the proved entries of the log, as in the part.

    ``held`` has those about its pack, if that was held back: the one that holds it back, and the one that opens its list.
    """

    header: JsonObject
    blind: Blind
    secret: bytes
    ticks: Sequence[JsonObject]
    entries: Sequence[JsonObject]
    held: Sequence[JsonObject] = ()

    @property
    def head(self) -> str:
        return str(self.ticks[-1]["head"]) if self.ticks else first_head(self.header)


def read_chain(data: bytes) -> DecisionChain:
    """Read a seat's chain and recompute its heads; ``BundleError`` for another form, secret or head."""
    file = _read(data)
    is_held = isinstance(file, dict) and file.get("blind") == Blind.HELD_BACK
    file = _exactly(file, _FILE | ({"held": list} if is_held else {}), "seat.json")
    head, secret = first_head(file["header"]), file["secret"]
    if file["schema"] != CHAIN_SCHEMA or file["blind"] not in list(Blind) or not _HEX.fullmatch(secret):
        raise BundleError(f"seat.json is no {CHAIN_SCHEMA}: {file['schema']!r:.40}, {file['blind']!r:.40}, {secret!r:.80}")
    entries, held = (list(map(_proved, file.get(name, ()))) for name in ("entries", "held"))
    for number, tick in enumerate(file["ticks"], 1):
        _exactly(tick, _TICK, f"tick {number} of the seat")
        for decision in tick["decisions"]:
            _check_decision(decision, number)
        if tick["missed"] and tick["decisions"]:
            raise BundleError(f"tick {number} of the seat was missed, and has decisions")
        head = next_head(head, tick["tick"], tick["decisions"], missed=tick["missed"])
        if head != tick["head"]:
            raise BundleError(f"the chain of the seat has the head {tick['head']!r:.80} after tick {number}, it gives {head}")
    return DecisionChain(file["header"], Blind(file["blind"]), bytes.fromhex(secret), file["ticks"], entries, held)


def _read(data: bytes) -> Any:
    try:
        return parsed(data)
    except EvidenceError as error:
        raise BundleError(f"seat.json can't be read: {error}") from error


def _exactly(value: Any, types: Mapping[str, type], what: str) -> JsonObject:
    if not isinstance(value, dict) or value.keys() != types.keys():
        raise BundleError(f"{what} does not have the keys {', '.join(sorted(types))}")
    wrong = next((name for name, kind in types.items() if type(value[name]) is not kind), None)
    if wrong is not None:
        raise BundleError(f"{wrong} of {what} is {value[wrong]!r:.80}")
    return value


def _check_decision(decision: Any, number: int) -> None:
    action = decision.get("action") if isinstance(decision, dict) else None
    keys = _KEYS.get(str(action))
    known = keys is not None and decision.keys() <= keys.keys() | {"action"} and decision.keys() >= _NEEDED[str(action)]
    if not known or keys is None or any(type(decision[name]) is not keys[name] for name in decision.keys() - {"action"}):
        raise BundleError(f"a decision at tick {number} of the seat is not well formed: {decision!r:.120}")


def check_chain(chain: DecisionChain, verification: Verification, views: TickViews | None = None) -> None:
    """Require a chain to be that of a verified run; ``BundleError`` says where they differ.

    1. Header, secret and the sealed configuration. 2. Every decision of the evidence, in order. 3. With ``views`` every tick.
    """
    started, evidence = verification.started, verification.evidence
    if started is None or evidence is None:
        raise BundleError("the evidence can't be read, so no seat can be about it")
    agent = started["agents"][0]
    competition = agent["config"].get("competition")
    config = sealed_config(str(chain.header.get("seat")), chain.blind, chain.secret, competition)
    if competition is not None and not isinstance(competition, str):
        raise BundleError(f"the seat names {competition!r:.80} as its competition, which is no text")
    sealed = (started["kind"], started["origin_id"], len(started["agents"]), agent["strategy"], agent["causality"])
    causality = Causality.LIVE if chain.blind is Blind.LIVE else Causality.ASKED
    if sealed != (KIND, config["seat"], 1, STRATEGY, causality) or agent["config"] != config:
        raise BundleError(f"the run is not that of seat {config['seat']!r:.80}, or its secret is another one")
    if chain.header != header(config["seat"], agent["agent_id"], started["run_id"], chain.secret):
        raise BundleError(f"the chain is about {chain.header!r:.200}, not about run {started['run_id']} of {config['seat']}")
    answered = [(number, tick["decisions"]) for number, tick in enumerate(chain.ticks, 1) if tick["decisions"]]
    stated = list(_by_message(evidence.decisions.iter_rows(named=True)))
    where: dict[int, tuple[int, int]] = {}
    for (number, decisions), (message, rows) in zip(answered, stated, strict=False):
        own = sorted(map(_as_sealed, decisions), key=repr)
        if own != sorted((_of_row(row, chain) for row in rows), key=repr):
            raise BundleError(
                f"tick {number} of the seat and the evidence at tick {message[1]} of fixture {message[0]} have other decisions"
            )
        where[number] = message
    if len(answered) != len(stated):
        raise BundleError(f"the seat decided at {len(answered):,} ticks, the evidence at {len(stated):,}")
    if views is not None:
        _check_views(chain, views, where)


def _by_message(rows: Iterable[JsonObject]) -> Iterator[tuple[tuple[int, int], list[JsonObject]]]:
    for message, own in groupby(rows, key=lambda row: (row["fixture_id"], row["tick_seq"])):
        yield message, list(own)


def _check_views(chain: DecisionChain, views: TickViews, where: Mapping[int, tuple[int, int]]) -> None:
    count = 0
    for count, (message, view) in enumerate(views(chain.blind, chain.secret), 1):
        if count > len(chain.ticks):
            break
        if tick_digest(tick_salt(chain.secret, count), view) != chain.ticks[count - 1]["tick"]:
            raise BundleError(f"tick {count} of the seat is not tick {message[1]} of fixture {message[0]} of the pack")
        if where.get(count, message) != message:
            raise BundleError(f"tick {count} of the seat is tick {message[1]} of fixture {message[0]}, the evidence differs")
    if count != len(chain.ticks):
        raise BundleError(f"the seat has {len(chain.ticks):,} ticks, its fixtures in the pack have another number")


def _as_sealed(decision: JsonObject) -> tuple[Any, ...]:
    """Return a recorded decision as evidence states it."""
    claimed = decision.get("confidence")
    try:
        number = None if claimed is None else float(claimed)
    except ValueError as error:
        raise BundleError(f"the confidence of a decision of the seat is no number: {claimed!r:.80}") from error
    is_probability = number is not None and 0 <= number <= 1
    ppm = floor(number * 1_000_000 + 0.5) if number is not None and is_probability else None
    names = ("action", "market", "side", "stake", "limit_odds_milli", "reason", "claimed_edge_bps")
    return (*map(decision.get, names), ppm, None if is_probability else claimed)


def _of_row(row: JsonObject, chain: DecisionChain) -> tuple[Any, ...]:
    fixture_id, market, side = row["fixture_id"], row["market_key"], row["side"]
    if chain.blind.hides and market is not None:
        market, side = alias(chain.secret, "market", fixture_id, market), alias(chain.secret, "side", fixture_id, market, side)
    names = ("stake", "limit_odds_milli", "reason", "claimed_edge_bps", "confidence_ppm", "confidence_raw")
    return (row["action"], market, side, *(row[name] for name in names))


def check_entries(chain: DecisionChain, parts: Mapping[str, bytes], ends_at: int | None) -> None:
    """Require the log's entries in a chain to be about it, from its start to its end; their proofs are not judged.

    ``ends_at`` is the index of the entry with the run's result, if it is known.
    """
    committed = before = run_of(parts).commit_index
    ticks = -1
    for proved in chain.entries:
        entry, index = read_entry(proved["entry"].encode()), proved["index"]
        if not isinstance(entry, SeatEntry) or (entry.run_id, entry.commit_index) != (chain.header["run_id"], committed):
            raise BundleError(f"entry {index} is not of this seat: {proved['entry']!r:.120}")
        if before is None or index <= before or (ends_at is not None and index >= ends_at):
            raise BundleError(f"entry {index} of the seat is not between its commitment {committed} and its result")
        if not ticks < entry.ticks <= len(chain.ticks) or not HASH.fullmatch(entry.head):
            raise BundleError(f"entry {index} of the seat is of {entry.ticks} ticks, after {ticks} of {len(chain.ticks)}")
        head = chain.ticks[entry.ticks - 1]["head"] if entry.ticks else first_head(chain.header)
        if (ticks < 0 and entry.ticks) or entry.head != head:
            raise BundleError(f"entry {index} says that the seat's head was {entry.head} after {entry.ticks} ticks, not {head}")
        before, ticks = index, entry.ticks
    if chain.entries and ticks != len(chain.ticks):
        raise BundleError(f"the last entry of the seat is of {ticks} ticks, the chain has {len(chain.ticks)}")


def check_held(chain: DecisionChain, parts: Mapping[str, bytes], content_hash: str | None) -> str:
    """Require a held-back seat's entries to be about its pack, the first before its commitment; their proofs are not judged.

    Returns
    -------
    str
        What the entries show, in words.
    """
    committed = run_of(parts).commit_index
    read = [(one["index"], read_entry(one["entry"].encode())) for one in chain.held]
    if len(read) not in (1, 2) or committed is None:
        raise BundleError(f"the seat names {len(read)} entries that hold its pack back or open its list, not one or two")
    index, first = read[0]
    if not isinstance(first, HeldEntry) or first.content_hash != content_hash or index >= committed:
        raise BundleError(f"entry {index} does not hold back pack {content_hash} before the seat's commitment {committed}")
    words = f"its pack was held back since entry {index} of the log, before the seat"
    if len(read) == 1:
        return f"{words}; its list of fixtures is not opened yet"
    opened, last = read[1]
    if not isinstance(last, ReleasedEntry) or (last.content_hash, last.held_index) != (content_hash, index):
        raise BundleError(f"entry {opened} does not open the list of pack {content_hash}")
    if opened <= committed:
        raise BundleError(f"entry {opened} opened the list of the pack before the seat's commitment {committed}")
    return f"{words}; its list of fixtures was opened by entry {opened}"


def _proved(entry: Any) -> JsonObject:
    proved = _exactly(entry, {"entry": str, "index": int, "proof": list}, "an entry of the seat")
    if proved["index"] < 0 or not all(type(one) is str and _HEX.fullmatch(one) for one in proved["proof"]):
        raise BundleError(
            f"an entry of the seat has no index, or no proof of hashes: {proved['index']}, {proved['proof']!r:.120}"
        )
    return proved
