"""The picture of numbers in a grid: a colour for each, the number in it, and a frame around those that stand out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from clvlab.drawing.ink import BLUE, RED, picture, text
from clvlab.words import plus

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
