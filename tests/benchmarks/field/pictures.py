"""Growth curves as pictures, from what was measured: time, and memory of the first, over size, both axes logarithmic."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import ceil, floor, log10
from pathlib import Path
from statistics import median
from typing import Any

from clvlab.report import axes as drawing
from tests.benchmarks.field.page import by_tool
from tests.benchmarks.field.parts import PARTS

__all__ = ["PICTURES", "draw"]

PICTURES = {
    "growth-ticks": ("momentum", "seconds"),
    "growth-memory": ("momentum", "peak_mb"),
    "growth-points": ("sweeps", "seconds"),
    "growth-clusters": ("clusters", "seconds"),
    "growth-fixtures": ("fixtures", "seconds"),
    "growth-runs": ("runs", "seconds"),
}
"""Part and quantity of every picture."""
_SVG = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="620" color="#808080"'
_LABELS = {"seconds": "seconds", "peak_mb": "peak memory, MB"}
_OWN = (drawing.BLUE, "#2a9d8f", "#8d6fd1", "#5aa9e6")
_OTHERS = (drawing.RED, "#d98c2b", drawing.GREY, "#a0683c")


def draw(kept: Mapping[str, Any], folder: Path) -> None:
    """Draw the pictures of the parts that were measured."""
    for name, (part, what) in PICTURES.items():
        if part in kept["parts"]:
            drawn = str(drawing.svg(partial(_curves, part, kept["parts"][part], what), name.replace("-", " "), (6.2, 3.1)))
            (folder / f"{name}.svg").write_text(drawn.replace("<svg", _SVG, 1), encoding="utf-8")


def _curves(name: str, part: Mapping[str, Any], what: str, ax: Any) -> None:
    """Draw a line a tool, clvlab's in cold colours and whole, the others' in warm ones and broken."""
    own, others = iter(_OWN), iter(_OTHERS)
    heights = []
    for label, by_size in by_tool(part, what).items():
        is_own = PARTS[name].tools[label].package == "clvlab"
        colour, style = next(own if is_own else others), "-" if is_own else "--"
        sizes = sorted(by_size)
        values = [median(by_size[size]) for size in sizes]
        heights += [log10(value) for value in values]
        ax.plot(sizes, values, style, color=colour, label=label, marker="o", markersize=3, linewidth=1.4)
    ax.set(xscale="log", yscale="log", xlabel=PARTS[name].unit, ylabel=_LABELS[what], title=PARTS[name].title)
    ax.set_ylim(10 ** floor(min(heights)), 10 ** ceil(max(heights)))  # whole decades, which have labels
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(lambda value, _: _spoken(value))
        axis.set_minor_formatter(lambda *_: "")
    ax.tick_params(which="minor", length=0)
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def _spoken(value: float) -> str:
    """Say a power of ten without an exponent."""
    for unit, letter in ((1_000_000, "M"), (1_000, "k")):
        if value >= unit:
            return f"{value / unit:g} {letter}"
    return f"{value:g}"
