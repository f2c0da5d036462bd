"""Files of the Betfair stream: single markets or whole events, plain, packed, or many of them in a tar."""

from __future__ import annotations

import bz2
import gzip
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BufferedIOBase
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import orjson

from clvlab.base.times import LAST_MS, of_iso
from clvlab.errors import SourceError
from clvlab.law.markets import compose_key
from clvlab.odds.consensus import PROB_UNIT, basis_points
from clvlab.packs.files import lines_in, lines_of
from clvlab.packs.importers.betfair_book import Column, MarketBook, MarketDefinition, States, StreamMessage
from clvlab.packs.importers.jumps import timed
from clvlab.packs.importers.source import ImportStats, Options, files_below, reason_of
from clvlab.packs.manifest import Fixture
from clvlab.words import counted

_ENDINGS = (".bz2", ".gz", ".tar")
JUMPED = "messages whose time jumps ahead, borne out by nothing after them, are of the last sound time"
PLAIN = re.compile(r"\d+\.\d+")


def find(paths: Sequence[Path]) -> dict[str, Path]:
    """Return files as named, and of a folder ``*.bz2``, ``*.gz``, ``*.tar`` and files named like a market."""
    return files_below(paths, _ENDINGS, PLAIN)


def market_files(files: Mapping[str, Path], options: Options, account: ImportStats) -> Iterator[MarketFile]:
    """Return files one after the other, those in a tar too; each has to be read before the next one is asked for."""
    for n, (name, path) in enumerate(sorted(files.items()), 1):
        if path.suffix == ".tar":
            yield from _tarred(name, path, options, account)
        else:
            yield MarketFile(name, lines_of(path), account)
        options.progress(f"{n:,} of {counted(len(files), 'file')} read")


def _tarred(name: str, path: Path, options: Options, account: ImportStats) -> Iterator[MarketFile]:
    try:
        with tarfile.open(path, "r|") as tar:
            for member in tar:
                if not member.isfile():
                    if not member.isdir():
                        account.refuse(name, 1, f"{member.name!r} is no plain file", "a tar member is no plain file")
                    continue
                where = f"{name}:{member.name}"
                inner = tar.extractfile(member)
                if inner is not None:
                    yield MarketFile(where, lines_in(_unpacked(inner, member.name), where, member.size), account)
                options.progress(f"{where} read")
    except (tarfile.TarError, OSError, EOFError) as error:
        account.refuse(name, 1, f"can't be read to its end: {error}", "a file can't be read to its end")


def _unpacked(inner: IO[bytes], name: str) -> BufferedIOBase:
    if name.endswith(".bz2"):
        return bz2.BZ2File(inner)
    return gzip.GzipFile(fileobj=inner) if name.endswith(".gz") else cast("BufferedIOBase", inner)


@dataclass(slots=True)
class MarketFile:
    """A file of one market or more, as it is read.

    Attributes
    ----------
    name
        Of the file, and of the member of a tar.
    books
        The markets in it that were read so far.
    """

    name: str
    lines: Iterator[tuple[int, bytes]]
    account: ImportStats
    books: dict[str, MarketBook] = field(default_factory=dict)
    _sport: str = ""
    _last_ms: int = 0
    _held: int = 0

    def read(self, max_held: int) -> Iterator[None]:
        """Read on, and come back at the end and whenever the books hold so many prices, for their states to be taken.

        Raises
        ------
        SourceError
            The file can't be read to its end: what was taken of it lacks its close.
        """
        try:
            for (number, message), ts_ms in timed(self._messages()):
                try:
                    if isinstance(message, ValueError):
                        raise message
                    if self._held >= max_held and ts_ms != self._last_ms:  # states of one time are one
                        self._held = 0
                        yield
                    self._apply(message, ts_ms)
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    self.account.refuse(self.name, number, reason_of(error), "a message can't be read")
        except tarfile.TarError as error:
            raise SourceError(f"{self.name}: can't be read to its end: {error}") from error
        if not self.books:
            self.account.refuse(self.name, 1, "holds no market", "a file holds no market")
        yield

    def _messages(self) -> Iterator[tuple[tuple[int, Any], int | None]]:
        """Return messages with the numbers of their lines, or why one is none, and with their times if they say any."""
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
        self.account.note(JUMPED, int(ts_ms != message["pt"]))
        if not self._last_ms <= ts_ms <= LAST_MS:
            raise ValueError(f"pt {ts_ms} is before the message above, {self._last_ms}, or no time")
        for change in message.get("mc", ()):
            self.account.messages += 1
            market_id = change["id"]
            if not isinstance(market_id, str) or not (market_id in self.books or PLAIN.fullmatch(market_id)):
                raise ValueError(f"{market_id!r} is no market id")
            if "marketDefinition" in change:
                self._check_sport(change["marketDefinition"].get("eventTypeId", self._sport))
            book = self.books.get(market_id) or MarketBook(market_id)
            book.apply(change, ts_ms)
            self.books[market_id] = book
            self._held += len(book.runners)
        self._last_ms = ts_ms

    def _check_sport(self, sport: Any) -> None:
        self._sport = self._sport or sport
        if sport != self._sport:
            raise ValueError(f"event type {sport!r} in a file of {self._sport!r}: import one sport at a time")


# What a market of Betfair's stream is in a pack: its fixture, its key, its sides, and what they cost at each time.


MARGIN = "multiplicative"
CONSENSUS = "mid of best back and lay, or last traded; price is the best back"
NO_OFF = "fixtures whose off is not in the files close at the planned time"
_RACING = {"7", "4339"}  # an event is a meeting there, and a race one of its start times


