"""The evidence line by line, with the hash of everything up to each line: the last one is the evidence hash."""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from typing import Any

import orjson
import polars as pl

from clvlab.drawing import html
from clvlab.drawing.showing import optional
from clvlab.errors import EvidenceError
from clvlab.lab.drawing.interactive import NOTE, Interactive
from clvlab.lab.proofs.lines import Lines
from clvlab.proof.seal import SealedRun

_PAGE = 10
_MOST_CHARACTERS = 20_000  # of one line on the screen


class EvidenceBrowser(Interactive):
    """The lines of ``events.jsonl`` and their running SHA-256; made by ``Run.browse()``.

    Examples
    --------
    >>> from clvlab.lab import backtest
    >>> run = backtest("starter", "baseline").run
    >>> run.browse().running_hash(-1) == run.evidence_hash
    True
    """

    def __init__(self, run: SealedRun) -> None:
        self.source = run
        self.lines = Lines(run.events)

    @cached_property
    def frame(self) -> pl.DataFrame:
        """One row per line: (seq, kind, first_byte, bytes, running_sha256); a line's bytes include its line feed."""
        return self.page(0, len(self.lines))

    def page(self, first: int, count: int = _PAGE) -> pl.DataFrame:
        """Return some rows of ``.frame``, from line ``first`` on; what comes before them is hashed in one go."""
        numbers = range(max(first, 0), min(max(first, 0) + count, len(self.lines)))
        running = hashlib.sha256(self.source.events[: self.lines.span(numbers[0])[0]] if numbers else b"")
        rows = []
        for number in numbers:
            start, end = self.lines.span(number)
            text = self.source.events[start : end + 1]
            running.update(text)
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

    def __repr__(self) -> str:
        size = f"{len(self.lines):,} lines, {len(self.source.events):,} bytes"
        return f"Evidence of {self.source.run_id}: {size}; next: .text(seq), .frame"

    def _repr_html_(self) -> str:
        more = len(self.lines) - _PAGE - 1
        ends = [self.page(0), *([self.page(len(self.lines) - 1, 1)] if more >= 0 else [])]
        return html.block(
            f"Evidence of {self.source.run_id}: {len(self.lines):,} lines",
            self.table(pl.concat(ends)),
            f'<p class="quiet">{more:,} lines between the last two rows are in .frame.</p>' if more > 0 else "",
            NOTE,
        )

    def table(self, rows: pl.DataFrame) -> str:
        """Show rows of ``.frame``; a running hash that is the sealed one is marked."""
        sealed = self.source.evidence_hash
        shown = [
            (kind, seq, size, running, "as sealed" if running == sealed else "")
            for seq, kind, _, size, running in rows.iter_rows()
        ]
        return html.section("", html.table(["kind", "line", "bytes", "SHA-256 of all bytes up to here", ""], shown))

    def detail(self, seq: int) -> str:
        """Show one line, escaped."""
        text = self.text(seq)
        rest = f"\n... and {len(text) - _MOST_CHARACTERS:,} characters more" if len(text) > _MOST_CHARACTERS else ""
        return html.block(f"Line {self._number(seq):,}", html.preformatted(text[:_MOST_CHARACTERS] + rest))

    def _build(self) -> Any:
        make = optional("ipywidgets", "the evidence browser")
        last = max(len(self.lines) - 1, 0)
        line = make.BoundedIntText(min=0, max=last, description="Line", layout={"width": "12rem"})
        slider = make.IntSlider(min=0, max=last, readout=False, layout={"flex": "1 1 12rem", "width": "auto"})
        rows, detail = make.HTML(), make.HTML()
        make.jslink((line, "value"), (slider, "value"))

        def show(_: Any = None) -> None:
            first = line.value - line.value % _PAGE
            rows.value, detail.value = html.block("", self.table(self.page(first))), self.detail(line.value) if last else ""

        line.observe(show, "value")
        show()
        controls = make.HBox([line, slider], layout={"flex_flow": "row wrap", "align_items": "center", "width": "100%"})
        box = make.VBox([controls, rows, detail], layout={"width": "100%"})
        box.add_class("clvlab-browser")
        return box


def _kind(line: bytes) -> str:
    try:
        return str(orjson.loads(line)["kind"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return "unreadable"
