"""Files of the Betfair stream: single markets or whole events, plain, packed, or many of them in a tar."""

from __future__ import annotations

import bz2
import gzip
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

import orjson

from clvlab.errors import SourceError
from clvlab.packs.files import lines_in, lines_of
from clvlab.packs.importers.betfair_book import MarketBook
from clvlab.packs.importers.source import Account, Options, files_below
from clvlab.packs.importers.times import LAST_MS

__all__ = ["find", "markets"]

_ENDINGS = (".bz2", ".gz", ".tar")
_PLAIN = re.compile(r"\d+\.\d+")


def find(paths: Sequence[Path]) -> dict[str, Path]:
    """Give files as named, and of a folder ``*.bz2``, ``*.gz``, ``*.tar`` and files named like a market."""
    return files_below(paths, _ENDINGS, _PLAIN)


def markets(files: Mapping[str, Path], options: Options, account: Account) -> Iterator[tuple[str, MarketBook]]:
    """Give every market with the file it came from, when its file was read to the end."""
    for n, (name, path) in enumerate(sorted(files.items()), 1):
        if path.suffix == ".tar":
            yield from _tarred(name, path, options, account)
        else:
            yield from _of_lines(name, lines_of(path), account)
        options.progress(f"{n:,} of {len(files):,} files read")


def _tarred(name: str, path: Path, options: Options, account: Account) -> Iterator[tuple[str, MarketBook]]:
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
                    lines = lines_in(_unpacked(inner, member.name), where, member.size)
                    yield from _of_lines(where, lines, account)
                options.progress(f"{where} read")
    except (tarfile.TarError, OSError, EOFError) as error:
        account.refuse(name, 1, f"can't be read to its end: {error}", "a file can't be read to its end")


def _unpacked(inner: IO[bytes], name: str) -> IO[bytes]:
    if name.endswith(".bz2"):
        return bz2.BZ2File(inner)
    return cast("IO[bytes]", gzip.GzipFile(fileobj=inner)) if name.endswith(".gz") else inner


@dataclass(slots=True)
class _Reading:
    """What was read of a file so far."""

    books: dict[str, MarketBook] = field(default_factory=dict)
    sport: str = ""
    last_ms: int = 0


def _of_lines(name: str, lines: Iterator[tuple[int, bytes]], account: Account) -> Iterator[tuple[str, MarketBook]]:
    """Read one file. One that can't be read to its end gives nothing: its markets would lack their close."""
    reading = _Reading()
    try:
        for number, line in lines:
            try:
                _read(reading, orjson.loads(line), account)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                said = f"{type(error).__name__}: {error}" if isinstance(error, KeyError) else str(error)
                account.refuse(name, number, said, "a message can't be read")
    except SourceError as error:
        account.refuse_file(name, error)
        return
    if not reading.books:
        account.refuse(name, 1, "holds no market", "a file holds no market")
    for book in reading.books.values():
        yield name, book


def _read(reading: _Reading, message: Any, account: Account) -> None:
    if message.get("op") != "mcm" or type(message.get("pt")) is not int:
        raise ValueError(f"no market change message: {str(message)[:80]}")
    ts_ms = message["pt"]
    if not reading.last_ms <= ts_ms <= LAST_MS:
        raise ValueError(f"pt {ts_ms} is before the message above, {reading.last_ms}, or no time")
    for change in message.get("mc", ()):
        account.messages += 1
        if not isinstance(change["id"], str) or not _PLAIN.fullmatch(change["id"]):
            raise ValueError(f"{change['id']!r} is no market id")
        sport = change.get("marketDefinition", {}).get("eventTypeId", reading.sport)
        reading.sport = reading.sport or sport
        if sport != reading.sport:
            raise ValueError(f"event type {sport!r} in a file of {reading.sport!r}: import one sport at a time")
        book = reading.books.get(change["id"]) or MarketBook(change["id"])
        book.apply(change, ts_ms)
        reading.books[change["id"]] = book
    reading.last_ms = ts_ms
