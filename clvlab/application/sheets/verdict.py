"""What every page and terminal says and draws of a mean first: its sentence, its interval, its sum by date.

Faces that know neither statistics nor drawing ask here; all of it is made of plain figures.
"""

from __future__ import annotations

from clvlab.drawing.interval import interval_bar
from clvlab.drawing.walk import cumulative_line
from clvlab.statistics.verdict import CLOSE, SEARCH, Tone, Verdict, Wording, verdict, verdict_of

__all__ = ["CLOSE", "SEARCH", "Tone", "Verdict", "Wording", "cumulative_line", "interval_bar"]
__all__ += ["verdict", "verdict_of"]
