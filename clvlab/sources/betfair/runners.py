"""Tables of Betfair's prices, one row per runner: starting prices, and best prices at fixed times before the start.

Starting-price files have the average traded in the morning and the starting price. Their average over all trades before the off
(``PPWAP``) is left out, as it is known only at the off. The other files have the best back and lay prices some minutes before
the start. The files do not say when a price was quoted, so times are synthetic, as the pack's consensus label says.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import polars as pl

from clvlab.base.progress import each
from clvlab.base.times import by_forms, of_format, of_iso, zone_of
from clvlab.errors import SourceError
from clvlab.odds.consensus import Consensus
from clvlab.packs.manifest import Fixture
from clvlab.packs.rows import RESULTS, Payout
from clvlab.sources.books import QUOTES, QuoteSpill, quote_parts
from clvlab.sources.scrapers.messages import decimal_of
from clvlab.sources.source import ImportStats, Options, SourceData, files_below, fixture_ids_of
from clvlab.sources.tables.rows import CsvRow, opened_csv
from clvlab.words import counted

NORMALISER = "betfair-csv/1"
_BOOK = "betfair"
_RULES = Consensus(min_books=1, max_age_s=10**9)
_CLOSING_MS = 1000
_MORNING_HOUR = 11  # MORNINGWAP is the average price of the day's trades until then
_PLACES = 1.5  # a market has several winners if its starting prices imply more than this
_DAYS = ("%d-%m-%Y %H:%M", "%d-%m-%Y %H:%M:%S", "%d/%m/%Y %H:%M", "%d/%m/%Y %H:%M:%S")
_BACK, _LAY = re.compile(r"bestbackprice(\d+)minprior"), re.compile(r"bestlayprice(\d+)minprior")
_WON = {"1": Payout.WON, "win": Payout.WON, "winner": Payout.WON, "0": Payout.LOST, "lose": Payout.LOST,
        "loser": Payout.LOST}  # fmt: skip
_STARTING_COLUMNS = ("eventid", "eventdt", "selectionid", "bsp")
_TIMED_COLUMNS = ("eventid", "eventdate", "marketid", "markettype", "selectionid")


class _Runner(NamedTuple):
    """A row, and its prices at each time before the start: back odds, and lay odds if any."""

    row: CsvRow
    side: str
    prices: Mapping[int, tuple[float | None, float | None]]


@dataclass(frozen=True, slots=True)
class _RunnersEvent:
    names: tuple[str, ...]
    start_ms: int
    kickoff_ms: int | None


def find(paths: Sequence[Path]) -> dict[str, Path]:
    return files_below(paths, (".csv", ".csv.gz"))


def plain_name(column: str) -> str:
    """Return a column's name with only its letters, in small ones, and digits, because its spelling varies between files."""
    return "".join(letter for letter in column.lower() if letter.isalnum())


def shape_of(header: Sequence[str]) -> tuple[str, ...] | None:
    """Return the columns that identify one of the two kinds of table; ``None`` for neither."""
    own = {plain_name(column): column for column in header}
    if {*_STARTING_COLUMNS} <= own.keys():
        return tuple(own[name] for name in _STARTING_COLUMNS)
    back = next((column for name, column in own.items() if _BACK.fullmatch(name)), None)
    return None if back is None or not {*_TIMED_COLUMNS} <= own.keys() else (own["marketid"], own["selectionid"], back)


def normalise(files: Mapping[str, Path], options: Options, scratch: Path) -> SourceData:
    """Read tables file by file, and make each market's ticks from its runners."""
    account = ImportStats(options.lenient)
    reader = _RunnersReader(options, account, zone_of(options.time_zone), QuoteSpill(scratch))
    for name, path in each("reading files", sorted(files.items()), len(files)):
        reader.read_file(name, path)
        options.progress(f"{name}: {counted(account.messages, 'runner')} so far")
    ids = fixture_ids_of(reader.events)
    results = [(ids[row[0]], *row[1:]) for row in reader.results]
    return SourceData(
        parts=quote_parts(reader.spill, ids, options, _RULES, account),
        fixtures=tuple(
            Fixture(fixture_id=ids[source_id], names=event.names, source_id=source_id, kickoff_ts_ms=event.kickoff_ms)
            for source_id, event in sorted(reader.events.items(), key=lambda item: ids[item[0]])
        ),
        account=account,
        provenance="imported-betfair-csv",
        normaliser=NORMALISER,
        margin="multiplicative" if reader.has_lay else options.margin.value,
        consensus="single-venue; times of ticks are synthetic",
        closing_source="best prices before the start" if reader.has_lay else "starting price",
        results=pl.DataFrame(results, schema=RESULTS, orient="row") if results else None,
    )


