"""Polymarket price histories of 1X2 markets: ``<fixture>/{home,draw,away}.jsonl[.gz]`` next to a ``fixtures.json``.

The three sides are quoted at nearly the same times and do not sum to one. Quotes at most 60 s apart form one round, which
becomes a normalised tick at its last time. A round that lacks a side is a suspended message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from clvlab.base.times import LAST_MS
from clvlab.errors import SourceError
from clvlab.law.schema import SAFE_INTEGER
from clvlab.odds.integers import largest_remainder
from clvlab.packs.files import lines_of, whole
from clvlab.packs.manifest import Fixture
from clvlab.sources.clock import NOT_BORNE_OUT, jumps
from clvlab.sources.exchange import MARKET_KEY, odds_milli
from clvlab.sources.source import ImportStats, Options, SourceData, reason_of, ticks_frame

NORMALISER = "polymarket/1"
_LACKS = "a fixture lacks a file"
_ROUND_S = 60
_SIDES = {"home": "part1", "draw": "draw", "away": "part2"}
_FIXTURES = "fixtures.json"
_MIN_PRICE = Decimal("1e-9")


@dataclass(frozen=True, slots=True)
class _Quote:
    ts_s: int
    side: str
    price: Decimal


def find(paths: Sequence[Path]) -> dict[str, Path]:
    """Return ``fixtures.json`` and the quote files of one folder, by flat names: ``<fixture>-home.jsonl.gz``."""
    if len(paths) != 1 or not (paths[0] / _FIXTURES).is_file():
        raise SourceError(f"give one folder with a {_FIXTURES}, not {', '.join(str(path) for path in paths)}")
    fixtures = {str(fixture.fixture_id) for fixture in _fixtures(paths[0] / _FIXTURES, ImportStats(lenient=True))}
    endings = [f"*/{name}.{ending}" for name in _SIDES for ending in ("jsonl", "jsonl.gz")]
    files = sorted(file for ending in endings for file in paths[0].glob(ending) if file.parent.name in fixtures)
    return {_FIXTURES: paths[0] / _FIXTURES} | {f"{file.parent.name}-{file.name}": file for file in files}


def normalise(files: Mapping[str, Path], options: Options, _scratch: Path) -> SourceData:
    """Read the quotes of every fixture in ``fixtures.json``, and make rounds of them."""
    account = ImportStats(options.lenient)
    if _FIXTURES not in files:
        raise SourceError(f"there is no {_FIXTURES} among {sorted(files)}")
    fixtures = _fixtures(files[_FIXTURES], account)
    return SourceData(
        parts=_parts(fixtures, files, options, account),
        fixtures=fixtures,
        account=account,
        provenance="imported-polymarket",
        normaliser=NORMALISER,
        margin="multiplicative",
        consensus="single-venue",
        closing_source="venue",
        keep_raw=True,
    )


def _parts(
    fixtures: Sequence[Fixture], files: Mapping[str, Path], options: Options, account: ImportStats
) -> Iterator[pl.DataFrame]:
    for fixture in fixtures:
        of = {name: [file for file in files if file.startswith(f"{fixture.fixture_id}-{name}.jsonl")] for name in _SIDES}
        wrong = next((name for name, found in of.items() if len(found) != 1), None)
        if wrong is not None:
            text = f"needs one {wrong}.jsonl or {wrong}.jsonl.gz, found {len(of[wrong])}"
            account.refuse_file(str(fixture.fixture_id), SourceError(f"fixture {fixture.fixture_id} {text}"), _LACKS)
            continue
        quotes = [
            quote for name, (file,) in of.items() for quote in _read(file, files[file], fixture.fixture_id, name, account)
        ]
        account.messages += len(quotes)
        options.progress(f"fixture {fixture.fixture_id}: {len(quotes):,} quotes read")
        yield ticks_frame(_rows(fixture.fixture_id, sorted(quotes, key=lambda quote: (quote.ts_s, quote.side)), account))


def _fixtures(path: Path, account: ImportStats) -> tuple[Fixture, ...]:
    try:
        listed = orjson.loads(whole(path))
    except orjson.JSONDecodeError as error:
        raise SourceError(f"{path.name}:{error.lineno}: no JSON: {error.msg}") from error
    if not isinstance(listed, list) or not listed:
        raise SourceError(f"{path.name} has to be a list of fixtures")
    fixtures: dict[int, Fixture] = {}
    for number, entry in enumerate(listed, 1):
        try:
            fixture = _fixture(entry)
            if fixtures.setdefault(fixture.fixture_id, fixture) is not fixture:
                raise ValueError(f"the fixture {fixture.fixture_id} is listed twice")
        except ValueError as error:
            account.refuse(path.name, number, str(error), "a fixture can't be read")
    return tuple(fixtures[fixture_id] for fixture_id in sorted(fixtures))


def _fixture(entry: Any) -> Fixture:
    kinds = {"fixture_id": int, "home_team": str, "away_team": str, "event_slug": str, "kickoff_ts": int}
    wrong = [key for key, kind in kinds.items() if not isinstance(entry, dict) or type(entry.get(key)) is not kind]
    if wrong:
        value = entry.get(wrong[0]) if isinstance(entry, dict) else entry
        raise ValueError(f"{wrong[0]} of a fixture has to be {kinds[wrong[0]].__name__}, not {value!r:.80}")
    if abs(entry["fixture_id"]) > SAFE_INTEGER or not 0 <= entry["kickoff_ts"] <= LAST_MS // 1000:
        raise ValueError(f"fixture_id {entry['fixture_id']} or kickoff_ts {entry['kickoff_ts']} is out of range")
    return Fixture(
        fixture_id=entry["fixture_id"],
        names=(entry["home_team"], entry["away_team"]),
        source_id=entry["event_slug"],
        kickoff_ts_ms=entry["kickoff_ts"] * 1000,
    )


def _read(file: str, path: Path, fixture_id: int, name: str, account: ImportStats) -> Iterator[_Quote]:
    before = -1
    try:
        false = jumps(_times(path, fixture_id), longest_ms=None)
        account.note(NOT_BORNE_OUT, len(false))
        for number, line in lines_of(path):
            if number in false:
                continue
            try:
                raw = orjson.loads(line)
                quote = _Quote(raw["ts"], _SIDES[name], Decimal(str(raw["native_price"])))
                if type(quote.ts_s) is not int or not max(before, 0) <= quote.ts_s <= SAFE_INTEGER // 1000:
                    raise ValueError(f"ts {quote.ts_s!r} is no time in seconds, or before the quote above, {before}")
                if raw["fixture_id"] != fixture_id or raw["market_ref"] != f"1X2|{name}|full":
                    raise ValueError(f"a quote of {raw['fixture_id']} {raw['market_ref']} in the file of {fixture_id} {name}")
                if not 0 <= quote.price <= 1 or 0 < quote.price < _MIN_PRICE:
                    raise ValueError(f"native_price {quote.price} is not 0 to 1")
            except (ValueError, KeyError, TypeError, ArithmeticError) as error:
                account.refuse(file, number, reason_of(error))
                continue
            before = quote.ts_s
            yield quote
    except SourceError as error:
        account.refuse_file(file, error)


def _times(path: Path, fixture_id: int) -> Iterator[tuple[int, int, int]]:
    """Return line number, fixture and time of each readable quote."""
    for number, line in lines_of(path):
        try:
            ts_s = orjson.loads(line)["ts"]
        except (ValueError, KeyError, TypeError):
            continue  # the later reading refuses it with a reason
        if type(ts_s) is int and 0 <= ts_s <= SAFE_INTEGER // 1000:
            yield number, fixture_id, ts_s * 1000


def _rounds(quotes: Sequence[_Quote]) -> Iterator[dict[str, _Quote]]:
    """Group quotes in order of time: a round ends 60 s after its first quote, or when a side repeats."""
    current: dict[str, _Quote] = {}
    start = 0
    for quote in quotes:
        if current and (quote.ts_s - start > _ROUND_S or quote.side in current):
            yield current
            current = {}
        if not current:
            start = quote.ts_s
        current[quote.side] = quote
    if current:
        yield current


def _rows(fixture_id: int, quotes: Sequence[_Quote], account: ImportStats) -> Iterator[tuple[Any, ...]]:
    for seq, quoted in enumerate(_rounds(quotes)):
        ts_ms = max(quote.ts_s for quote in quoted.values()) * 1000
        head = (fixture_id, seq, ts_ms, False, MARKET_KEY)
        complete = len(quoted) == len(_SIDES) and any(quote.price for quote in quoted.values())
        if complete:
            account.overround_bps[round((sum(quote.price for quote in quoted.values()) - 1) * 1000) * 10] += 1
        else:
            account.note("rounds that lack a side are suspended")
        account.books[int(complete)] += 1
        shares = largest_remainder({side: quote.price for side, quote in quoted.items()}) if complete else {}
        for side in sorted(_SIDES.values()):
            yield (*head, side, shares.get(side), odds_milli(quoted[side].price) if complete else None, not complete)
