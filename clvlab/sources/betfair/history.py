"""Betfair historical stream files: every state of a market's book, from the first message to the settlement.

A runner's probability is the mid of its best back and lay prices, normalised over the active runners. In a market with
several winners these do not sum to one, so each of its runners becomes a market of its own, ``yes`` or ``no``.
"""

from __future__ import annotations

import bz2
import gzip
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from io import BufferedIOBase
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np
import orjson
import polars as pl

from clvlab.base.progress import each, report
from clvlab.base.times import LAST_MS
from clvlab.errors import SourceError
from clvlab.law.schema import TICKS, ClosingPolicy
from clvlab.odds.consensus import PROB_UNIT
from clvlab.packs.files import lines_in, lines_of
from clvlab.packs.ladders import LADDERS, LEVEL_COUNT
from clvlab.packs.manifest import Fixture, KickoffKind
from clvlab.packs.rows import RESULTS, Payout
from clvlab.sources.betfair.messages import (
    CONSENSUS,
    MARGIN,
    NO_OFF,
    PLAIN,
    Column,
    MarketBook,
    States,
    StreamMessage,
    Times,
    against,
    backed,
    by_runner,
    event_of,
    fixture_of,
    has_off,
    is_readable,
    key_of,
    kind_of,
    side_prices,
    times_of,
    with_parameters,
)
from clvlab.sources.books import QuoteSpill, batches, number_messages
from clvlab.sources.clock import with_sound_times
from clvlab.sources.ladders import LadderLog
from clvlab.sources.source import ImportStats, Options, SourceData, SourcePart, files_below, fixture_ids_of, reason_of
from clvlab.words import counted

# Files of the Betfair stream hold a market or a whole event, plain or packed; a tar holds many of them.


_ENDINGS = (".bz2", ".gz", ".tar")
JUMPED = "messages whose time jumps ahead, borne out by nothing after them, are of the last sound time"


def find(paths: Sequence[Path]) -> dict[str, Path]:
    """Return the named files, and from a folder ``*.bz2``, ``*.gz``, ``*.tar`` and files named like a market."""
    return files_below(paths, _ENDINGS, PLAIN)


def market_files(files: Mapping[str, Path], options: Options, account: ImportStats) -> Iterator[MarketFile]:
    """Return files in turn, also those in a tar; each must be read before the next is requested."""
    for n, (name, path) in enumerate(each("reading files", sorted(files.items()), len(files)), 1):
        if path.suffix == ".tar":
            yield from _tar_files(name, path, options, account)
        else:
            yield MarketFile(name, lines_of(path), account, _logs(options))
        options.progress(f"{n:,} of {counted(len(files), 'file')} read")


def _logs(options: Options) -> tuple[LadderLog, LadderLog] | None:
    return (LadderLog(backed), LadderLog(against)) if options.ladders else None


def _tar_files(name: str, path: Path, options: Options, account: ImportStats) -> Iterator[MarketFile]:
    try:
        with tarfile.open(path, "r|") as tar:
            for member in tar:
                if not member.isfile():
                    if not member.isdir():
                        account.refuse(name, 1, f"{member.name!r} is no plain file", "a tar member is no plain file")
                    continue
                where = f"{name}:{member.name}"
                report(f"reading {name}", member.offset, path.stat().st_size)
                inner = tar.extractfile(member)
                if inner is not None:
                    lines = lines_in(_unpack(inner, member.name), where, member.size)
                    yield MarketFile(where, lines, account, _logs(options))
                options.progress(f"{where} read")
    except (tarfile.TarError, OSError, EOFError) as error:
        account.refuse(name, 1, f"can't be read to its end: {error}", "a file can't be read to its end")


def _unpack(inner: IO[bytes], name: str) -> BufferedIOBase:
    if name.endswith(".bz2"):
        return bz2.BZ2File(inner)
    return gzip.GzipFile(fileobj=inner) if name.endswith(".gz") else cast("BufferedIOBase", inner)


