"""Sources of an audited log: a database, or a service over HTTP that may be slow, broken or hostile."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import Any, Protocol
from urllib.parse import urlsplit

import orjson

from clvlab.arena.log.operations import open_log
from clvlab.errors import LogError
from clvlab.law.schema import SAFE_INTEGER
from clvlab.log.log import LogRows, RunCounts, counts
from clvlab.log.tree import tree_root

PAGE = 1000
_MAX_BODY = 16 * 2**20  # larger than a page of the longest names with each character escaped twice


@dataclass(frozen=True, slots=True)
class SourceLimits:
    """Limits of reading a log.

    ``entries`` is the maximal number of entries, ``request_s`` the maximal seconds for one answer of a service, and ``total_s``
    the maximal seconds for all answers.
    """

    entries: int = 10_000_000
    request_s: float = 30
    total_s: float = 3600


@dataclass(frozen=True, slots=True)
class Head:
    """The keeper's statement about a log: size, root and counts at one time, and a checkpoint if it is signed.

    A damaged log has no ``root``, and ``fault`` states the reason.
    """

    size: int
    root: bytes | None
    owners: Mapping[str, RunCounts]
    fault: str = ""
    origin: str | None = None
    note: str | None = None
    restarts: Sequence[tuple[int, bytes]] = ()


class LogSource(Protocol):
    def head(self) -> Head: ...

    def page(self, since: int, limit: int) -> list[tuple[int, bytes]]:
        """Return entries with their indices, unchecked."""
        ...


class EntryMissingError(LogError):
    """A log does not return an entry that it must have, at ``index``."""

    def __init__(self, index: int, text: str) -> None:
        super().__init__(text)
        self.index = index


def entries_of(source: LogSource, size: int, limits: SourceLimits) -> Iterator[bytes]:
    """Yield the entries of a log from its first one on, up to a size.

    Raises
    ------
    EntryMissingError
        An entry is missing or has another index.
    LogError
        The limits are exceeded, or entries can't be read.
    """
    if size > limits.entries:
        raise LogError(f"the log has {size:,} entries to be read, more than the {limits.entries:,} that are to be read")
    for since in range(0, size, PAGE):
        limit = min(PAGE, size - since)
        entries = source.page(since, limit)
        for expected, (index, entry) in enumerate(entries[:limit], since):
            if index != expected or type(index) is not int:
                detail = f"where entry {expected} of {size} must be, the log has entry {str(index)[:20]!a}"
                raise EntryMissingError(expected, detail)
            yield entry
        if len(entries) != limit:
            where = f"entry {since + len(entries)} of {size} is missing" if len(entries) < limit else "there are too many"
            detail = f"of {limit} entries from {since} on the log gives {len(entries)}: {where}"
            raise EntryMissingError(since + min(len(entries), limit), detail)


@contextmanager
def opened_source(place: str, limits: SourceLimits) -> Iterator[LogSource]:
    """Open a log for reading: a file of SQLite, the URL of a database, or the http(s) URL of a service."""
    if place.startswith(("http://", "https://")):
        yield _Service(place, limits)
        return
    with open_log(place) as log, log.read() as rows:
        yield _StoreSource(rows)


@dataclass(frozen=True, slots=True)
class _StoreSource:
    rows: LogRows

    def head(self) -> Head:
        size, owners = self.rows.size(), counts(self.rows)
        try:
            return Head(size, tree_root(self.rows, size), owners, restarts=self.rows.restarts())
        except LogError as error:
            return Head(size, None, owners, str(error), restarts=self.rows.restarts())

    def page(self, since: int, limit: int) -> list[tuple[int, bytes]]:
        return self.rows.page(since, limit)


class _Service:
    """A log of a service; its answers are limited in bytes and time, and redirections are not followed."""

    def __init__(self, url: str, limits: SourceLimits) -> None:
        self._limits, self._url = limits, url.rstrip("/")
        self._deadline = time.monotonic() + limits.total_s

    def head(self) -> Head:
        state = self._json("/log")
        note = self._get("/log/checkpoint", may_lack=True)
        try:
            size, root, origin = state["size"], bytes.fromhex(state["root_hash"].removeprefix("sha256:")), state["origin"]
            owners = {str(one["owner"]): _runs(one) for one in state["owners"]}
            restarts = [(one["index"], one["entry"].encode()) for one in state.get("restarts", [])]
            text = None if note is None else note.decode()
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise LogError(f"{self._url}/log is not the state of a log: {error!r}") from error
        if type(size) is not int or not 0 <= size <= SAFE_INTEGER or not isinstance(origin, str | None):
            raise LogError(f"{self._url}/log is not the state of a log: size {size!a}, origin {origin!a}")
        if any(type(index) is not int or index < 0 for index, _ in restarts):
            raise LogError(f"{self._url}/log lists restarts at no entries")
        return Head(size, root, owners, origin=origin, note=text, restarts=restarts)

    def page(self, since: int, limit: int) -> list[tuple[int, bytes]]:
        path = f"/log/entries?since={since}&limit={limit}"
        try:
            return [(one["index"], one["entry"].encode()) for one in self._json(path)["entries"]]
        except (KeyError, TypeError, AttributeError) as error:
            raise LogError(f"{self._url}{path} is not a page of entries: {error!r}") from error

    def _json(self, path: str) -> Any:
        try:
            return orjson.loads(self._get(path) or b"")
        except orjson.JSONDecodeError as error:
            raise LogError(f"{self._url}{path} is not JSON: {error}") from error

    def _get(self, path: str, *, may_lack: bool = False) -> bytes | None:
        seconds = min(self._limits.request_s, self._deadline - time.monotonic())
        if seconds <= 0:
            raise LogError(f"{self._url} was not read whole within {self._limits.total_s:g} s")
        try:
            status, body = answer(self._url + path, seconds)
        except (OSError, HTTPException, ValueError) as error:
            raise LogError(f"{self._url}{path} gives no answer: {type(error).__name__} {error}") from error
        if may_lack and status == 404:
            return None
        if status != 200:
            raise LogError(f"{self._url}{path} answers {status}, not 200")
        if len(body) > _MAX_BODY:
            raise LogError(f"{self._url}{path} sends more than {_MAX_BODY:,} bytes")
        return body


def answer(url: str, seconds: float) -> tuple[int, bytes]:
    """Return status and body of a URL; an oversized body is read only up to the limit.

    A timer limits the whole answer, because socket time-outs start again with every byte.
    """
    parts = urlsplit(url)
    host, secure = parts.hostname or "", parts.scheme == "https"
    if not host:  # a socket would take an empty host for this machine
        raise ValueError("the URL names no host")
    connection = HTTPConnection(host, parts.port or (443 if secure else 80), timeout=seconds)
    started = time.monotonic()
    with socket.create_connection((connection.host, connection.port), seconds) as plain, plain.dup() as watched:
        timer = threading.Timer(seconds - (time.monotonic() - started), _end, [watched])
        timer.start()
        try:
            connection.sock = ssl.create_default_context().wrap_socket(plain, server_hostname=host) if secure else plain
            connection.request("GET", f"{parts.path}?{parts.query}" if parts.query else parts.path)
            response = connection.getresponse()
            body = response.read(_MAX_BODY + 1)
        finally:
            timer.cancel()
            connection.close()
            if time.monotonic() - started >= seconds:
                raise TimeoutError(f"not within {seconds:g} s")
        return response.status, body


def _end(connected: socket.socket) -> None:
    try:
        connected.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the connection has already ended


def _runs(row: Mapping[str, Any]) -> RunCounts:
    numbers = [row[name] for name in ("committed", "sealed", "abandoned")]
    if any(type(number) is not int for number in numbers):
        raise TypeError(f"counts must be integers: {numbers}")
    return RunCounts(*numbers)