def event_of(definition: MarketDefinition) -> str:
    """Return the event that a market belongs to, by the first definition of it."""
    event, racing = str(definition["eventId"]), str(definition["eventTypeId"]) in _RACING
    return f"{event}@{definition['marketTime']}" if racing else event


def is_readable(book: MarketBook) -> bool:
    """Return whether the prices of a market are odds."""
    return book.first.get("bettingType") in (None, "ODDS")


def by_runner(book: MarketBook) -> bool:
    """Return whether each runner is a market of its own."""
    return int(book.first.get("numberOfWinners", 1)) != 1


def kind_of(book: MarketBook) -> str:
    """Return the type of a market, which its key begins with."""
    return str(book.definition.get("marketType") or "UNKNOWN")


def key_of(kind: str, market_id: str, *, alone: bool) -> str:
    """Return the key of a market; its id is part of it unless it is alone of its kind in its event."""
    return compose_key(kind, market=None if alone else market_id)


def with_parameters(key: str, parameters: str) -> str:
    """Return a market's key with what comes after it."""
    return key + ("|" if parameters and not key.endswith("||") else "") + parameters


@dataclass(frozen=True, slots=True)
class Times:
    """When a market was first seen, planned as first announced, went in play, and was suspended for the last time."""

    market_id: str
    name: str | None
    first_ms: int
    planned_ms: int
    off_ms: int | None
    suspended_ms: int | None


def times_of(book: MarketBook) -> Times:
    """Return the times of a market so far."""
    return Times(
        market_id=book.market_id,
        name=book.definition.get("eventName"),
        first_ms=book.first_ms,
        planned_ms=of_iso(book.first["marketTime"]),
        off_ms=book.off_ms,
        suspended_ms=book.suspended_ms,
    )


def has_off(markets: Sequence[Times]) -> bool:
    """Return whether it is known when an event began."""
    return any(market.off_ms is not None or market.suspended_ms is not None for market in markets)


def fixture_of(event: str, fixture_id: int, markets: Sequence[Times]) -> Fixture:
    """Return the fixture of an event's markets: it begins at the first off, else at the last suspension, else as planned."""
    offs = [market.off_ms for market in markets if market.off_ms is not None]
    ends = [market.suspended_ms for market in markets if market.suspended_ms is not None]
    name = next((market.name for market in markets if market.name), None)
    return Fixture(
        fixture_id=fixture_id,
        names=(name,) if name else (),
        source_id=event,
        kickoff_ts_ms=min(offs) if offs else max(ends, default=max(market.planned_ms for market in markets)),
        scheduled_ts_ms=min(markets, key=lambda market: (market.first_ms, market.market_id)).planned_ms,
    )


class SideColumn(NamedTuple):
    """One side at each time; ``parameters`` come after the market's key, and prices of -1 stand for no price."""

    parameters: str
    side: str
    prob_bps: Column
    odds_milli: Column
    suspended: npt.NDArray[np.bool_]


class Priced(NamedTuple):
    """The sides of a market in byte order, how many open states lacked a price, and what the others summed to in PROB_UNIT."""

    columns: list[SideColumn]
    lacking: int
    totals: Column


def priced(book: MarketBook, states: States, sides: Sequence[str] | None = None) -> Priced:
    """Return what the sides of a market cost in its states, of which there is one at least.

    Parameters
    ----------
    book
        The market.
    states
        Those that it went through.
    sides
        The runners to price, in byte order; all of them if null. A state in which another one runs is suspended.
    """
    sides = sorted(book.runners, key=str.encode) if sides is None else sides
    order = [book.runners[side].number for side in sides]
    prob, odds, no_odds = (matrix[:, order] for matrix in states.matrices())
    open_ = np.frombuffer(states.open, np.bool_)
    all_running = np.frombuffer(states.active, np.bool_).reshape(len(open_), -1)
    running = all_running[:, order]
    if by_runner(book):
        return _runner_markets(sides, prob, (no_odds, odds), running & open_[:, None])
    others = all_running.sum(axis=1) > running.sum(axis=1)
    is_priced = open_ & ((prob > 0) | ~running).all(axis=1) & (running.sum(axis=1) > 1) & ~others
    raw = np.where(running, prob, 0)
    bps = np.full(prob.shape, -1, dtype=np.int64)
    bps[is_priced] = np.where(running[is_priced], basis_points(raw[is_priced]), -1)
    odds = np.where(is_priced[:, None] & running, odds, -1)
    columns = [SideColumn("", side, bps[:, n], odds[:, n], ~is_priced) for n, side in enumerate(sides)]
    return Priced(columns, int((open_ & ~is_priced).sum()), raw[is_priced].sum(axis=1))


def _runner_markets(sides: Sequence[str], prob: Column, odds: tuple[Column, Column], running: npt.NDArray[np.bool_]) -> Priced:
    columns = []
    for n, side in enumerate(sides):
        is_priced = running[:, n] & (prob[:, n] > 0)
        both = np.stack([PROB_UNIT - prob[:, n], prob[:, n]], axis=1)
        bps = np.full(both.shape, -1, dtype=np.int64)
        bps[is_priced] = basis_points(both[is_priced])
        columns += [
            SideColumn(f"selection={side}", name, bps[:, k], np.where(is_priced, odds[k][:, n], -1), ~is_priced)
            for k, name in enumerate(("no", "yes"))
        ]
    return Priced(columns, 0, np.zeros(0, dtype=np.int64))
