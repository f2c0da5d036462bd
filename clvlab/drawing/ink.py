"""Hand-written SVG that needs no library: as wide as its place, with letters of one size on a telephone and on a desk.

Places along a line are percentages, so that the picture stretches and its text does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import floor, log10

BLUE, RED, GREY = "#3b82c4", "#d1495b", "#8a8a8a"  # they stand on white and on black
_WIDTH = 1000


def picture(title: str, height: int, *parts: str) -> str:
    """Frame parts as an SVG element: as wide as its place, ``height`` pixels high; the title is for screen readers."""
    return (
        f'<svg role="img" aria-label="{escape(title)}" width="100%" height="{height}" '
        f'font-family="system-ui,sans-serif" font-size="11" fill="currentColor">{"".join(parts)}</svg>'
    )


def stretched(height: int, *parts: str) -> str:
    """Frame paths whose places are 0 to 1000 along the line; their strokes keep their width."""
    return (
        f'<svg width="100%" height="{height}" viewBox="0 0 {_WIDTH} {height}" preserveAspectRatio="none">{"".join(parts)}</svg>'
    )


def path(points: Sequence[tuple[float, float]], *, closed: bool = False) -> str:
    """Return the ``d`` of a path through points, the first number of each a share of the width."""
    steps = " ".join(f"{_WIDTH * x:.1f},{y:.1f}" for x, y in points)
    return f"M{steps}{'Z' if closed else ''}"


def text(at: float, y: float, said: str, *, anchor: str = "middle", quiet: bool = False, bold: bool = False) -> str:
    """Return a text at a share of the width; it turns inward at the edges."""
    style = ' opacity=".7"' if quiet else ""
    style += ' font-weight="600"' if bold else ""
    return f'<text x="{100 * at:.2f}%" y="{y:g}" text-anchor="{anchor}"{style}>{escape(said)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, colour: str = "currentColor", width: float = 1, more: str = "") -> str:
    """Return a straight line between shares of the width and pixels from the top."""
    ends = f'x1="{100 * x1:.2f}%" y1="{y1:g}" x2="{100 * x2:.2f}%" y2="{y2:g}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width:g}"{more}/>'


def dot(at: float, y: float, *, hollow: bool = False, radius: float = 4.5) -> str:
    """Return a point; a hollow one has no interval."""
    fill = f'fill="none" stroke="{BLUE}" stroke-width="1.5"' if hollow else f'fill="{BLUE}"'
    return f'<circle cx="{100 * at:.2f}%" cy="{y:g}" r="{radius:g}" {fill}/>'


def round_steps(low: float, high: float, most: int = 4) -> list[float]:
    """Return at most ``most`` + 1 round numbers between two bounds.

    Examples
    --------
    >>> round_steps(-130.0, 420.0)
    [0, 200, 400]
    """
    if not high > low:
        return [low]
    rough = (high - low) / most
    size = 10 ** floor(log10(rough))
    step = next(size * times for times in (1, 2, 5, 10) if size * times >= rough * (1 - 1e-9))
    first = -floor(-low / step)
    return [step * number for number in range(first, floor(high / step) + 1)]
