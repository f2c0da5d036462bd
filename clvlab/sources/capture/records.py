"""The lines of a capture: a provider's messages verbatim with arrival times, and the cuts where some were missed.

A segment is a file of such lines; its first line names the capture, its number and the hash of the segment before it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import orjson

from clvlab.errors import SourceError
from clvlab.law.schema import SAFE_INTEGER
from clvlab.packs.files import lines_of
from clvlab.sources.clock import MOST_SKEW_S

SCHEMA = "clvlab-capture/1"
ENDING = ".jsonl"
_DEEP = 1_000  # from this many brackets on the levels are checked, of which orjson reads 1,024


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a segment.

    Attributes
    ----------
    feed, provenance
        Provider of the messages, and label of packs made from them.
    capture_id
        The same in all segments of a capture.
    number
        Number of the segment, from 1.
    previous
        ``sha256:<hex>`` of the segment before; ``None`` for the first.
    fixture_ids
        Subscribed fixtures; all if empty.
    live
        Whether it is the capture of a run, over these fixtures alone.
    skew_s
        Seconds by which a message's time may be later than its arrival, by reading rule 2; ``None`` under rule 1.
    """

    feed: str
    provenance: str
    capture_id: str
    number: int
    previous: str | None
    fixture_ids: tuple[int, ...] = ()
    live: bool = False
    skew_s: int | None = None

    def line(self) -> bytes:
        own = {
            "schema": SCHEMA, "feed": self.feed, "provenance": self.provenance, "capture_id": self.capture_id,
            "number": self.number, "previous": self.previous, "fixture_ids": list(self.fixture_ids), "live": self.live,
        }  # fmt: skip
        return orjson.dumps(own | _rule(self.skew_s)) + b"\n"


def _rule(skew_s: int | None) -> dict[str, int]:
    """Return a header's reading rule; it is left out for rule 1, which is older than the field."""
    return {} if skew_s is None else {"reading_rule": 2, "skew_s": skew_s}


def is_skew(value: object) -> bool:
    """Return whether a value is a valid number of seconds for ``skew_s``."""
    return type(value) is int and 1 <= value <= MOST_SKEW_S


def name_of(number: int) -> str:
    return f"{number:06}{ENDING}"


def message_line(text: bytes, at_ms: int, mark: str | None) -> bytes:
    """Return the line of a message: one-line JSON as it is, other text as a JSON string, other bytes as base64."""
    head = b'{"at":%d,' % at_ms + (b"" if mark is None else b'"mark":' + orjson.dumps(mark) + b",")
    if text[:1] in b"{[" and b"\n" not in text and b"\r" not in text and _is_json(text):
        return b'%s"message":%s}\n' % (head, text)
    try:
        return b'%s"text":%s}\n' % (head, orjson.dumps(text.decode()))
    except UnicodeDecodeError:
        return b'%s"base64":%s}\n' % (head, orjson.dumps(base64.b64encode(text).decode()))


def cut_line(at_ms: int, cause: str, markets: tuple[str, ...], *, resumable: bool) -> bytes:
    return orjson.dumps({"at": at_ms, "cut": {"cause": cause, "markets": list(markets), "resumable": resumable}}) + b"\n"


def resumed_line(at_ms: int, *, replayed: bool) -> bytes:
    return orjson.dumps({"at": at_ms, "resumed": {"replayed": replayed}}) + b"\n"


def end_line(at_ms: int) -> bytes:
    return b'{"at":%d,"end":true}\n' % at_ms


def _is_json(text: bytes) -> bool:
    """Return whether a text is JSON that can be read one level deeper."""
    try:
        orjson.loads(text)
        if text.count(b"[") + text.count(b"{") >= _DEEP:
            orjson.loads(b"[%s]" % text)
    except orjson.JSONDecodeError:
        return False
    return True


class CutContent(TypedDict):
    """Cause of missing messages, their markets (all if empty), and whether the feed can get them again."""

    cause: str
    markets: Sequence[str]
    resumable: bool


class ResumedContent(TypedDict):
    """Whether missed messages are sent again."""

    replayed: bool


@dataclass(frozen=True, slots=True)
class CaptureRecord:
    """A line of a segment: it has exactly one of ``text``, ``cut`` and ``resumed``, or is the last line.

    Attributes
    ----------
    at_ms
        Arrival, or start or end of the missed time.
    text
        The message, verbatim.
    mark
        Position to resume the feed from after it.
    cut, resumed
        Their content.
    """

    at_ms: int
    text: bytes | None = None
    mark: str | None = None
    cut: CutContent | None = None
    resumed: ResumedContent | None = None
    is_end: bool = False


def read_header(line: bytes, where: str) -> Header:
    try:
        own = orjson.loads(line)
        if own.pop("schema") != SCHEMA:
            raise ValueError(f"the schema is not {SCHEMA}")
        rule = {key: own.pop(key) for key in ("reading_rule", "skew_s") if key in own}
        skew_s = rule.get("skew_s")
        if rule and (not is_skew(skew_s) or rule != _rule(skew_s) or type(rule["reading_rule"]) is not int):
            raise ValueError(f"its rule of reading is {rule!r:.200}; it is 2, with skew_s from 1 to {MOST_SKEW_S}")
        return Header(**own | {"fixture_ids": tuple(own["fixture_ids"]), "skew_s": skew_s})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SourceError(f"{where}: is no segment of a capture: {error}") from error


def read_record(line: bytes, where: str) -> CaptureRecord:
    try:
        own = orjson.loads(line)
        at_ms, mark = own.pop("at"), own.pop("mark", None)
        (kind,) = own
        if type(at_ms) is not int or not 0 <= at_ms <= SAFE_INTEGER or not isinstance(mark, str | None):
            raise ValueError(f"at is {at_ms!r} and mark {mark!r}")
        if kind in _CONTENTS:
            _check(own[kind], _CONTENTS[kind])
            return CaptureRecord(at_ms, **own)
        if kind == "end":
            return CaptureRecord(at_ms, is_end=True)
        return CaptureRecord(at_ms, _text(line, own), mark)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SourceError(f"{where}: is no line of a capture: {error}") from error


_CONTENTS: Mapping[str, Mapping[str, type]] = {
    "cut": {"cause": str, "markets": list, "resumable": bool},
    "resumed": {"replayed": bool},
}


def _check(content: Mapping[str, Any], kinds: Mapping[str, type]) -> None:
    if {name: type(value) for name, value in content.items()} != kinds or not all(
        isinstance(market, str) for market in content.get("markets", ())
    ):
        raise ValueError(f"its content is {content!r:.200}")


def _text(line: bytes, own: Mapping[str, Any]) -> bytes:
    if "text" in own:
        return str(own["text"]).encode()
    if "base64" in own:
        return base64.b64decode(own["base64"], validate=True)
    start = line.index(b'"message":') + len(b'"message":')  # a mark is JSON text: its quotes are escaped
    return line[start : line.rindex(b"}")]


def records_of(path: Path) -> Iterator[Header | CaptureRecord]:
    """Return the records of a segment, its header first.

    Raises
    ------
    SourceError
        The file can't be read, or a line is not one of a capture.
    """
    for number, line in lines_of(path):
        where = f"{path.name}:{number}"
        yield read_header(line, where) if number == 1 else read_record(line, where)
