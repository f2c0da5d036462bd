"""The playground as a notebook shows it: a widget, or the checks before and after."""

from __future__ import annotations

from typing import Any

from clvlab.drawing import html
from clvlab.lab.drawing.interactive import NOTE, Interactive
from clvlab.lab.proofs.playground_widget import PlaygroundWidget
from clvlab.lab.proofs.tampering import Tampering
from clvlab.lab.proofs.verdicts import state


class Playground(Tampering, Interactive):
    """A copy of a sealed run to tamper with; made by ``Run.tamper()``. The run itself and its folder are never touched.

    Each act changes the copy and returns the playground: ``.attack(name)``, ``.replace(file, old, new)``,
    ``.write_line(file, number, text)``, ``.flip(file, offset)``, ``.close_seal()``, ``.restore()``.

    Examples
    --------
    >>> from clvlab.lab import backtest
    >>> playground = backtest("starter", "baseline").run.tamper()
    >>> playground.attack("drop the worst score").red
    ['metrics_recomputed']
    """

    def __repr__(self) -> str:
        changed = f"{len(self.changes)} changes" if self.changes else "untouched"
        red = f" ({', '.join(self.red)})" if self.red else ""
        verdict = f"{state(self.verification)}{red}"
        return f"Playground of {self.source.run_id}: {changed}, {verdict}; next: .attack(name), .restore()"

    def _repr_html_(self) -> str:
        return html.block(f"A copy of {self.source.run_id}, to tamper with", self.shown(), NOTE)

    def _build(self) -> Any:
        return PlaygroundWidget(self).box