class _RunnersReader:
    def __init__(self, options: Options, account: ImportStats, zone: ZoneInfo | None, spill: QuoteSpill) -> None:
        self.events: dict[str, _RunnersEvent] = {}
        self.results: list[tuple[str, str, str, str, str | None]] = []
        self.spill = spill
        self.has_lay: bool | None = None
        self._options, self._account, self._zone = options, account, zone
        self._markets: set[tuple[str, str]] = set()

    def read_file(self, name: str, path: Path) -> None:
        """Read the markets of a file; in a truncated file the last market is left out, as it may lack runners."""
        markets: dict[tuple[str, str, str, str], list[_Runner]] = defaultdict(list)
        last = None
        try:
            header, rows = opened_csv(name, path, self._account)
            has_lay = self._check_kind(name, header)
            for row in rows:
                plain = CsvRow(row.line, {plain_name(column): cell for column, cell in row.cells.items()})
                self._account.messages += 1
                last = self._add_runner(name, plain, markets) or last
        except SourceError as error:
            self._account.refuse_file(name, error)
            markets.pop(last, []) if last is not None else None
            if not markets:
                return
        kinds: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        for event, market, kind, line in markets:
            kinds[event, kind, line].add(market)
        quotes = [
            quote
            for (event, market, kind, line), runners in markets.items()
            for quote in self._quotes(
                name, event, market, _key(kind, market, line, alone=len(kinds[event, kind, line]) == 1), runners
            )
        ]
        schema = {**QUOTES, "fair": pl.Float64} if has_lay else QUOTES
        self.spill.add(pl.DataFrame([row[: len(schema)] for row in quotes], schema=schema, orient="row"))

    def _check_kind(self, name: str, header: Sequence[str]) -> bool:
        if shape_of(header) is None:
            raise SourceError(
                f"{name}: not a table of Betfair's runners: it needs the columns EVENT_ID, EVENT_DT, SELECTION_ID and BSP, or "
                f"EVENT_ID, EVENT_DATE, MARKET_ID, MARKET_TYPE, SELECTION_ID and BEST_BACK_PRICE_60_MIN_PRIOR; it has "
                f"{', '.join(header[:20])}"
            )
        has_lay = not {*_STARTING_COLUMNS} <= {plain_name(column) for column in header}
        if self.has_lay not in (None, has_lay):
            raise SourceError(f"{name}: starting prices and best prices are tables of two kinds: import them one by one")
        self.has_lay = has_lay
        return has_lay

    def _add_runner(
        self, name: str, row: CsvRow, markets: dict[tuple[str, str, str, str], list[_Runner]]
    ) -> tuple[str, str, str, str] | None:
        """Add a runner, and return its market; ``None`` if it can't be read or did not run."""
        cells = row.cells
        try:
            event, side = cells["eventid"], cells["selectionid"]
            details = self._event(cells)
            prices = {
                ts_ms: (self._odds(name, row.line, back), self._odds(name, row.line, lay))
                for ts_ms, back, lay in self._prices(cells, details)
            }
        except (ValueError, KeyError) as error:
            reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            self._account.refuse(name, row.line, reason, "a runner can't be read")
            return None
        if self.events.setdefault(event, details) != details:
            text = f"event {event} is {self.events[event].names} at another time in another row"
            self._account.refuse(name, row.line, text, "an event has two versions")
            return None
        if not self.has_lay and "bsp" not in cells:
            self._account.note("runners without a starting price, which did not run, are left out")
            return None
        market = event, cells.get("marketid", event), cells.get("markettype", ""), cells.get("handicap", "0")
        markets[market].append(_Runner(row, side, prices))
        return market

    def _event(self, cells: Mapping[str, str]) -> _RunnersEvent:
        """Return a row's event; if its date has no time, prices count back from the end of the day, and it has no kickoff."""
        if not self.has_lay:
            start_ms = _time(cells["eventdt"], self._zone)
            title = " ".join(filter(None, (cells.get("menuhint"), cells.get("eventname"))))
            return _RunnersEvent((title,) if title else (), start_ms, start_ms)
        start_ms = _time(cells["eventdate"], self._zone)
        teams = tuple(cells[side] for side in ("hometeam", "awayteam") if side in cells)
        names = teams if len(teams) == 2 else tuple(filter(None, (cells.get("path", "").strip(),)))
        is_day = start_ms % 86_400_000 == 0
        return _RunnersEvent(names, start_ms + 86_400_000 if is_day else start_ms, None if is_day else start_ms)

    def _prices(self, cells: Mapping[str, str], event: _RunnersEvent) -> Iterator[tuple[int, str | None, str | None]]:
        if not self.has_lay:
            off = datetime.fromtimestamp(event.start_ms / 1000, self._zone or UTC)
            morning_ms = round(off.replace(hour=_MORNING_HOUR, minute=0, second=0).timestamp() * 1000)
            if morning_ms < event.start_ms - _CLOSING_MS:
                yield morning_ms, cells.get("morningwap"), None
            yield event.start_ms - _CLOSING_MS, cells.get("bsp"), None
            return
        for column, cell in cells.items():
            if span := _BACK.fullmatch(column):
                lay = cells.get(column.replace("back", "lay", 1))
                yield event.start_ms - int(span[1][:6]) * 60_000, cell, lay

    def _odds(self, name: str, line: int, text: str | None) -> float | None:
        try:
            return None if text in (None, "0", "0.0", "NaN", "nan") else decimal_of(text)
        except ValueError as error:
            self._account.refuse(name, line, str(error), "no odds")
            return None

    def _quotes(self, name: str, event: str, market: str, key: str, runners: Sequence[_Runner]) -> Iterator[tuple[Any, ...]]:
        if (market, key) in self._markets:
            self._account.refuse(name, runners[0].row.line, f"market {market} is in two files", "a market is in two files")
            return
        self._markets.add((market, key))
        closes = [runner.prices[max(runner.prices)][0] for runner in runners if runner.prices]
        by_runner = not self.has_lay and sum(1 / odds for odds in closes if odds) > _PLACES
        if len(runners) < 2:
            self._account.note("markets of one runner are left out: a line, or a walkover")
            return
        for runner in runners:
            self._settle(event, f"PLACE||selection={runner.side}" if by_runner else key, runner, by_runner=by_runner)
        times = sorted({ts_ms for runner in runners for ts_ms in runner.prices})
        for ts_ms in times:
            for runner in runners:
                back, lay = runner.prices.get(ts_ms, (None, None))
                fair = (1 / back + 1 / lay) / 2 if back and lay else None
                row = (_BOOK, ts_ms, ts_ms, False)
                origin = (name, runner.row.line)
                if not by_runner:
                    yield (event, key, runner.side, *row, back, *origin, fair)
                    continue
                place_key = f"PLACE||selection={runner.side}"
                yield (event, place_key, "yes", *row, back, *origin, None)
                yield (event, place_key, "no", *row, None if not back else back / (back - 1), *origin, None)

    def _settle(self, event: str, key: str, runner: _Runner, *, by_runner: bool) -> None:
        cells = runner.row.cells
        result = _WON.get(cells.get("winlose", cells.get("iswinner", "")).lower())
        if result is None:
            self._account.note("runners without a result")
            return
        name = cells.get("selectionname", cells.get("runnername"))
        if by_runner:
            opposite = Payout.LOST if result is Payout.WON else Payout.WON
            self.results += [(event, key, "yes", result.value, name), (event, key, "no", opposite.value, name)]
        else:
            self.results.append((event, key, runner.side, result.value, name))


def _key(kind: str, market: str, line: str, *, alone: bool) -> str:
    parameters = [*([] if line in ("0", "0.0") else [f"line={line}"]), *([] if alone else [f"market={market}"])]
    return f"{kind or 'WIN'}||{','.join(parameters)}"


def _time(text: str, zone: ZoneInfo | None) -> int:
    """Return a time written as ISO 8601, also with a space before its Z, or day first.

    Raises
    ------
    ValueError
        The text is in neither form, or has no zone and none is set.
    """
    form = next((form for form in _DAYS if by_forms(text, form)), None)
    return of_iso(text.replace(" Z", "Z"), zone) if form is None else of_format(text, form, zone)
