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
from typing import IO, Any, cast

import orjson

from clvlab.errors import SourceError
from clvlab.packs.files import lines_in, lines_of
from clvlab.packs.importers.betfair_book import MarketBook
from clvlab.packs.importers.jumps import timed
from clvlab.packs.importers.source import Account, Options, files_below
from clvlab.times import LAST_MS

_ENDINGS = (".bz2", ".gz", ".tar")
JUMPED = "messages whose time jumps ahead, borne out by nothing after them, are of the last sound time"
PLAIN = re.compile(r"\d+\.\d+")


def find(paths: Sequence[Path]) -> dict[str, Path]:
    """Return files as named, and of a folder ``*.bz2``, ``*.gz``, ``*.tar`` and files named like a market."""
    return files_below(paths, _ENDINGS, PLAIN)


def market_files(files: Mapping[str, Path], options: Options, account: Account) -> Iterator[MarketFile]:
    """Return files one after the other, those in a tar too; each has to be read before the next one is asked for."""
    for n, (name, path) in enumerate(sorted(files.items()), 1):
        if path.suffix == ".tar":
            yield from _tarred(name, path, options, account)
        else:
            yield MarketFile(name, lines_of(path), account)
        options.progress(f"{n:,} of {len(files):,} files read")


def _tarred(name: str, path: Path, options: Options, account: Account) -> Iterator[MarketFile]:
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
    account: Account
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
                    said = f"{type(error).__name__}: {error}" if isinstance(error, KeyError) else str(error)
                    self.account.refuse(self.name, number, said, "a message can't be read")
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

    def _apply(self, message: Any, ts_ms: int | None) -> None:
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
