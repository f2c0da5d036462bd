"""The explorer as a notebook shows it: a widget, or a picture and a table."""

from __future__ import annotations

from typing import Any

from clvlab.lab.drawing.interactive import Interactive
from clvlab.lab.explorer import still
from clvlab.lab.explorer.exploration import Exploration
from clvlab.lab.explorer.widget import ExplorerWidget


class Explorer(Exploration, Interactive):
    """A backtest, market by market; made by ``Result.explore``.

    ``.show(...)`` chooses what is seen, ``.view`` gives it as frames, ``.frame`` the decisions, ``.record(seq)`` one of them,
    and ``.query`` the call that shows the same again.

    Examples
    --------
    >>> from clvlab.lab import backtest
    >>> explorer = backtest("starter", "cumulative-drift").explore(90000005)
    >>> explorer.view.sides, explorer.frame.height > 0
    (('draw', 'part1', 'part2'), True)
    """

    def __repr__(self) -> str:
        shown = f"{self.label} (fixture {self.fixture_id}), market {self.market.market_key!r}"
        return f"Explorer of {shown}: {self.line}; next: .show(), .frame, .query"

    def _repr_html_(self) -> str:
        return still.page_part(self.label, self.line, self.view)

    def _build(self) -> Any:
        return ExplorerWidget(self).box