@dataclass(slots=True)
class MarketFile:
    """A file of one or more markets; ``name`` includes the member of a tar, ``books`` are the markets read so far.

    ``ladders`` are the ladders of offers to back and to lay, ``None`` where these are not kept.
    """

    name: str
    lines: Iterator[tuple[int, bytes]]
    account: ImportStats
    ladders: tuple[LadderLog, LadderLog] | None
    books: dict[str, MarketBook] = field(default_factory=dict)
    _sport: str = ""
    _last_ms: int = 0
    _held: int = 0

    def read(self, max_held: int) -> Iterator[None]:
        """Read the file, and yield whenever the books hold enough prices for their states to be taken.

        Raises
        ------
        SourceError
            The file can't be read to its end, so its close is missing.
        """
        try:
            for (number, message), ts_ms in with_sound_times(self._messages()):
                try:
                    if isinstance(message, ValueError):
                        raise message
                    if self._held >= max_held and ts_ms != self._last_ms:  # states of one time count as one
                        self._held = 0
                        yield
                    self._apply(message, ts_ms)
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    self.account.refuse(self.name, number, reason_of(error), "a message can't be read")
                    self._lose(message, ts_ms)
        except tarfile.TarError as error:
            raise SourceError(f"{self.name}: can't be read to its end: {error}") from error
        if not self.books:
            self.account.refuse(self.name, 1, "holds no market", "a file holds no market")
        yield

    def _messages(self) -> Iterator[tuple[tuple[int, Any], int | None]]:
        """Return messages or errors with line numbers, and their times if they have one."""
        for number, line in self.lines:
            try:
                message = orjson.loads(line)
            except ValueError as error:
                yield (number, error), None
                continue
            ts_ms = message.get("pt") if isinstance(message, dict) else None
            yield (number, message), ts_ms if type(ts_ms) is int else None

    def _apply(self, message: StreamMessage, ts_ms: int | None) -> None:
        if message.get("op") != "mcm" or ts_ms is None:
            raise ValueError(f"no market change message: {str(message)[:80]}")
        if ts_ms != message["pt"]:
            self.account.note(JUMPED)
        if not self._last_ms <= ts_ms <= LAST_MS:
            raise ValueError(f"pt {ts_ms} is before the message above, {self._last_ms}, or no time")
        for change in message.get("mc", ()):
            self.account.messages += 1
            market_id = change["id"]
            if not isinstance(market_id, str) or not (market_id in self.books or PLAIN.fullmatch(market_id)):
                raise ValueError(f"{market_id!r} is no market id")
            if "marketDefinition" in change:
                self._check_sport(change["marketDefinition"].get("eventTypeId", self._sport))
            book = self.books.get(market_id) or MarketBook(market_id, keeps_depth=self.ladders is not None)
            book.apply(change, ts_ms)
            self.books[market_id] = book
            if book.depth is not None and book.depth.changed:
                self._log(book, ts_ms)
            self._held += len(book.runners)
        self._last_ms = ts_ms

    def _lose(self, message: Any, ts_ms: int | None) -> None:
        """Mark the ladders of all markets unknown until their next image, from a message on that may have changed one."""
        if self.ladders is None or (isinstance(message, dict) and message.get("op") != "mcm"):
            return
        self.account.note("messages that can't be read end the ladders until the next image")
        lost_ms = ts_ms if ts_ms is not None and self._last_ms <= ts_ms <= LAST_MS else self._last_ms
        for book in self.books.values():
            if book.depth is not None:
                book.depth.reset(is_known=False)
                self._log(book, lost_ms)

    def _log(self, book: MarketBook, ts_ms: int) -> None:
        """Note the ladders of a market that changed."""
        if self.ladders is not None and book.depth is not None:
            for own, offers in book.depth.take():
                log = self.ladders[offers.is_lay]
                if offers.number < 0:
                    parameters, side = book.depth.named(own)
                    offers.number = log.number((event_of(book.first), _market_key(book, parameters), side))
                log.note(offers.number, ts_ms, *offers.ordered())

    def _check_sport(self, sport: Any) -> None:
        self._sport = self._sport or sport
        if sport != self._sport:
            raise ValueError(f"event type {sport!r} in a file of {self._sport!r}: import one sport at a time")


# Messages of an exchange that repeat the state of their market: these are most of a stream, and agents gain nothing from them.


