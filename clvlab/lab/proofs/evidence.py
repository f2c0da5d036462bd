"""The evidence line by line, with the hash of everything up to each: the last one is the evidence hash. Knows no widget."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable
from functools import cached_property

import numpy as np
import orjson
import polars as pl

from clvlab.drawing import html
from clvlab.errors import EvidenceError
from clvlab.proof.merkle import leaf_hash
from clvlab.proof.seal import SealedRun

# The exact bytes of a line: offsets, hexadecimal, and what can be read of them.


_ROW = 16
MOST_BYTES = 1024  # of one line on the screen


def byte_rows(text: bytes, first_byte: int) -> list[tuple[str, str, str]]:
    """Return rows of sixteen bytes: (offset in the file, hexadecimal, characters); a dot is no printable ASCII.

    Examples
    --------
    >>> byte_rows(b'{"a"}' + bytes([10]), 32)
    [('00000020', '7b 22 61 22 7d 0a', '{"a"}.')]
    """
    return [
        (
            f"{first_byte + at:08x}",
            text[at : at + _ROW].hex(" "),
            "".join(chr(byte) if 32 <= byte < 127 else "." for byte in text[at : at + _ROW]),
        )
        for at in range(0, len(text), _ROW)
    ]


def bytes_html(text: bytes, first_byte: int) -> str:
    """Show the bytes of a line, the first of which stands at an offset of its file."""
    rows = byte_rows(text[:MOST_BYTES], first_byte)
    shown = "\n".join(f"{offset}  {digits:<{3 * _ROW - 1}}  {letters}" for offset, digits, letters in rows)
    rest = len(text) - MOST_BYTES
    more = f'<p class="quiet">and {rest:,} bytes more</p>' if rest > 0 else ""
    return (
        f'<pre class="bytes" tabindex="0" aria-label="bytes: offset, hexadecimal, characters">{html.escape(shown)}</pre>{more}'
    )


# Lines of a text by number, without cutting the text up.


class Lines:
    r"""The lines of a text in which every line ends with a line feed; a last one without it counts as well.

    Examples
    --------
    >>> lines = Lines(b"a\nbc\n")
    >>> len(lines), lines.get(1), lines.span(1)
    (2, b'bc', (2, 4))
    """

    def __init__(self, text: bytes) -> None:
        self.text = text

    @cached_property
    def _ends(self) -> np.ndarray:
        ends = np.flatnonzero(np.frombuffer(self.text, dtype=np.uint8) == ord("\n"))
        return ends if not self.text or self.text.endswith(b"\n") else np.append(ends, len(self.text))

    def __len__(self) -> int:
        return int(self._ends.size)

    def span(self, number: int) -> tuple[int, int]:
        """First byte of a line and the one past its last, the line feed left out.

        Raises
        ------
        IndexError
            No such line.
        """
        if not 0 <= number < len(self):
            raise IndexError(f"no line {number} in {len(self)}")
        return int(self._ends[number - 1]) + 1 if number else 0, int(self._ends[number])

    def get(self, number: int) -> bytes:
        """Return a line without its line feed; raises as ``span`` does."""
        return self.text[slice(*self.span(number))]


PAGE = 10
_MOST_CHARACTERS = 20_000  # of one line on the screen


class EvidenceView:
    """The lines of ``events.jsonl``, their running SHA-256, and the search among them."""

    def __init__(self, run: SealedRun) -> None:
        self.source = run
        self.lines = Lines(run.events)

    @cached_property
    def frame(self) -> pl.DataFrame:
        """One row per line: (seq, kind, first_byte, bytes, running_sha256); a line's bytes include its line feed."""
        return self.page(0, len(self.lines))

    def page(self, first: int, count: int = PAGE) -> pl.DataFrame:
        """Return some rows of ``.frame``, from line ``first`` on."""
        return self.rows(range(max(first, 0), min(max(first, 0) + count, len(self.lines))))

    def rows(self, numbers: Iterable[int]) -> pl.DataFrame:
        """Return rows of ``.frame`` by their numbers, which rise; what lies before each is hashed in one go."""
        running, hashed, events, rows = hashlib.sha256(), 0, memoryview(self.source.events), []
        for number in numbers:
            start, end = self.lines.span(number)
            text = self.source.events[start : end + 1]
            running.update(events[hashed : start + len(text)])
            hashed = start + len(text)
            rows.append((number, _kind(text), start, len(text), f"sha256:{running.hexdigest()}"))
        schema = {"seq": pl.Int64, "kind": pl.String, "first_byte": pl.Int64, "bytes": pl.Int64, "running_sha256": pl.String}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def running_hash(self, seq: int) -> str:
        """SHA-256 of all bytes up to the end of a line; of the last one for -1.

        Raises
        ------
        EvidenceError
            No such line.
        """
        return str(self.page(self._number(seq), 1)["running_sha256"][0])

    def text(self, seq: int) -> str:
        """Return a line, indented for reading; bytes that are no JSON are given as they are.

        Raises
        ------
        EvidenceError
            No such line.
        """
        line = self.lines.get(self._number(seq))
        try:
            return json.dumps(orjson.loads(line), indent=2, ensure_ascii=False)
        except orjson.JSONDecodeError:
            return line.decode("utf-8", "backslashreplace")

    def _number(self, seq: int) -> int:
        count = len(self.lines)
        number = count - 1 if seq == -1 else seq
        if not 0 <= number < count:
            raise EvidenceError(f"run {self.source.run_id} has no line {seq}: it has {count}, numbered from 0")
        return number

    @cached_property
    def kinds(self) -> pl.Series:
        """The kind of every line, in their order."""
        return pl.Series("kind", [_kind(self.lines.get(number)) for number in range(len(self.lines))], dtype=pl.String)

    def find(self, text: str = "", kinds: Collection[str] = ()) -> list[int]:
        """Return the numbers of the lines that hold a text, whatever its case, and are of one of some kinds, or of any.

        Examples
        --------
        >>> from clvlab.lab import backtest
        >>> backtest("starter", "baseline").run.browse().find(kinds=["RUN_STARTED"])
        [0]
        """
        numbers = self.kinds.is_in(list(kinds)).arg_true().to_list() if kinds else list(range(len(self.lines)))
        if not text:
            return numbers
        wanted, events = text.encode("utf-8", "surrogatepass").lower(), self.source.events.lower()
        return [number for number in numbers if events.find(wanted, *self.lines.span(number)) >= 0]

    def table(self, rows: pl.DataFrame, chosen: int | None = None, *, live: bool = False) -> str:
        """Show rows of ``.frame``; a running hash that is the sealed one is marked, and a live table can be picked from."""
        sealed = self.source.evidence_hash
        shown = [
            (kind, _button(seq, chosen) if live else seq, size, running, "as sealed" if running == sealed else "")
            for seq, kind, _, size, running in rows.iter_rows()
        ]
        return html.section("", html.table(["kind", "line", "bytes", "SHA-256 of all bytes up to here", ""], shown))

    def detail(self, seq: int) -> str:
        """Show one line, escaped: what it says, its leaf in the Merkle tree, and its exact bytes."""
        number, text = self._number(seq), self.text(seq)
        start, end = self.lines.span(number)
        own = self.source.events[start : end + 1]
        rest = f"\n... and {len(text) - _MOST_CHARACTERS:,} characters more" if len(text) > _MOST_CHARACTERS else ""
        return html.block(
            f"Line {number:,}: {_kind(own)}, {len(own):,} bytes from byte {start:,}",
            html.facts({"leaf hash": f"sha256:{leaf_hash(self.lines.get(number)).hex()}"}),
            f'<div class="line">{html.preformatted(text[:_MOST_CHARACTERS] + rest)}<div>{bytes_html(own, start)}</div></div>',
        )


def _button(seq: int, chosen: int | None) -> html.Html:
    state, sign = (' aria-current="true"', "▸ ") if seq == chosen else ("", "")
    return html.Html(f'<button data-pick="{seq}"{state} aria-label="show line {seq}">{sign}{seq:,}</button>')


def _kind(line: bytes) -> str:
    try:
        return str(orjson.loads(line)["kind"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return "unreadable"
