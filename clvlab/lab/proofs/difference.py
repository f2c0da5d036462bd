"""Where two files differ, byte by byte, with what stands around it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clvlab.drawing import html
from clvlab.words import counted

_AROUND = 60  # bytes of context on either side
_MOST = 240  # bytes of a difference on the screen
_MARK = "background:rgba(200,140,0,.3);font-weight:700"  # beside the line through or under it


@dataclass(frozen=True, slots=True)
class Difference:
    """The bytes from the first that differs to the last, before and after.

    Attributes
    ----------
    file, line
        Where they stand; lines are numbered from 0.
    offset
        Of the first byte that differs, in the file.
    before, after
        What stood there and what stands there; either may be empty.
    lead, trail
        What both have before it and behind it, within the line.
    """

    file: str
    line: int
    offset: int
    before: bytes
    after: bytes
    lead: bytes
    trail: bytes

    def to_html(self) -> str:
        """Show both, the difference struck out and underlined: whoever sees no colour sees that."""
        lead, trail = _text(self.lead), _text(self.trail)
        before, after = _marked("del", self.before), _marked("ins", self.after)
        rows = [(name, html.Html(f"<code>{lead}{own}{trail}</code>")) for name, own in (("before", before), ("after", after))]
        long = max(len(self.before), len(self.after)) > _MOST
        first = f"first byte {_byte(self.before)} → {_byte(self.after)}"
        return (
            f"<p>{html.escape(self.file)}, line {self.line:,}, from byte {self.offset:,} on: "
            f"{counted(len(self.before), 'byte')} → {counted(len(self.after), 'byte')}; {first}.</p>"
            + html.section("", html.table(["", "bytes"], rows))
            + (f'<p class="quiet">of which the first {_MOST:,} are shown</p>' if long else "")
        )


def _marked(element: str, text: bytes) -> str:
    return f'<{element} style="{_MARK}">{_text(text[:_MOST])}</{element}>'


def _byte(text: bytes) -> str:
    return f"<code>{text[:1].hex()}</code>" if text else "none"


def _text(text: bytes) -> str:
    return html.escape(text.decode("utf-8", "backslashreplace").replace("\n", "↵"))


def difference(file: str, before: bytes, after: bytes) -> Difference | None:
    """Return where two contents of a file differ; null where they don't.

    Examples
    --------
    >>> found = difference("events.jsonl", b"stake 100, part1", b"stake 900, part1")
    >>> found.offset, found.before, found.after
    (6, b'1', b'9')
    """
    if before == after:
        return None
    start = _common(before, after)
    rest = min(len(before), len(after)) - start
    tail = _common(before[len(before) - rest :][::-1], after[len(after) - rest :][::-1]) if rest else 0
    ends = len(before) - tail, len(after) - tail
    lead = before[max(start - _AROUND, before.rfind(b"\n", 0, start) + 1) : start]
    stop = before.find(b"\n", ends[0])
    trail = before[ends[0] : min(ends[0] + _AROUND, stop if stop >= 0 else len(before))]
    return Difference(file, before.count(b"\n", 0, start), start, before[start : ends[0]], after[start : ends[1]], lead, trail)


def _common(one: bytes, other: bytes) -> int:
    """Count the bytes that both begin with."""
    size = min(len(one), len(other))
    differ = np.frombuffer(one[:size], np.uint8) != np.frombuffer(other[:size], np.uint8)
    return int(differ.argmax()) if differ.any() else size
