"""A view as traces of a plotly figure, in plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from clvlab.report.axes import BLUE, GREY, RED
from clvlab.report.explorer.view import Close, MarketView, MarkOutcome
from clvlab.report.html import Html, card, escape_text
from clvlab.words import TO_SECOND, amount, percent

Trace = Mapping[str, object]
"""A trace as plotly takes it, coordinates as arrays or lists."""
GREEN = "#2f9e44"
# Colours are visible on white and on black, like those of the other pictures.
SIDE_COLOURS = (BLUE, "#c9822b", "#8b6fc9", "#3aa6a0", "#b5659d", "#8f8a3a")
# A colour, and a shape for people who do not see colours, in plotly and in matplotlib.
SYMBOLS = {
    MarkOutcome.BEAT: (GREEN, "triangle-up", "^"),
    MarkOutcome.BEHIND: (RED, "triangle-down", "v"),
    MarkOutcome.UNMOVED: (GREY, "circle", "o"),
    MarkOutcome.PENDING: (GREY, "circle-open", "h"),
    MarkOutcome.INVALID: (GREY, "x", "x"),
    MarkOutcome.OPEN: (GREY, "diamond", "D"),
}
SIGNS = dict(zip(MarkOutcome, "▲▼●○✕◆", strict=True))
"""The same shapes as letters."""
# The date types of Polars, plotly and matplotlib have limits: later times are drawn at the end of the year 9899.
LATEST_MS = 250_246_627_200_000
CLOCK = pl.from_epoch(pl.col("ts_ms").clip(None, LATEST_MS), time_unit="ms").dt.strftime(TO_SECOND)
_SHADE = "rgba(138,138,138,0.22)"
_GRID = "rgba(138,138,138,0.25)"


def side_colour(number: int) -> str:
    return SIDE_COLOURS[number % len(SIDE_COLOURS)]


def clock(ts_ms: int) -> str:
    """A time in UTC, to the second."""
    return str(pl.DataFrame({"ts_ms": [ts_ms]}).select(CLOCK).item())


def traces(view: MarketView, seq: int | None = None) -> list[Trace]:
    """Return the traces of a view: suspensions, a line for each side, decisions by outcome, the close, the chosen decision.

    The number of traces depends only on the sides, so a replay changes only coordinates. Plotly interprets tags, so text is
    escaped.
    """
    return [
        _anchor(view),
        _suspension_trace(view),
        *_lines(view),
        *(_marks(view, outcome) for outcome in MarkOutcome),
        *_close(view),
        selection_ring(view, seq),
    ]


def selection_ring(view: MarketView, seq: int | None) -> Trace:
    """Return the ring around a decision; it is empty before one is chosen or replayed."""
    return {
        "type": "scatter",
        "mode": "markers",
        "marker": {"symbol": "circle-open", "size": 22, "color": GREY, "line": {"width": 2}},
        "hoverinfo": "skip",
    } | _points(view.decided.filter(pl.col("seq").eq_missing(seq) & pl.lit(seq is not None)))


def layout(view: MarketView) -> Mapping[str, object]:
    """Axes, margins and legend, on the transparent ground of the page."""
    axis = {"gridcolor": _GRID, "zeroline": False, "linecolor": GREY}
    return {
        "autosize": True,
        "height": 400,
        "margin": {"l": 52, "r": 12, "t": 8, "b": 44},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": GREY},
        "hovermode": "closest",
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": GREY, "activecolor": BLUE},
        "showlegend": False,
        "xaxis": axis
        | {"type": "date", "range": [min(end, LATEST_MS) for end in view.span_ms], "title": {"text": "time, UTC"}},
        "yaxis": axis | {"title": {"text": "consensus probability, %"}, "range": list(reach(view))},
        "yaxis2": {"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True},
    }


def legend(view: MarketView) -> Html:
    """Return the legend as HTML, because plotly's own legend covers the picture: sides with last prices, outcomes."""
    last = {side: line for (side,), line in view.lines.partition_by("side", as_dict=True).items()}
    none = view.lines.clear()
    items = [(side_colour(at), "━", f"{view.side(side)} {_last(last.get(side, none))}") for at, side in enumerate(view.sides)]
    seen = set(view.marks["outcome"])
    items += [(SYMBOLS[outcome][0], SIGNS[outcome], outcome.value) for outcome in MarkOutcome if outcome.value in seen]
    items += [(GREY, "▮", "suspended")] * (view.suspensions.height > 0)
    items += [(GREY, "╎", _close_name(view.close))] if view.close else []
    return card("legend.html", items=items)


