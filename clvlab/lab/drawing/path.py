"""The pictures of a price path: when the move was known, and what became of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from clvlab.drawing.axes import BLUE, GREY, RED


def draw_known(known: pl.DataFrame, ax: Any) -> Any:
    """Draw the share of the move that had been made, by hours before the close; a thin line a market.

    Parameters
    ----------
    known
        ``PricePath.known``: the first market is all of them.
    ax
        Where to draw.
    """
    whole = None
    for (market,), rows in known.group_by("market", maintain_order=True):
        hours, share = (rows[name].to_numpy().astype(float) for name in ("hours", "share"))
        if whole is None:
            whole = market
            low, high = (rows[name].to_numpy().astype(float) for name in ("low", "high"))
            ax.fill_between(hours, 100 * low, 100 * high, color=BLUE, alpha=0.2, linewidth=0)
            ax.plot(hours, 100 * share, color=BLUE, marker="o", markersize=3, linewidth=1.4, label=str(market), zorder=3)
        else:
            ax.plot(hours, 100 * share, color=GREY, linewidth=0.7, alpha=0.8)
    if known["hours"].n_unique() > 1:
        ax.set_xscale("log")
    places = known["hours"].unique().sort()
    ax.set_xticks(places, [f"{hour:g}" for hour in places])
    ax.minorticks_off()
    ax.invert_xaxis()
    ax.set_ylim(0, 100)
    ax.set(xlabel="hours before the close", ylabel="share of the move, %", title="What was known of the move to the close")
    return ax


def draw_slopes(slopes: pl.DataFrame, leg: str, title: str, ax: Any) -> Any:
    """Draw the slope of one leg by market, with its interval; red where zero is outside.

    Parameters
    ----------
    slopes
        ``PricePath.frame``.
    leg
        Which of its legs.
    title
        What it asks.
    ax
        Where to draw.
    """
    rows = slopes.filter(pl.col("leg") == leg).drop_nulls("slope")
    places = np.arange(rows.height)[::-1]
    for place, row in zip(places, rows.iter_rows(named=True), strict=True):
        known = row["low"] is not None
        colour = RED if known and not row["low"] <= 0 <= row["high"] else BLUE
        if known:
            ax.hlines(place, row["low"], row["high"], color=colour, linewidth=1.5)
        ax.scatter([row["slope"]], [place], s=16, facecolors=colour if known else "none", edgecolors=colour, zorder=3)
    ax.axvline(0, color=GREY, linewidth=0.8)
    ax.set_ylim(-0.7, max(rows.height, 1) - 0.3)
    names = [name if len(name) <= 30 else f"{name[:14]}…{name[-15:]}" for name in rows["market"]]
    ax.set_yticks(places, [f"{name} ({n:,})" for name, n in zip(names, rows["n"], strict=True)], parse_math=False)
    ax.set(xlabel="slope, 0 where prices are fair", title=title)
    return ax
