"""The evidence browser as a notebook shows it: a widget, or the first lines and the last."""

from __future__ import annotations

from typing import Any

import polars as pl

from clvlab.drawing import html
from clvlab.lab.drawing.interactive import NOTE, Interactive
from clvlab.lab.proofs.evidence import PAGE, Evidence
from clvlab.lab.proofs.evidence_widget import EvidenceWidget


class EvidenceBrowser(Evidence, Interactive):
    """The lines of ``events.jsonl`` and their running SHA-256; made by ``Run.browse()``.

    Examples
    --------
    >>> from clvlab.lab import backtest
    >>> run = backtest("starter", "baseline").run
    >>> run.browse().running_hash(-1) == run.evidence_hash
    True
    """

    def __repr__(self) -> str:
        size = f"{len(self.lines):,} lines, {len(self.source.events):,} bytes"
        return f"Evidence of {self.source.run_id}: {size}; next: .text(seq), .frame"

    def _repr_html_(self) -> str:
        more = len(self.lines) - PAGE - 1
        ends = [self.page(0), *([self.page(len(self.lines) - 1, 1)] if more >= 0 else [])]
        return html.block(
            f"Evidence of {self.source.run_id}: {len(self.lines):,} lines",
            self.table(pl.concat(ends)),
            f'<p class="quiet">{more:,} lines between the last two rows are in .frame.</p>' if more > 0 else "",
            NOTE,
        )

    def _build(self) -> Any:
        return EvidenceWidget(self).box
