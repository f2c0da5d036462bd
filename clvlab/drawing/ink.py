"""Hand-written SVG that needs no library: as wide as its place, with letters of one size on a telephone and on a desk.

Places along a line are percentages, so that the picture stretches and its text does not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from html import escape
from math import floor, log10

from clvlab.drawing.html import Html
from clvlab.words import amount, plus, with_interval

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


# The picture of numbers in a grid: a colour for each, the number in it, and a frame around those that stand out.


_LABEL = 0.17
_TALL, _HEAD = 36, 34
_STRONGEST = 0.5  # text stays readable on it, light or dark


def cell_grid(
    columns: Sequence[str],
    rows: Sequence[str],
    values: Mapping[tuple[int, int], float],
    notes: Mapping[tuple[int, int], str],
    *,
    framed: Collection[tuple[int, int]] = (),
    across: str = "",
    down: str = "",
    title: str = "",
) -> str:
    """Draw a grid of numbers, blue above zero and red below, as an SVG element that is as wide as its place.

    Parameters
    ----------
    columns, rows
        Labels.
    values
        Numbers by (row, column), from 0; a place without one stays empty.
    notes
        A second line for each.
    framed
        Places that stand out.
    across, down
        Names of what changes along the columns, and along the rows.
    title
        What a screen reader says.

    Examples
    --------
    >>> drawn = cell_grid(["5", "10"], ["a"], {(0, 0): 12.0, (0, 1): -3.0}, {(0, 0): "p .01"}, framed=[(0, 0)])
    >>> drawn.count("<rect"), "+12" in drawn, "p .01" in drawn
    (3, True, True)
    """
    reach = max(map(abs, values.values()), default=0.0) or 1.0
    digits, width = (0 if reach >= 10 else 1), (1 - _LABEL) / max(len(columns), 1)
    parts = [text(_LABEL, 11, across, anchor="start", quiet=True), text(0, _HEAD - 5, down, anchor="start", quiet=True)]
    parts += [text(_LABEL + width * (k + 0.5), _HEAD - 5, name) for k, name in enumerate(columns)]
    parts += [text(0, _HEAD + _TALL * k + 21, name, anchor="start") for k, name in enumerate(rows)]
    for (row, column), value in values.items():
        x, y, inside = _LABEL + width * column, _HEAD + _TALL * row, _HEAD + _TALL * row + 15
        place = f'x="{100 * x + 0.2:.2f}%" y="{y + 1}" width="{100 * width - 0.4:.2f}%" height="{_TALL - 2}"'
        opacity = _STRONGEST * abs(value) / reach
        parts.append(f'<rect {place} fill="{BLUE if value >= 0 else RED}" fill-opacity="{opacity:.3f}"/>')
        if (row, column) in framed:
            parts.append(f'<rect {place} fill="none" stroke="currentColor" stroke-width="2"/>')
        parts.append(text(x + width / 2, inside, plus(value, digits), bold=(row, column) in framed))
        parts.append(text(x + width / 2, inside + 14, notes.get((row, column), ""), quiet=True))
    return picture(title, _HEAD + _TALL * len(rows) + 4, *parts)


# The picture of one mean: its interval on a line, and zero.


_EDGE = 0.2  # room for numbers on both sides, also on a telephone
_MIDDLE, _HEIGHT = 27, 50


def interval_bar(mean: float | None, low: float | None, high: float | None, *, unit: str = "bps", digits: int = 1) -> str:
    """Draw a mean and its interval beside zero, as an SVG element that is as wide as its place; empty without a mean.

    Parameters
    ----------
    mean
        Null without values.
    low, high
        Bounds of its interval; a hollow point is a mean without one.
    unit
        Unit of all three.
    digits
        Number of decimals.

    Examples
    --------
    >>> drawn = interval_bar(34.2, -6.1, 76.8)
    >>> drawn[:4], "mean +34.2 bps, interval -6.1 to +76.8" in drawn, interval_bar(None, None, None)
    ('<svg', True, '')
    """
    if mean is None:
        return ""
    known = low is not None and high is not None
    bounds = [0.0, mean, *(bound for bound in (low, high) if bound is not None)]
    least, most = min(bounds), max(bounds)
    reach = (most - least) or 1.0

    def at(value: float) -> float:
        return _EDGE + (1 - 2 * _EDGE) * (value - least) / reach

    said, away, toward = amount(mean, unit, digits), *(("start", "end") if mean >= 0 else ("end", "start"))
    parts = [
        line(0, _MIDDLE, 1, _MIDDLE, width=1, more=' opacity=".2"'),
        line(at(0), _MIDDLE - 14, at(0), _MIDDLE + 10, more=' stroke-dasharray="3 2" opacity=".7"'),
        text(at(0), 11, "0 ", anchor=toward, quiet=True),
    ]
    if low is not None and high is not None:
        parts += [
            line(at(low), _MIDDLE, at(high), _MIDDLE, BLUE, 6, ' stroke-opacity=".55"'),
            *(line(at(end), _MIDDLE - 6, at(end), _MIDDLE + 6, BLUE, 2) for end in (low, high)),
            text(at(low), _HEIGHT - 3, plus(low, digits), anchor="end"),
            text(at(high), _HEIGHT - 3, plus(high, digits), anchor="start"),
        ]
    parts += [dot(at(mean), _MIDDLE, hollow=not known), text(at(mean), 11, said, anchor=away, bold=True)]
    return picture(f"mean {with_interval(said, low, high, digits)}", _HEIGHT, *parts)


# Pictures that stand in the cells of a table: intervals on one scale, and small lines.


_ROW_HEIGHT = 20
_ROW_EDGE = 0.03


def scale(bounds: Sequence[float | None]) -> tuple[float, float]:
    """Return the least and greatest of bounds, zero among them: the scale that all rows of a forest share.

    Examples
    --------
    >>> scale([None, 3.0, 8.0]), scale([])
    ((0.0, 8.0), (0.0, 1.0))
    """
    known = [0.0, *(bound for bound in bounds if bound is not None)]
    least, most = min(known), max(known)
    return (least, most) if most > least else (least, least + 1.0)


def interval_cell(mean: float | None, low: float | None, high: float | None, within: tuple[float, float]) -> Html:
    """Draw one row of a forest: a mean and its interval beside zero; a hollow point has no interval.

    Parameters
    ----------
    mean
        Empty without one.
    low, high
        Null without an interval.
    within
        Scale of all rows; see ``scale``.
    """
    if mean is None:
        return Html("")
    least, most = within

    def at(value: float) -> float:
        return _ROW_EDGE + (1 - 2 * _ROW_EDGE) * (value - least) / (most - least)

    middle, parts = _ROW_HEIGHT / 2, [line(at(0), 0, at(0), _ROW_HEIGHT, more=' stroke-dasharray="3 2" opacity=".5"')]
    known = low is not None and high is not None
    if low is not None and high is not None:
        parts.append(line(at(low), middle, at(high), middle, BLUE, 2.5))
    parts.append(dot(at(mean), middle, hollow=not known, radius=3.5))
    return Html(picture(with_interval(plus(mean, 1), low, high), _ROW_HEIGHT, *parts))


def scale_axis(within: tuple[float, float]) -> Html:
    """Draw the numbers of a scale over the rows that share it; see ``scale``."""
    least, most = within
    places = [(mark, _ROW_EDGE + (1 - 2 * _ROW_EDGE) * (mark - least) / (most - least)) for mark in round_steps(least, most, 4)]
    said = [text(at, 11, f"{mark:+,g}" if mark else "0", anchor=_inward(at)) for mark, at in places]
    return Html(picture(f"scale from {plus(least)} to {plus(most)}", 15, *said))


def _inward(at: float) -> str:
    return "start" if at < 0.1 else "end" if at > 0.9 else "middle"


def sparkline(totals: Sequence[float]) -> Html:
    """Draw how a sum went, beside zero; empty without two values."""
    if len(totals) < 2:
        return Html("")
    least, most = scale(totals)

    def y(value: float) -> float:
        return _ROW_HEIGHT - 2 - (_ROW_HEIGHT - 4) * (value - least) / (most - least)

    points = [(number / (len(totals) - 1), y(total)) for number, total in enumerate(totals)]
    drawn = f'<path d="{path(points)}" fill="none" stroke="{BLUE}" stroke-width="1.4" vector-effect="non-scaling-stroke"/>'
    zero = line(0, y(0), 1, y(0), more=' opacity=".3"')
    return Html(picture(f"from {plus(totals[0])} to {plus(totals[-1])}", _ROW_HEIGHT, zero, stretched(_ROW_HEIGHT, drawn)))
