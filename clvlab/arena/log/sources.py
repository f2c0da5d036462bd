"""Sources of an audited log: a database, or over HTTP a service or a host of tiles, which may be slow, broken or hostile."""

from __future__ import annotations

import socket
import ssl
import threading
import time
import zlib
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
from clvlab.log.note import checkpoint, open_note
from clvlab.log.tiles import WIDTH, Tile, TileCheck, entries_in
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

    A damaged log has no ``root``, and ``fault`` states the reason. A host of tiles states no counts: ``owners`` is ``None``.
    """

    size: int
    root: bytes | None
    owners: Mapping[str, RunCounts] | None
    fault: str = ""
    origin: str | None = None
    note: str | None = None
    restarts: Sequence[tuple[int, bytes]] = ()


class LogSource(Protocol):
    @property
    def faults(self) -> Sequence[tuple[int, str]]:
        """Contradictions within the source that its entries do not show: number of the entry, and a sentence."""
        ...

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
    """Open a log for reading: a file of SQLite, the URL of a database, or the http(s) URL of a service or of tiles."""
    if place.startswith(("http://", "https://")):
        host = WebHost(place, limits)
        state = host.get("/log", may_lack=True)
        yield TilesSource(host) if state is None else _Service(host, state)
        return
    with open_log(place) as log, log.read() as rows:
        yield _StoreSource(rows)


@dataclass(frozen=True, slots=True)
class _StoreSource:
    rows: LogRows
    faults: Sequence[tuple[int, str]] = ()

    def head(self) -> Head:
        size, owners = self.rows.size(), counts(self.rows)
        try:
            return Head(size, tree_root(self.rows, size), owners, restarts=self.rows.restarts())
        except LogError as error:
            return Head(size, None, owners, str(error), restarts=self.rows.restarts())

    def page(self, since: int, limit: int) -> list[tuple[int, bytes]]:
        return self.rows.page(since, limit)


class WebHost:
    """A server whose answers are limited in bytes and time; redirections are not followed."""

    def __init__(self, url: str, limits: SourceLimits) -> None:
        self._limits, self.url = limits, url.rstrip("/")
        self._deadline = time.monotonic() + limits.total_s

    def get(self, path: str, *, may_lack: bool = False) -> bytes | None:
        seconds = min(self._limits.request_s, self._deadline - time.monotonic())
        if seconds <= 0:
            raise LogError(f"{self.url} was not read whole within {self._limits.total_s:g} s")
        try:
            found = answer(self.url + path, seconds)
        except (OSError, HTTPException, ValueError) as error:
            raise LogError(f"{self.url}{path} gives no answer: {type(error).__name__} {error}") from error
        if may_lack and found.status == 404:
            return None
        if found.status != 200:
            raise LogError(f"{self.url}{path} answers {found.status}, not 200")
        if len(found.body) > _MAX_BODY:
            raise LogError(f"{self.url}{path} sends more than {_MAX_BODY:,} bytes")
        return found.body

    def json(self, path: str, body: bytes | None) -> Any:
        try:
            return orjson.loads(body or b"")
        except orjson.JSONDecodeError as error:
            raise LogError(f"{self.url}{path} is not JSON: {error}") from error


@dataclass(frozen=True, slots=True)
class _Service:
    host: WebHost
    state: bytes
    faults: Sequence[tuple[int, str]] = ()

    def head(self) -> Head:
        state = self.host.json("/log", self.state)
        note = self.host.get("/log/checkpoint", may_lack=True)
        try:
            size, root, origin = state["size"], bytes.fromhex(state["root_hash"].removeprefix("sha256:")), state["origin"]
            owners = {str(one["owner"]): _runs(one) for one in state["owners"]}
            restarts = _restarts(state.get("restarts", []))
            text = None if note is None else note.decode()
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise LogError(f"{self.host.url}/log is not the state of a log: {error!r}") from error
        if type(size) is not int or not 0 <= size <= SAFE_INTEGER or not isinstance(origin, str | None):
            raise LogError(f"{self.host.url}/log is not the state of a log: size {size!a}, origin {origin!a}")
        return Head(size, root, owners, origin=origin, note=text, restarts=restarts)

    def page(self, since: int, limit: int) -> list[tuple[int, bytes]]:
        path = f"/log/entries?since={since}&limit={limit}"
        try:
            return [(one["index"], one["entry"].encode()) for one in self.host.json(path, self.host.get(path))["entries"]]
        except (KeyError, TypeError, AttributeError) as error:
            raise LogError(f"{self.host.url}{path} is not a page of entries: {error!r}") from error


class TilesSource:
    """Tiles of any static host. Each entry is hashed, and the tiles of hashes are compared at every level."""

    def __init__(self, host: WebHost) -> None:
        self._host = host
        note = host.get("/checkpoint", may_lack=True)
        if note is None:
            raise LogError(f"{host.url} is neither a service with a log nor a host of tiles: it has no /log and no /checkpoint")
        try:
            self._note = note.decode()
        except UnicodeDecodeError as error:
            raise LogError(f"{host.url}/checkpoint is not text: {error}") from error
        self._state = checkpoint(open_note(self._note)[0])
        self._check = TileCheck(self._state.size)
        self._last, self._entries = -1, list[bytes]()  # the newest bundle, which the next page may begin with

    @property
    def faults(self) -> Sequence[tuple[int, str]]:
        return self._check.faults

    def head(self) -> Head:
        path = "/restarts.json"
        listed = self._host.get(path, may_lack=True)
        try:
            restarts = _restarts([] if listed is None else self._host.json(path, listed))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise LogError(f"{self._host.url}{path} is not a list of restarts: {error!r}") from error
        state = self._state
        return Head(state.size, state.root, None, origin=state.origin, note=self._note, restarts=restarts)

    def page(self, since: int, limit: int) -> list[tuple[int, bytes]]:
        end = min(since + limit, self._state.size)
        numbered = ((index, self._bundle(index // WIDTH)[index % WIDTH]) for index in range(since, end))
        return list(numbered)

    def _bundle(self, index: int) -> list[bytes]:
        if index != self._last:
            tile = Tile(None, index, min(WIDTH, self._state.size - index * WIDTH))
            content, whole = self._content(tile)
            if content is None:
                raise EntryMissingError(tile.first, f"{self._host.url} does not have the file of entries {tile.path}")
            try:
                entries = entries_in(content, whole)[: tile.width]
            except LogError as error:
                raise EntryMissingError(tile.first, str(error)) from error
            if index == self._last + 1:  # read in order, so that the levels above can be made
                for made, hashes in self._check.add(entries):
                    found, read = self._content(made)
                    content = found or b""
                    self._check.compare(made, content if read == made else content[: 32 * made.width], hashes)
            self._last, self._entries = index, entries
        return self._entries

    def _content(self, tile: Tile) -> tuple[bytes | None, Tile]:
        """Read a tile; a partial one may have been replaced by the full one."""
        found = self._host.get(f"/{tile.path}", may_lack=True)
        if found is None and tile.width < WIDTH:
            tile = Tile(tile.level, tile.index)
            found = self._host.get(f"/{tile.path}", may_lack=True)
        return found, tile


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    status: int
    kind: str  # of the body, as its header says
    body: bytes


def answer(url: str, seconds: float, sent: bytes | None = None) -> HttpAnswer:
    """Return the answer of a URL, which gets ``sent`` by POST; an oversized body is read only up to the limit.

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
            target = f"{parts.path}?{parts.query}" if parts.query else parts.path
            connection.request("GET" if sent is None else "POST", target, sent)
            response = connection.getresponse()
            body = response.read(_MAX_BODY + 1)
            if response.getheader("Content-Encoding", "") == "gzip":  # hosts of tiles may send it unasked
                body = _unzipped(body)
        finally:
            timer.cancel()
            connection.close()
            if time.monotonic() - started >= seconds:
                raise TimeoutError(f"not within {seconds:g} s")
        return HttpAnswer(response.status, response.getheader("Content-Type", "").partition(";")[0].strip(), body)


def _unzipped(body: bytes) -> bytes:
    try:
        return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(body, _MAX_BODY + 1)
    except zlib.error as error:
        raise ValueError(f"its gzip can't be read: {error}") from error


def _restarts(listed: Any) -> list[tuple[int, bytes]]:
    found = [(one["index"], one["entry"].encode()) for one in listed]
    if any(type(index) is not int or index < 0 for index, _ in found):
        raise ValueError("a restart at no entry")
    return found


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
