"""The figures of a tear sheet, a row each, and the sheet in one sentence."""

from __future__ import annotations

from math import sqrt

import polars as pl

from clvlab.application.sheets.means import TOO_FEW
from clvlab.application.sheets.measures import MEASURES
from clvlab.application.sheets.settling import PERCENT, Figure, percent_of
from clvlab.application.sheets.sheet import Sheet
from clvlab.statistics.moved import Moved
from clvlab.words import counted, interval

BPS = MEASURES["clv"].unit
_P = "probability"


def figures(sheet: Sheet, *, moved: bool) -> list[Figure]:
    """Return the rows of ``TearSheet.frame``; without those of moved decisions, which read the whole tape, in far less time."""
    clv, beat, median, ratio, edge = sheet.clv, sheet.beat, sheet.median, sheet.price_ratio, sheet.edge
    naive = clv.t * sqrt(clv.design_effect) if clv.t is not None and clv.design_effect is not None else None
    drawdown = _drawdown(sheet) if clv.n else None
    both = sheet.with_at_close
    return [
        ("mean CLV", clv.mean, clv.low, clv.high, BPS),
        ("median CLV", median.median, median.low, median.high, BPS),
        ("mean CLV as price ratio", ratio.mean, ratio.low, ratio.high, PERCENT),
        ("mean edge at the price taken", edge.mean, edge.low, edge.high, PERCENT),
        ("mean CLV with entries at the closing message", both.mean, both.low, both.high, BPS),
        ("t, clustered by fixture", clv.t, None, None, "standard errors"),
        ("degrees of freedom of it", clv.degrees_of_freedom, None, None, "fixtures that could differ"),
        ("t, as if decisions were independent", naive, None, None, "standard errors"),
        ("t of the edge, clustered by fixture", edge.t, None, None, "standard errors"),
        ("one-sided p of t", clv.p_value, None, None, _P),
        ("one-sided p of the edge's t", edge.p_value, None, None, _P),
        ("two-sided p of sign flips by fixture", sheet.sign_flips["clv"], None, None, _P),
        ("two-sided p of sign flips, edge", sheet.sign_flips["edge"], None, None, _P),
        ("effective fixtures", clv.effective_clusters, None, None, "fixtures of equal size"),
        ("design effect", clv.design_effect, None, None, "times the variance"),
        ("effective sample size", clv.effective_n, None, None, "decisions"),
        ("beat the close, of those that moved", percent_of(beat.rate), percent_of(beat.low), percent_of(beat.high), PERCENT),
        ("unmoved", 100 * beat.tied / clv.n if clv.n else None, None, None, PERCENT),
        *(_moved(sheet) if moved else []),
        ("largest fall of the cumulative CLV", drawdown, None, None, BPS),
        ("share of the five best fixtures in the total", sheet.top_five[0], None, None, PERCENT),
        ("mean CLV without them", sheet.top_five[1], None, None, BPS),
        *(sheet.settled.figures if sheet.settled else []),
    ]


def _drawdown(sheet: Sheet) -> float:
    """Return the largest fall of the cumulative CLV in order of decisions: the law's, where the sheet is of the whole run."""
    if sheet.selection.is_whole:
        return float(sheet.source.result.outcomes["max_drawdown"][0])
    walk = sheet.scored["clv_bps"].cum_sum()
    return float(pl.select((walk - pl.max_horizontal(walk.cum_max(), pl.lit(0))).min()).item())


def _moved(sheet: Sheet) -> list[Figure]:
    elsewhere, later = sheet.permutation, sheet.delay
    return [
        ("mean CLV of the same decisions in other fixtures", *_band(elsewhere), BPS),
        ("one-sided p of the choice of fixture and side", elsewhere.p_value if elsewhere else None, None, None, _P),
        ("value of acting now", later.gain if later else None, None, None, BPS),
        ("one-sided p of acting now, no test of skill", later.p_value if later else None, None, None, _P),
    ]


def line(sheet: Sheet) -> str:
    """The sheet in one sentence."""
    clv, edge, beat = sheet.clv, sheet.edge, sheet.beat
    if clv.mean is None:
        return "no scored decision" + _left_out(sheet)
    t = "none" if clv.t is None else f"{clv.t:.2f}"
    share = (
        "nothing moved" if beat.rate is None else f"{100 * beat.rate:.1f} %{_span(percent_of(beat.low), percent_of(beat.high))}"
    )
    return (
        f"{counted(clv.n, 'scored decision')} in {counted(clv.n_clusters, 'fixture')}{_left_out(sheet)}: mean CLV "
        f"{clv.mean:+z.2f} bps{_span(clv.low, clv.high)}, median {sheet.median.median:+z.1f} bps, cluster t {t}; edge at the "
        f"price taken {edge.mean or 0:+z.2f} %{_span(edge.low, edge.high)}; beat the close {share}, {beat.tied:,} unmoved"
        f"{_returned(sheet)}"
    )


def _left_out(sheet: Sheet) -> str:
    count, both = sheet.left_out, sheet.with_at_close.mean
    return f" ({count:,} more at the closing message, with them {both:+z.2f} bps)" if count and both is not None else ""


def _returned(sheet: Sheet) -> str:
    roi = sheet.settled.roi if sheet.settled else None
    if roi is None or roi.mean is None:
        return ""
    return f"; return on investment {roi.mean:+z.2f} %{_span(roi.low, roi.high)} of {roi.n:,} settled, which is not CLV"


def _band(found: Moved | None) -> tuple[float | None, float | None, float | None]:
    return (found.mean, found.low, found.high) if found else (None, None, None)


def _span(low: float | None, high: float | None) -> str:
    return interval(low, high) or f" [{TOO_FEW}]"
