"""Files of TxLINE's stable-price messages, one per line, and captures of one fixture that follow each other.

A message counts once per file. A live reader, whose input has no end, knows only the ids of each market's newest time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from clvlab.base.progress import each
from clvlab.errors import SourceError
from clvlab.law.schema import SAFE_INTEGER, TICKS
from clvlab.packs.files import lines_of
from clvlab.packs.manifest import Capture, Fixture, Gap, TimeRule
from clvlab.sources.books import QuoteSpill, batches
from clvlab.sources.clock import NOT_BORNE_OUT, jumps
from clvlab.sources.exchange import State
from clvlab.sources.source import ImportStats, Options, SourceData, reason_of
from clvlab.sources.txline.messages import about, stable_price
from clvlab.words import counted

NORMALISER = "txline/1"


def find(paths: Sequence[Path]) -> dict[str, Path]:
    """Return files by name: given ones, and from a folder ``odds_*.jsonl`` and ``odds_*.jsonl.gz``."""
    files = [file for path in paths for file in ([path] if path.is_file() else _in_folder(path))]
    named = {file.name: file for file in files}
    if not files:
        raise SourceError(f"no odds_*.jsonl or odds_*.jsonl.gz in {', '.join(str(path) for path in paths)}")
    if len(named) != len(files):
        raise SourceError(f"two files of one name among {sorted(file.name for file in files)}")
    return named


def _in_folder(folder: Path) -> list[Path]:
    return sorted(file for ending in ("jsonl", "jsonl.gz") for file in folder.glob(f"odds_*.{ending}"))


@dataclass(slots=True)
class _CaptureFile:
    """Facts of a file after its messages are on disk: first and last time of each fixture.

    ``jumps`` counts messages whose times no later message confirms; a file is mixed if times fall from one fixture to the next.
    """

    number: int
    messages: int = 0
    jumps: int = 0
    is_mixed: bool = False
    first_ts_ms: int = 0
    last_ts_ms: int = 0
    spans: dict[int, tuple[int, int]] = field(default_factory=dict)


def normalise(files: Mapping[str, Path], options: Options, scratch: Path) -> SourceData:
    """Read messages in order of time; captures of one fixture follow each other, with a gap between them."""
    account = ImportStats(options.lenient)
    spill = QuoteSpill(scratch)
    captures = []
    for number, name in enumerate(each("reading files", sorted(files), len(files))):
        captures.append(_read(number, name, files[name], spill, account, options))
        options.progress(f"{name}: {counted(captures[-1].messages, 'message')} read")
    captures = sorted((capture for capture in captures if capture.messages), key=lambda capture: capture.first_ts_ms)
    if not captures:
        raise SourceError(f"no message in {', '.join(sorted(files))}")
    gaps, last = [], dict[int, int]()
    for capture in captures:
        for fixture_id, (first, ended) in sorted(capture.spans.items()):
            if fixture_id in last and first < last[fixture_id]:
                raise SourceError(f"two captures of fixture {fixture_id} overlap at {first}; import them as two packs")
            if fixture_id in last:
                gaps.append(Gap(from_ts_ms=last[fixture_id], to_ts_ms=first))
            last[fixture_id] = ended
    account.messages = sum(capture.messages for capture in captures)
    refused = sum(capture.jumps for capture in captures)
    account.note(NOT_BORNE_OUT, refused)
    differs = refused or any(capture.is_mixed for capture in captures)
    return SourceData(
        parts=_parts(spill, [capture.number for capture in captures], options),
        fixtures=tuple(Fixture(fixture_id=fixture_id) for fixture_id in sorted(last)),
        account=account,
        provenance="imported-txline" if account.refused else "genuine-txline",
        normaliser=NORMALISER,
        margin="as-delivered",
        consensus="txline-stable-price",
        capture=Capture(
            method="provider messages, verbatim",
            tool="txline odds stream",
            started_ts_ms=min(capture.first_ts_ms for capture in captures),
            ended_ts_ms=max(capture.last_ts_ms for capture in captures),
            gaps=tuple(gaps),
        ),
        reading=TimeRule(rule=2, skew_s=None, offset_ms=0, refused=refused) if differs else None,
        keep_raw=True,
    )


def _parts(spill: QuoteSpill, in_order: Sequence[int], options: Options) -> Iterator[pl.DataFrame]:
    """Return the ticks of some fixtures at a time, numbered in order of their captures."""
    ids = {event: int(event) for event in spill.rows_of}
    rank = {number: place for place, number in enumerate(in_order)}
    for batch in batches(spill.rows_of, ids, options.chunk_rows):
        ordered = (
            spill.rows(batch)
            .with_columns(pl.col("capture").replace_strict(rank, return_dtype=pl.Int64))
            .sort("fixture_id", "capture", "message")
        )
        message = pl.struct("fixture_id", "capture", "message").rle_id()
        numbered = ordered.with_columns(message=message)
        seq = (pl.col("message") - pl.col("message").min().over("fixture_id")).cast(pl.Int32)
        yield numbered.with_columns(tick_seq=seq).select(*TICKS)


def _read(number: int, name: str, path: Path, spill: QuoteSpill, account: ImportStats, options: Options) -> _CaptureFile:
    capture = _CaptureFile(number)
    seen: set[str] = set()
    sides: dict[tuple[int, str], frozenset[str]] = {}
    rows: list[tuple[Any, ...]] = []
    try:
        false = jumps(_times(path)) if options.reading_rule == 2 else frozenset[int]()
        for line_number, line in lines_of(path):
            try:
                raw = orjson.loads(line)
                message = stable_price(raw)
                if raw["MessageId"] in seen:
                    raise ValueError(f"MessageId {raw['MessageId']} appears twice")
                if line_number in false:
                    capture.jumps += 1
                    continue
                before_ms = capture.last_ts_ms
                if options.reading_rule == 2:  # each fixture's times are judged alone
                    before_ms = capture.spans.get(message.fixture_id, (0, 0))[1]
                if capture.messages and message.ts_ms < before_ms:
                    raise ValueError(f"Ts {message.ts_ms} is before the message above, {before_ms}")
                known = sides.setdefault((message.fixture_id, message.market_key), frozenset(message.sides))
                if known != frozenset(message.sides):
                    raise ValueError(
                        f"the sides of {message.market_key} change from {sorted(known)} to {sorted(message.sides)}"
                    )
            except (ValueError, KeyError, TypeError, ArithmeticError) as error:
                account.refuse(name, line_number, reason_of(error))
                continue
            seen.add(raw["MessageId"])
            rows += _rows(message, number, capture.messages)
            capture.is_mixed = capture.is_mixed or message.ts_ms < capture.last_ts_ms
            capture.first_ts_ms = min(capture.first_ts_ms, message.ts_ms) if capture.messages else message.ts_ms
            first, _ = capture.spans.get(message.fixture_id, (message.ts_ms, 0))
            capture.spans[message.fixture_id] = (first, message.ts_ms)
            capture.last_ts_ms = max(capture.last_ts_ms, message.ts_ms)
            capture.messages += 1
            if len(rows) >= options.chunk_rows // 4:
                spill.add(pl.DataFrame(rows, schema=_ROWS, orient="row"))
                rows = []
    except SourceError as error:
        account.refuse_file(name, error)
    spill.add(pl.DataFrame(rows, schema=_ROWS, orient="row"))
    return capture


_ROWS = {"event": pl.String, "capture": pl.Int64, "message": pl.Int64} | {
    name: dtype for name, dtype in TICKS.items() if name != "tick_seq"
}


def _times(path: Path) -> Iterator[tuple[int, int, int]]:
    """Return line number, fixture and time of each readable message; others are refused later."""
    for line_number, line in lines_of(path):
        _, ts_ms, fixture_id = about(line)
        if fixture_id is not None and ts_ms is not None and 0 <= ts_ms <= SAFE_INTEGER:
            yield line_number, fixture_id, ts_ms


def _rows(state: State, capture: int, number: int) -> Iterator[tuple[Any, ...]]:
    head = (str(state.fixture_id), capture, number, state.fixture_id, state.ts_ms, state.in_running, state.market_key)
    for side, prob, odds in zip(state.sides, state.prob_bps, state.odds_milli, strict=True):
        yield (*head, side, prob, odds, state.suspended)
