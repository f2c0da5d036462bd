"""The evidence browser as a notebook shows it: a widget, or the first lines and the last."""

from __future__ import annotations

from typing import Any

import polars as pl

from clvlab.drawing import html
from clvlab.lab.drawing.interactive import NOTE, Interactive
from clvlab.lab.proofs.evidence import PAGE, Evidence
from clvlab.lab.proofs.evidence_widget import EvidenceWidget
from clvlab.words import counted


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
        size = f"{counted(len(self.lines), 'line')}, {counted(len(self.source.events), 'byte')}"
        return f"Evidence of {self.source.run_id}: {size}; next: .text(seq), .frame"

    def _repr_html_(self) -> str:
        more = len(self.lines) - PAGE - 1
        ends = [self.page(0), *([self.page(len(self.lines) - 1, 1)] if more >= 0 else [])]
        return html.block(
            f"Evidence of {self.source.run_id}: {counted(len(self.lines), 'line')}",
            self.table(pl.concat(ends)),
            f'<p class="quiet">{more:,} lines between the last two rows are in .frame.</p>' if more > 0 else "",
            NOTE,
        )

    def _build(self) -> Any:
        return EvidenceWidget(self).box
