"""Read a record of bets: a CSV file or a frame becomes rows of text, and those become bets."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clvlab.agents.proposals import MAX_BETS
from clvlab.base.files import file_bytes
from clvlab.base.times import Span, are_clocks, check_form, days_of, moments_of, with_clocks, zone_of
from clvlab.bets.columns import Columns, Meaning, columns_of
from clvlab.bets.values import CENTS, cents_of, odds_milli_of, result_of
from clvlab.errors import ArgumentError, FileError, SourceError
from clvlab.packs.rows import Payout
from clvlab.sources.tables.files import is_frame, plain_csv

_MAX_BYTES = 64 << 20
_DELIMITERS = (",", ";", "\t", "|")
_BACKS, _LAYS = {"back", "b"}, {"lay", "l"}


@dataclass(frozen=True, slots=True)
class Row:
    """A bet as its row states it; a value that can't be read is ``None``.

    ``row`` counts from 1 after the header, ``stake`` is in cents, and ``same_as`` is the first row with exactly the same cells.
    """

    row: int
    cells: Mapping[Meaning, str | None]
    ts_ms: int | None
    no_time: str | None
    kickoff: Span | None
    lost_kickoff: bool
    odds_milli: int | None
    stake: int | None
    result: Payout | None
    same_as: int | None


@dataclass(frozen=True, slots=True)
class BetRecord:
    columns: Columns
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class BetsFormat:
    """Settings for reading a record; a setting that is ``None`` is guessed or not needed.

    ``odds_format`` is for ambiguous prices, ``time_zone`` for times without a zone, ``time_format`` of ``strptime`` for times
    that are not ISO 8601; ``team_aliases`` is a TOML file.
    """

    columns: Mapping[str, Any] | None = None
    market: str | None = None
    odds_format: str | None = None
    time_zone: str | None = None
    time_format: str | None = None
    team_aliases: str | Path | None = None

    def __post_init__(self) -> None:
        for name in ("market", "time_zone"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise ArgumentError(f"{name} is a text, not {value!r:.80}")
        check_form(self.time_format)


def read_record(bets: Any, how: BetsFormat) -> BetRecord:
    header, rows = _table(bets)
    columns = columns_of(header, how.columns, how.market)
    place = {meaning: header.index(name) for meaning, name in columns.names.items()}
    cells = {meaning: [row[at].strip() or None for row in rows] for meaning, at in place.items()}
    _check_sides(cells[Meaning.SIDE], columns)
    zone = zone_of(how.time_zone)
    times, kickoffs = _times(cells)
    moments, reasons = moments_of(times, zone, how.time_format, "time")
    days = days_of(kickoffs, zone, how.time_format) if kickoffs is not None else [None] * len(rows)
    prices = odds_milli_of(cells.get(Meaning.PRICE, [None] * len(rows)), how.odds_format)
    stakes = cents_of(cells[Meaning.STAKE]) if Meaning.STAKE in cells else [CENTS] * len(rows)
    results = [result_of(cell) for cell in cells.get(Meaning.RESULT, [None] * len(rows))]
    first: dict[tuple[str, ...], int] = {}
    found_bets = (
        Row(
            row=number + 1,
            cells={meaning: own[number] for meaning, own in cells.items()},
            ts_ms=moments[number],
            no_time=reasons[number],
            kickoff=days[number],
            lost_kickoff=kickoffs is not None and bool(kickoffs[number]) and days[number] is None,
            odds_milli=prices[number],
            stake=stakes[number],
            result=results[number],
            same_as=None if first.setdefault(tuple(row), number) == number else first[tuple(row)] + 1,
        )
        for number, row in enumerate(rows)
    )
    return BetRecord(columns, tuple(found_bets))


def _times(cells: Mapping[Meaning, list[str | None]]) -> tuple[list[str | None], list[str | None] | None]:
    """Return the times of bets and the kickoffs; a date next to complete times is the day of the match."""
    dates, times, kickoffs = (cells.get(one) for one in (Meaning.DATE, Meaning.TIME, Meaning.KICKOFF))
    if times is None:
        return dates or [], kickoffs
    if dates is not None and are_clocks(times):
        return with_clocks(dates, times), kickoffs
    return times, dates if kickoffs is None else kickoffs


def _check_sides(sides: Sequence[str | None], columns: Columns) -> None:
    """Refuse a column of BACK and LAY: exchanges call these sides, but they are not sides of a market."""
    names = {side.lower() for side in sides if side}
    if names and names <= _BACKS | _LAYS:
        raise SourceError(
            f"column {columns.names[Meaning.SIDE]!r} says back or lay, and no side of a market: name the column of the "
            "selection, as columns={'side': 'selection'}; a lay can't be graded as a bet on its side: leave such rows out"
        )


def _table(bets: Any) -> tuple[list[str], list[list[str]]]:
    content, name = _content(bets)
    text = _decoded(content)
    delimiter = max(_DELIMITERS, key=text.partition("\n")[0].count)
    try:
        lines = [line for line in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if any(map(str.strip, line))]
    except csv.Error as error:
        raise SourceError(f"{name} can't be read as CSV: {error}") from error
    if len(lines) < 2:
        raise SourceError(f"{name} holds no bets: it needs a header and a row for each bet")
    header, rows = [cell.strip() or f"column {at + 1}" for at, cell in enumerate(lines[0])], lines[1:]
    twice = sorted({cell for cell in header if header.count(cell) > 1})
    if twice:
        raise SourceError(f"{name} has two columns {twice[0]!r}: rename one")
    if len(rows) > MAX_BETS:
        raise SourceError(f"{name} has {len(rows):,} bets, and a run takes {MAX_BETS:,}: grade it in parts")
    for number, row in enumerate(rows):
        if len(row) > len(header) and any(map(str.strip, row[len(header) :])):
            raise SourceError(
                f"row {number + 1} of {name} has {len(row)} cells, and the header {len(header)}: "
                f"quote a cell that holds {delimiter!r}"
            )
        row[len(header) :] = []
        row += [""] * (len(header) - len(row))
    return header, rows


def _content(bets: Any) -> tuple[bytes, str]:
    if is_frame(bets):
        return plain_csv(bets), "the frame"
    if isinstance(bets, bytes):
        return bets, "the record"
    if not isinstance(bets, str | Path):
        raise SourceError(f"bets are given as the path of a CSV file or as a frame, not as {bets!r:.80}")
    path = Path(bets)
    if path.suffix.lower() in (".xls", ".xlsx", ".ods", ".numbers", ".parquet"):
        raise SourceError(f"{path.name} is no CSV file: save it as CSV, or read it into a frame and give that")
    try:
        return file_bytes(path, _MAX_BYTES), path.name
    except FileError as error:
        raise SourceError(f"no bets can be read: {error}") from error
    except OSError as error:
        raise SourceError(f"no bets can be read at {str(path)!r:.300}: {error.strerror}") from error


def _decoded(content: bytes) -> str:
    """Decode a spreadsheet's file: UTF-8, UTF-16 with its mark, or else western Windows."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return content.decode("utf-16", errors="replace")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace")
