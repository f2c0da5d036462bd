"""The explorer as a notebook shows it: a widget, or a picture and a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from clvlab.drawing import axes as drawing
from clvlab.drawing import html
from clvlab.errors import MissingLibraryError
from clvlab.lab.explorer.exploration import Exploration
from clvlab.lab.explorer.figure import CLOCK, LATEST_MS, SYMBOLS, clock, side_colour
from clvlab.lab.explorer.view import MarketView, ShownOutcome
from clvlab.lab.explorer.widget import ExplorerWidget
from clvlab.lab.interactive import NOTE, Interactive
from clvlab.words import amount, percent

# The explorer where no widget runs: a picture of the market and a table of the decisions on it.


_SHOWN_ROWS = 12


def page_part(names: str, line: str, view: MarketView) -> str:
    """Show a view as HTML: what is seen, in a sentence; the picture; the first decisions."""
    rows = view.decided.head(_SHOWN_ROWS).with_columns(at=CLOCK)
    table = [
        (str(row["seq"]), row["at"], row["side"], percent(row["prob_bps"]), _clv(row["clv_bps"]), row["outcome"])
        for row in rows.iter_rows(named=True)
    ]
    return html.block(
        f"{names}: {view.market_key}",
        f"<p>{html.escape(line)}.</p>",
        _picture(view),
        html.table(["decision", "time (UTC)", "side", "entry", "CLV", "outcome"], table) if table else "",
        html.rest(view.decided.height, rows.height, ".frame"),
        NOTE,
    )


def _clv(clv_bps: int | None) -> str:
    return "" if clv_bps is None else amount(clv_bps)


def _picture(view: MarketView) -> str:
    try:
        return drawing.svg(lambda ax: draw(view, ax), f"line of {view.market_key}", (8.4, 3.6))
    except MissingLibraryError as error:
        return f'<p class="quiet">{html.escape(str(error))}</p>'


def draw(view: MarketView, ax: Any) -> None:
    """Draw a view on axes of matplotlib."""
    for number, side in enumerate(view.sides):
        line = view.lines.filter(pl.col("side") == side)
        probs = (line["prob_bps"] / 100).to_numpy()
        ax.step(_times(line["ts_ms"]), probs, where="post", color=side_colour(number), linewidth=1.2, label=_plain(side))
    for start, end in zip(*(_times(view.suspensions[name]) for name in ("from_ts_ms", "to_ts_ms")), strict=True):
        ax.axvspan(start, end, color=drawing.GREY, alpha=0.2, linewidth=0)
    if view.close:
        ax.axvline(_times(pl.Series([view.close.ts_ms]))[0], color=drawing.GREY, linestyle="--", linewidth=1, label="close")
    for outcome in ShownOutcome:
        marks = view.marks.filter(pl.col("outcome") == outcome)
        if marks.height:
            colour, _, marker = SYMBOLS[outcome]
            ax.scatter(
                _times(marks["ts_ms"]),
                (marks["prob_bps"] / 100).to_numpy(),
                color=colour,
                marker=marker,
                s=26,
                zorder=3,
                label=outcome.value,
            )
    start, end = _times(pl.Series(view.span_ms))
    if start < end:
        ax.set_xlim(start, end)
    now = f" (replay at {clock(view.now_ms)})" if view.now_ms is not None else ""
    ax.set(xlabel=f"time, UTC{now}", ylabel="consensus probability, %")
    if view.sides or view.marks.height:
        ax.legend(ncols=6, loc="lower left", bbox_to_anchor=(0, 1))


def _times(ts_ms: pl.Series) -> np.ndarray:
    return ts_ms.clip(None, LATEST_MS).to_numpy().astype("datetime64[ms]")


def _plain(text: str) -> str:
    """Keep matplotlib from reading mathematics into a name, and from hiding one that starts with an underscore."""
    return "\u200b" + text.replace("$", r"\$")


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
        return page_part(self.label, self.line, self.view)

    def _build(self) -> Any:
        return ExplorerWidget(self).box
