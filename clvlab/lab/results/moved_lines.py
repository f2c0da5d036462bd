"""Decisions on lines that were not quoted at the close, with what they would have closed at: a frame, and a card."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from clvlab.application.runs.perform import PerformedRun
from clvlab.application.sheets.means import spelt_mean
from clvlab.application.sheets.moved_lines import moved_html, moved_lines, moved_mean, spelt_error, unread_markets
from clvlab.drawing import html
from clvlab.drawing.showing import Shown, check_settings
from clvlab.law.markets import UnreadKey
from clvlab.statistics import Estimate
from clvlab.words import REASONS, counted, market_names

_SHOWN, _NAMED = 20, 3


@dataclass(frozen=True)
class MovedLines(Shown):
    """Decisions on lines that moved, of one agent; made by ``Result.moved_lines()``, and part of no mean CLV.

    Attributes
    ----------
    source
        The run of the agent.
    level
        Of the interval.
    """

    source: PerformedRun = field(repr=False)
    level: float = 0.95

    def __post_init__(self) -> None:
        check_settings(self.level)

    @cached_property
    def frame(self) -> pl.DataFrame:
        """``MOVED_LINES``, one row per decision: entry, ``moved_close_prob_bps``, ``moved_clv_bps``, rule and its error."""
        return moved_lines(self.source)

    @cached_property
    def mean(self) -> Estimate:
        """Mean of ``moved_clv_bps`` over fixtures, in bps of probability."""
        return moved_mean(self.frame, self.level)

    @cached_property
    def unread(self) -> list[UnreadKey]:
        """Markets of decisions without a close whose keys have no reading: which line they are on is not known."""
        return unread_markets(self.source.scores)

    @property
    def _left_out(self) -> str:
        more = f", and {len(self.unread) - _NAMED:,} more, in .unread" if len(self.unread) > _NAMED else ""
        return "".join(f"; {one}" for one in self.unread[:_NAMED]) + more

    def __repr__(self) -> str:
        if self.frame.is_empty():
            return f"Lines that moved: no decision on one{self._left_out}"
        count, mean = counted(self.mean.n, "decision"), spelt_mean(self.mean, "bps")
        said = f"{count} in {counted(self.mean.n_clusters, 'fixture')}, mean {mean}, not part of the mean CLV{self._left_out}"
        return f"Lines that moved: {said}; next: .frame, .mean, .to_html(path)"

    def _repr_html_(self) -> str:
        unread = f'<p class="quiet">{html.escape(self._left_out[2:])}</p>' if self.unread else ""
        if self.frame.is_empty():
            return html.block("Lines that moved", "<p>No decision is on a line that moved.</p>", unread)
        names, shown = market_names(self.frame["market_key"]), self.frame.head(_SHOWN)
        rows = [
            (
                str(row["fixture_id"]),
                html.hinted(names[row["market_key"]], row["market_key"]),
                row["side"],
                html.hinted(REASONS[row["reason"]], row["reason"]),
                row["entry_prob_bps"],
                row["moved_close_prob_bps"],
                row["moved_clv_bps"],
                row["moved_rule"],
                spelt_error(row["moved_rule"], row["moved_error_bps"]),
            )
            for row in shown.iter_rows(named=True)
        ]
        columns = ["fixture", "market", "side", "why no score", "entry, bps", "would close, bps", "moved CLV, bps", "rule"]
        return html.block(
            "",
            moved_html(self.frame, self.level),
            html.section("", html.table([*columns, "error, bps"], rows), whole=True),
            html.rest(self.frame.height, shown.height, ".frame"),
            unread,
        )
