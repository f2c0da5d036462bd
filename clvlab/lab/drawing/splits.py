"""The picture of what a choice was worth where it was not made."""

from __future__ import annotations

from typing import Any

import numpy as np

from clvlab.drawing.axes import BLUE, GREY, RED
from clvlab.statistics import Overfitting

MOST_DOTS = 1_500


def draw_splits(found: Overfitting, quantity: str, ax: Any) -> Any:
    """Draw what each split chose: its figure in the half that chose it, and in the other one; equally spaced splits of many.

    Parameters
    ----------
    found
        The splits.
    quantity
        What the figures are, in words with their unit.
    ax
        Where to draw.
    """
    step = -(-found.splits // MOST_DOTS)
    shown = np.arange(0, found.splits, step)
    below = 2 * found.ranks[shown] <= 1
    for chosen, colour, label in ((~below, BLUE, "above the median"), (below, RED, "at or below it")):
        own = shown[chosen]
        ax.scatter(found.in_sample[own], found.out_of_sample[own], s=7, color=colour, alpha=0.45, linewidths=0, label=label)
    ax.axhline(0, color=GREY, linewidth=0.8)
    if np.isfinite(found.slope):
        ends = np.array([found.in_sample.min(), found.in_sample.max()])
        ax.plot(ends, found.intercept + found.slope * ends, color=GREY, linewidth=1.2, label=f"slope {found.slope:+.2f}")
    ax.legend()
    dots = f"one dot a split, {shown.size:,} of {found.splits:,}" if step > 1 else "one dot a split"
    ax.set(
        xlabel=f"{quantity}, in the half that chose ({dots})",
        ylabel="in the other half",
        title=f"PBO {found.pbo:.2f}: the choice out of sample",
    )
    return ax