_EVERY_MS = 60_000
_MARKET = ("event", "market_key")
_STATE = ("prob_bps", "odds_milli", "suspended", "in_running")


class Changes(NamedTuple):
    rows: pl.DataFrame
    dropped: int


def changes(rows: pl.DataFrame, kickoffs: Mapping[str, int | None]) -> Changes:
    """Drop each message that equals the one before, if its market keeps a message less than a minute older.

    The last message before a market ends, is suspended, opens or turns in play, before its event first turns in play, and
    before the kickoff is always kept, so the closing message stays the same.

    Parameters
    ----------
    rows
        Ticks with ``event``, in any order; whole events, and every message with all sides of its market.
    kickoffs
        UTC milliseconds by event; ``None`` if unknown.
    """
    messages = _messages(rows)
    events = messages.group_by("event").agg(play_ms=pl.col("ts_ms").filter("in_running").min())
    kickoff = pl.col("event").replace_strict(dict(kickoffs), default=None, return_dtype=pl.Int64)
    joined = messages.join(events.with_columns(kickoff_ms=kickoff), on="event", maintain_order="left")
    age = pl.col("ts_ms") - pl.col("ts_ms").first().over("run")
    head = pl.struct("run", age // _EVERY_MS).is_first_distinct()
    following = pl.col("suspended", "in_running").shift(-1).over(*_MARKET)
    turns = pl.any_horizontal(following.ne_missing(pl.col("suspended", "in_running")))  # null follows the last message
    next_ms = pl.col("ts_ms").shift(-1).over(*_MARKET)
    ends = pl.any_horizontal(
        ((pl.col("ts_ms") < end) & (next_ms >= end)) | ((pl.col("ts_ms") <= end) & (next_ms > end))
        for end in map(pl.col, ("play_ms", "kickoff_ms"))
    ).fill_null(value=False)  # one of its own time may be numbered before the end or after it
    kept = joined.filter(head | turns | ends)
    return Changes(rows.join(kept, on=[*_MARKET, "ts_ms"], how="semi", maintain_order="left"), joined.height - kept.height)


def _messages(rows: pl.DataFrame) -> pl.DataFrame:
    """Return one row per message in market order, with the number of its run of equal messages."""
    ordered = rows.sort(*_MARKET, "side", "ts_ms")
    same = pl.all_horizontal(pl.col(*_MARKET, "side", *_STATE).eq_missing(pl.col(*_MARKET, "side", *_STATE).shift()))
    return (
        ordered.with_columns(new=~same)
        .group_by(*_MARKET, "ts_ms", maintain_order=True)
        .agg(pl.any("new"), pl.first("suspended", "in_running"))
        .with_columns(run=pl.col("new").cum_sum())
    )


NORMALISER = "betfair/2"
_SETTLED = {"WINNER": Payout.WON, "PLACED": Payout.WON, "LOSER": Payout.LOST, "REMOVED": Payout.VOID}
_LONG = {name: dtype for name, dtype in TICKS.items() if name not in ("fixture_id", "tick_seq")} | {"event": pl.String}


@dataclass(frozen=True, slots=True)
class _FileMarket:
    """Facts of a market that remain once its ticks are on disk."""

    file: str
    event: str
    kind: str
    times: Times
    settled: tuple[tuple[str, str, str, str | None], ...]  # parameters, side, result, runner
    grew: bool


def normalise(files: Mapping[str, Path], options: Options, scratch: Path) -> SourceData:
    """Read markets file by file, and write them fixture by fixture; the kickoff is the actual off."""
    account = ImportStats(options.lenient)
    spill, depth = QuoteSpill(scratch), QuoteSpill(scratch / "ladders")
    (scratch / "ladders").mkdir()
    known: dict[str, _FileMarket] = {}
    for file in market_files(files, options, account):
        try:
            for _ in file.read(options.chunk_rows):
                _spill_states(file, known, spill, account)
                _spill_ladders(file, known, depth, options.chunk_rows)
            _spill_ladders(file, known, depth)
        except SourceError as error:
            spill.drop()
            depth.drop()
            account.refuse_file(file.name, error)
        else:
            spill.keep()
            depth.keep()
            _learn(file, known, account)
    ids = fixture_ids_of(market.event for market in known.values())
    kinds = Counter((market.event, market.kind) for market in known.values())
    keys = {
        market_id: key_of(market.kind, market_id, alone=kinds[market.event, market.kind] == 1)
        for market_id, market in known.items()
    }
    results = [
        (ids[market.event], with_parameters(keys[market_id], parameters), side, result, detail)
        for market_id, market in known.items()
        for parameters, side, result, detail in market.settled
    ]
    fixtures = tuple(_fixtures(known, ids, account))
    markets = _Markets(
        ids,
        keys,
        {market_id for market_id, market in known.items() if market.grew},
        {str(one.source_id): one.kickoff_ts_ms for one in fixtures},
    )
    return SourceData(
        parts=_parts(spill, depth, markets, options, account),
        fixtures=fixtures,
        account=account,
        provenance="imported-betfair",
        normaliser=NORMALISER,
        margin=MARGIN,
        consensus=CONSENSUS,
        closing_source="venue",
        closing_policy=ClosingPolicy.LAST_OPEN,
        kickoff=KickoffKind.ACTUAL,
        results=pl.DataFrame(results, schema=RESULTS, orient="row") if results else None,
    )


def _spill_states(file: MarketFile, known: Mapping[str, _FileMarket], spill: QuoteSpill, account: ImportStats) -> None:
    for book in file.books.values():
        states = book.take()
        if states.ts_ms and is_readable(book) and book.market_id not in known:
            spill.add(_ticks(book, states, account), sure=False)


def _spill_ladders(file: MarketFile, known: Mapping[str, _FileMarket], spill: QuoteSpill, least: int | None = None) -> None:
    """Keep the ladders of a file that has ended, or of which at least this many levels are held."""
    left_out = [book.market_id for book in file.books.values() if not is_readable(book) or book.market_id in known]
    of_others = pl.col("market_key").str.extract("^([^|]*)").is_in(left_out)
    for log in file.ladders or ():
        if least is not None and log.size * LEVEL_COUNT < least:
            continue
        rows = log.take(is_ended=least is None)
        if rows.height:
            rows = rows.rename({"fixture_id": "event"})
            spill.add(rows.filter(~of_others) if left_out else rows, sure=False)


def _learn(file: MarketFile, known: dict[str, _FileMarket], account: ImportStats) -> None:
    for book in file.books.values():
        if book.market_id in known:
            first = known[book.market_id].file
            account.refuse(file.name, 1, f"market {book.market_id} was read from {first}", "a market is in two files")
        elif not is_readable(book):
            kind = book.first["bettingType"]
            account.refuse(file.name, 1, f"bettingType {kind!r} is not read", "a betting type is not read")
        else:
            known[book.market_id] = _market(file.name, book)
            account.note("markets with a runner removed", int(book.removed))


def _market(name: str, book: MarketBook) -> _FileMarket:
    definition = book.definition
    settled: list[tuple[str, str, str, str | None]] = []
    for key, runner in book.runners.items():
        result = _SETTLED.get(runner.status)
        if result is None or definition["status"] != "CLOSED":
            continue
        opposite = {Payout.WON: Payout.LOST, Payout.LOST: Payout.WON}.get(result, Payout.VOID)
        sides = (
            [(f"selection={key}", "yes", result), (f"selection={key}", "no", opposite)]
            if by_runner(book)
            else [("", key, result)]
        )
        settled += [(parameters, side, of.value, runner.name) for parameters, side, of in sides]
    return _FileMarket(
        file=name,
        event=event_of(book.first),
        kind=kind_of(book),
        times=times_of(book),
        settled=tuple(settled),
        grew=book.grew and not by_runner(book),
    )


def _ticks(book: MarketBook, states: States, account: ImportStats) -> pl.DataFrame:
    """Return the ticks of one market without number; ``market_key`` holds its id and the parameters of its key."""
    columns, lacking, totals = side_prices(book, states)
    account.note("open books that lack a runner's price are suspended", lacking)
    _count_overround(totals, account)
    shared = {
        "ts_ms": pl.Series(np.frombuffer(states.ts_ms, np.int64)),
        "in_running": pl.Series(np.frombuffer(states.in_play, np.bool_)),
    }
    frames = [
        pl.DataFrame(shared | {"prob_bps": bps, "odds_milli": odds, "suspended": suspended}).with_columns(
            market_key=pl.lit(_market_key(book, parameters)), side=pl.lit(side)
        )
        for parameters, side, bps, odds, suspended in columns
    ]
    price = pl.col("prob_bps", "odds_milli")
    return (
        pl.concat(frames)
        .with_columns(pl.when(price >= 0).then(price).cast(pl.Int32), event=pl.lit(event_of(book.first)))
        .select(*_LONG)
    )


def _market_key(book: MarketBook, parameters: str) -> str:
    """Return the key of a market while files are read: its id and the parameters of its key."""
    return f"{book.market_id}|{parameters}" if parameters else book.market_id


def _count_overround(totals: Column, account: ImportStats) -> None:
    tens, times = np.unique(np.rint((totals / PROB_UNIT - 1.0) * 1000).astype(np.int64) * 10, return_counts=True)
    account.overround_bps.update(dict(zip(tens.tolist(), times.tolist(), strict=True)))


def _fixtures(known: Mapping[str, _FileMarket], ids: Mapping[str, int], account: ImportStats) -> Iterator[Fixture]:
    of: dict[str, list[Times]] = {}
    for market in known.values():
        of.setdefault(market.event, []).append(market.times)
    for event in sorted(of, key=lambda event: ids[event]):
        if not has_off(of[event]):
            account.note(NO_OFF)
        yield fixture_of(event, ids[event], of[event])


@dataclass(frozen=True, slots=True)
class _Markets:
    """Facts of all files: fixtures and kickoffs by event, keys by market, and markets that gained a runner."""

    ids: Mapping[str, int]
    keys: Mapping[str, str]
    grown: Set[str]
    kickoffs: Mapping[str, int | None]


def _parts(
    spill: QuoteSpill, depth: QuoteSpill, markets: _Markets, options: Options, account: ImportStats
) -> Iterator[SourcePart]:
    for batch in batches(spill.rows_of, markets.ids, options.chunk_rows):
        left, dropped = changes(_with_missing_runners(spill.rows(batch), markets.grown), markets.kickoffs)
        account.note("messages that change nothing within a minute were dropped", dropped)
        ticks = number_messages(_with_names(left, markets).with_columns(tick_seq=pl.lit(0, pl.Int32)).select(*TICKS))
        yield SourcePart(ticks, ladders=_ladders(depth, batch, markets) if options.ladders else None)


def _ladders(depth: QuoteSpill, batch: Sequence[str], markets: _Markets) -> pl.DataFrame:
    if depth.rows_of.keys().isdisjoint(batch):
        return pl.DataFrame(schema=LADDERS)
    return _with_names(depth.rows(batch), markets).select(*LADDERS)


def _with_names(rows: pl.DataFrame, markets: _Markets) -> pl.DataFrame:
    """Return rows with fixtures and market keys in place of events and market ids."""
    found = rows["market_key"].unique().to_list()
    named = [with_parameters(markets.keys[key.partition("|")[0]], key.partition("|")[2]) for key in found]
    return rows.with_columns(
        fixture_id=pl.col("event").replace_strict(dict(markets.ids), return_dtype=pl.Int64),
        market_key=pl.col("market_key").replace_strict(found, named, return_dtype=pl.String),
    )


def _with_missing_runners(rows: pl.DataFrame, grown: Set[str]) -> pl.DataFrame:
    """Add an unpriced row to messages that were written before a runner joined."""
    short = rows.filter(pl.col("market_key").is_in(list(grown)))
    if short.is_empty():
        return rows
    message = ["market_key", "ts_ms", "in_running", "suspended", "event"]
    whole = short.select(message).unique().join(short.select("market_key", "side").unique(), on="market_key")
    lacking = whole.join(short, on=["market_key", "ts_ms", "side"], how="anti")
    return pl.concat([rows, lacking.with_columns(prob_bps=None, odds_milli=None).cast(rows.schema).select(rows.columns)])
