"""Server-sent events, from bytes as they come.

References
----------
WHATWG, "HTML", 9.2.6 "Interpreting an event stream". ``retry`` is left out: feeds have a back-off of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MOST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Event:
    """An event.

    Attributes
    ----------
    kind
        Its ``event``, ``message`` by default.
    data
        Its ``data``, verbatim.
    mark
        The last ``id`` so far; empty without any.
    """

    kind: str
    data: bytes
    mark: str


@dataclass
class EventStream:
    """Takes bytes and returns events; one that breaks off, with the ``id`` it began with, is none."""

    _rest: bytes = b""
    _after_cr: bool = False
    _begun: bool = False
    _kind: bytes = b""
    _data: list[bytes] = field(default_factory=list)
    _size: int = 0
    _mark: str = ""

    def take(self, chunk: bytes) -> Iterator[Event]:
        r"""Return the events that end with some more bytes.

        Raises
        ------
        ValueError
            A line, or an event, without an end.

        Examples
        --------
        >>> list(EventStream().take(b"id: 1:0\ndata: {}\n\ndata: never"))
        [Event(kind='message', data=b'{}', mark='1:0')]
        """
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r")
        lines = (self._rest + chunk).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            event = self._line(line if self._begun else line.removeprefix(_BYTE_ORDER_MARK))
            self._begun = True
            if event is not None:
                yield event
        if self._size + len(self._rest) > _MOST_BYTES:
            raise ValueError(f"an event has more than {_MOST_BYTES:,} bytes")

    def _line(self, line: bytes) -> Event | None:
        if not line:
            kind, data = self._kind, self._data
            self._kind, self._data, self._size = b"", [], 0
            return Event(kind.decode(errors="replace") or "message", b"\n".join(data), self._mark) if any(data) else None
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._size += len(value) + 1
        elif name == b"event":
            self._kind = value
        elif name == b"id" and b"\0" not in value:
            self._mark = value.decode(errors="replace")
        return None