def _close_name(close: Close) -> str:
    return f"close ({close.kind.replace('_', ' ')})"


def reach(view: MarketView) -> tuple[int, int]:
    """Return the bounds of the probability axis, in steps of five, around the replayed prices; later prices have no effect."""
    seen = pl.concat([view.lines["prob_bps"].cast(pl.Int64), view.marks["prob_bps"]]).drop_nulls()
    if seen.is_empty():
        return 0, 100
    low, high = seen.sort()[[0, -1]].to_list()
    return 5 * ((low - 100) // 500), 5 * (-(-(high + 100) // 500))


def _anchor(view: MarketView) -> Trace:
    """Return an invisible trace of the first and last time. It keeps a date axis, and a double click shows the whole span."""
    ends = [clock(end) for end in view.whole_ms]
    return {"type": "scatter", "mode": "lines", "x": ends, "y": [None, None], "hoverinfo": "skip"}


def _lines(view: MarketView) -> Sequence[Trace]:
    """Draw the sides; they have no hover text, because it would cover the decisions on them."""
    by_side = view.lines.partition_by("side", as_dict=True)
    drawn = []
    for number, side in enumerate(view.sides):
        line = by_side.get((side,), view.lines.clear())
        drawn.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": str(escape_text(view.side(side))),
                "line": {"color": side_colour(number), "width": 1.6, "shape": "hv"},
                "hoverinfo": "skip",
            }
            | _points(line)
        )
    return drawn


def _last(line: pl.DataFrame) -> str:
    return percent(line["prob_bps"][-1] if line.height else None) or "no price"


def _points(frame: pl.DataFrame) -> dict[str, object]:
    # Floats go to the browser unchanged; a missing price becomes NaN, which is drawn as a gap.
    return {"x": frame["ts_ms"].clip(None, LATEST_MS).cast(pl.Float64).to_numpy(), "y": (frame["prob_bps"] / 100).to_numpy()}


def _suspension_trace(view: MarketView) -> Trace:
    spans = view.suspensions
    corners = spans.select(pl.all().clip(None, LATEST_MS)).select(
        pl.concat_list("from_ts_ms", "from_ts_ms", "to_ts_ms", "to_ts_ms", pl.lit(None, pl.Int64))
    )
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "suspended",
        "x": corners.to_series().explode().to_list() if spans.height else [],
        "y": [0, 1, 1, 0, None] * spans.height,
        "yaxis": "y2",
        "fill": "toself",
        "fillcolor": _SHADE,
        "line": {"width": 0},
        "hoverinfo": "skip",
    }


def _marks(view: MarketView, outcome: MarkOutcome) -> Trace:
    marks = view.marks.filter(pl.col("outcome") == outcome)
    colour, symbol, _ = SYMBOLS[outcome]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": outcome.value,
        "marker": {"color": colour, "symbol": symbol, "size": 10, "line": {"width": 1, "color": colour}},
        "customdata": marks["seq"].to_list(),
        "text": [_hover_text(view, row) for row in marks.with_columns(at=CLOCK).iter_rows(named=True)],
        "hovertemplate": "%{text}<extra></extra>",
    } | _points(marks)


def _hover_text(view: MarketView, mark: Mapping[str, Any]) -> str:
    clv = "" if mark["clv_bps"] is None else f", CLV {amount(mark['clv_bps'])}"
    more = f"<br>and {mark['n'] - 1:,} more here: zoom in" if mark["n"] > 1 else ""
    return (
        f"decision {mark['seq']:,}: {escape_text(view.side(mark['side']))} at {percent(mark['prob_bps'])}{clv}"
        f"<br>{mark['at']} UTC{more}"
    )


def _close(view: MarketView) -> list[Trace]:
    close = view.close
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": _close_name(close) if close else "close",
            "x": [min(close.ts_ms, LATEST_MS)] * 2 if close else [],
            "y": [0, 1] if close else [],
            "yaxis": "y2",
            "line": {"color": GREY, "width": 1.2, "dash": "dash"},
            "hoverinfo": "skip",
        }
    ]
