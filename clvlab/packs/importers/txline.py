"""TxLINE stable-price messages: de-margined probabilities as delivered, one message a line.

A message whose ``Pct`` are all "NA", or that names its sides without prices, suspends its market.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson

from clvlab.errors import SourceError
from clvlab.law.schema import ODDS_MILLI, SAFE_INTEGER
from clvlab.odds.rounding import WHOLE_BPS, half_up
from clvlab.packs.files import lines_of
from clvlab.packs.importers.source import Account, Normalised, Options, ticks_frame
from clvlab.packs.manifest import Capture, Fixture, Gap

__all__ = ["NORMALISER", "find", "normalise"]

NORMALISER = "txline/1"
_BOOKMAKER = "TXLineStablePriceDemargined"
_SUM_TOLERANCE_BPS = 50


@dataclass(frozen=True, slots=True)
class _Message:
    fixture_id: int
    ts_ms: int
    in_running: bool
    market_key: str
    sides: tuple[str, ...]
    prob_bps: tuple[int | None, ...]
    odds_milli: tuple[int | None, ...]


def find(paths: Sequence[Path]) -> dict[str, Path]:
    """Give the files to read by name: files as given, and of a folder its ``odds_*.jsonl`` and ``odds_*.jsonl.gz``."""
    files = [file for path in paths for file in ([path] if path.is_file() else _in_folder(path))]
    named = {file.name: file for file in files}
    if not files:
        raise SourceError(f"no odds_*.jsonl or odds_*.jsonl.gz in {', '.join(str(path) for path in paths)}")
    if len(named) != len(files):
        raise SourceError(f"two files of one name among {sorted(file.name for file in files)}")
    return named


def _in_folder(folder: Path) -> list[Path]:
    return sorted(file for ending in ("jsonl", "jsonl.gz") for file in folder.glob(f"odds_*.{ending}"))


def normalise(files: Mapping[str, Path], options: Options | None = None, _scratch: Path | None = None) -> Normalised:
    """Read messages in the order of time; captures of one fixture follow each other, the silence between them is a gap."""
    account = Account((options or Options()).lenient)
    captures = [_read(name, files[name], account) for name in sorted(files)]
    captures = sorted((messages for messages in captures if messages), key=lambda messages: messages[0].ts_ms)
    if not captures:
        raise SourceError(f"no message in {', '.join(sorted(files))}")
    gaps, last = [], dict[int, int]()
    rows: list[tuple[Any, ...]] = []
    seqs: dict[int, int] = {}
    for messages in captures:
        for fixture_id in sorted({message.fixture_id for message in messages}):
            first = next(message.ts_ms for message in messages if message.fixture_id == fixture_id)
            if fixture_id in last and first < last[fixture_id]:
                raise SourceError(f"two captures of fixture {fixture_id} overlap at {first}; import them as two packs")
            if fixture_id in last:
                gaps.append(Gap(from_ts_ms=last[fixture_id], to_ts_ms=first))
        for message in messages:
            seq = seqs[message.fixture_id] = seqs.get(message.fixture_id, -1) + 1
            last[message.fixture_id] = message.ts_ms
            rows += _rows(message, seq)
    everything = [message for messages in captures for message in messages]
    account.messages = len(everything)
    return Normalised(
        parts=(ticks_frame(rows),),
        fixtures=tuple(Fixture(fixture_id=fixture_id) for fixture_id in sorted(seqs)),
        account=account,
        provenance="imported-txline" if account.refused else "genuine-txline",
        normaliser=NORMALISER,
        margin="as-delivered",
        consensus="txline-stable-price",
        closing_source="consensus",
        capture=Capture(
            method="provider messages, verbatim",
            tool="txline odds stream",
            started_ts_ms=min(message.ts_ms for message in everything),
            ended_ts_ms=max(message.ts_ms for message in everything),
            gaps=tuple(gaps),
        ),
        keep_raw=True,
    )


def _rows(message: _Message, seq: int) -> list[tuple[Any, ...]]:
    suspended = all(prob is None for prob in message.prob_bps)
    head = (message.fixture_id, seq, message.ts_ms, message.in_running, message.market_key)
    priced = zip(message.sides, message.prob_bps, message.odds_milli, strict=True)
    return [(*head, side, prob, odds, suspended) for side, prob, odds in priced]


def _read(name: str, path: Path, account: Account) -> list[_Message]:
    messages: list[_Message] = []
    seen: set[str] = set()
    sides: dict[tuple[int, str], frozenset[str]] = {}
    for number, line in lines_of(path):
        try:
            raw = orjson.loads(line)
            message = _message(raw)
            if raw["MessageId"] in seen:
                raise ValueError(f"MessageId {raw['MessageId']} appears twice")
            if messages and message.ts_ms < messages[-1].ts_ms:
                raise ValueError(f"Ts {message.ts_ms} is before the message above, {messages[-1].ts_ms}")
            known = sides.setdefault((message.fixture_id, message.market_key), frozenset(message.sides))
            if known != frozenset(message.sides):
                raise ValueError(f"the sides of {message.market_key} change from {sorted(known)} to {sorted(message.sides)}")
        except (ValueError, KeyError, TypeError, ArithmeticError) as error:
            account.refuse(name, number, f"{type(error).__name__}: {error}" if isinstance(error, KeyError) else str(error))
            continue
        seen.add(raw["MessageId"])
        messages.append(message)
    return messages


def _message(raw: dict[str, Any]) -> _Message:
    for key, kind in (("FixtureId", int), ("Ts", int), ("InRunning", bool), ("MessageId", str), ("SuperOddsType", str)):
        if type(raw[key]) is not kind:
            raise ValueError(f"{key} must be {kind.__name__}, not {raw[key]!r}")
    if abs(raw["FixtureId"]) > SAFE_INTEGER or not 0 <= raw["Ts"] <= SAFE_INTEGER:
        raise ValueError(f"FixtureId {raw['FixtureId']} or Ts {raw['Ts']} is out of range")
    if raw["Bookmaker"] != _BOOKMAKER:
        raise ValueError(f"Bookmaker {raw['Bookmaker']!r} is not the stable price")
    sides, prices, percents = raw["PriceNames"], raw["Prices"], raw["Pct"]
    if not all(isinstance(text, str) for text in (*sides, *percents)):
        raise ValueError(f"PriceNames {sides} and Pct {percents} must be texts")
    if len(set(sides)) != len(sides) or len(sides) < 2 or len(prices) != len(percents) or len(prices) not in (0, len(sides)):
        raise ValueError(f"PriceNames {sides}, Prices {prices} and Pct {percents} do not belong together")
    key = "|".join([raw["SuperOddsType"], raw["MarketPeriod"] or "", raw["MarketParameters"] or ""])
    if not prices:
        nothing = (None,) * len(sides)
        return _Message(raw["FixtureId"], raw["Ts"], raw["InRunning"], key, tuple(sides), nothing, nothing)
    odds = tuple(_odds(price) for price in prices)
    probs = tuple(None if percent == "NA" else _bps(percent) for percent in percents)
    total = sum(prob or 0 for prob in probs)
    if None not in probs and abs(total - WHOLE_BPS) > _SUM_TOLERANCE_BPS:
        raise ValueError(f"Pct {percents} sum to {total} basis points, not 10000 +- {_SUM_TOLERANCE_BPS}")
    return _Message(raw["FixtureId"], raw["Ts"], raw["InRunning"], key, tuple(sides), probs, odds)


def _bps(percent: str) -> int:
    bps = half_up(Decimal(percent) * 100)
    if not 0 <= bps <= WHOLE_BPS:
        raise ValueError(f"Pct {percent} is not 0 to 100")
    return bps


def _odds(price: int) -> int:
    if type(price) is not int or not ODDS_MILLI[0] <= price <= ODDS_MILLI[1]:
        raise ValueError(f"price {price!r} is not decimal odds x 1000, {ODDS_MILLI[0]} to {ODDS_MILLI[1]}")
    return price
