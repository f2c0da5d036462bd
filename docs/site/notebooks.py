"""Notebooks as pages: their text, their code, and the outputs that are stored in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import escape
from itertools import count
from pathlib import Path
from typing import Any

from docs.site.pictures import with_own_names

__all__ = ["markdown", "with_outputs"]

_PLACE = re.compile(r'<div class="nb-output" id="output-(\d+)"></div>')
_PICTURE = re.compile(r"<svg.*?</svg>", re.DOTALL)
_NOTE = (
    "*The outputs are stored with the notebook, and widgets are still pictures. "
    "To run it: `jupyter lab notebooks/{name}`, with `clvlab[notebook]` installed.*"
)


def markdown(path: Path) -> str:
    """Return the page of a notebook, with an empty place for each of its outputs.

    Parameters
    ----------
    path
        An executed notebook. Its first cell is Markdown, and begins with the title.
    """
    title, *cells = _cells(path)
    parts = ["".join(title["source"]), _NOTE.format(name=path.name)]
    for number, cell in enumerate(cells, start=1):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        if cell["outputs"]:
            parts.append(f'<div class="nb-output" id="output-{number}"></div>')
    return "\n\n".join(parts) + "\n"


def with_outputs(html: str, path: Path) -> str:
    """Return the page with its outputs, in the richest form that needs no script."""
    cells = _cells(path)
    html = _PLACE.sub(lambda place: f'<div class="nb-output" tabindex="0">{_output(cells[int(place[1])])}</div>', html)
    numbers = count(1)
    return _PICTURE.sub(lambda picture: with_own_names(picture[0], f"picture-{next(numbers)}"), html)


def _output(cell: dict[str, Any]) -> str:
    """Return an output whose headings are under the title of the page, and whose wide tables the keyboard can scroll."""
    levelled = re.sub(r"<h[1-6]\b", r'\g<0> aria-level="2"', "".join(_shown(cell)))
    return levelled.replace('<div class="wide">', '<div class="wide" tabindex="0">')


def _cells(path: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["cells"]
    return cells


def _shown(cell: dict[str, Any]) -> Iterator[str]:
    for output in cell["outputs"]:
        if output["output_type"] == "stream":
            yield f"<pre>{escape(''.join(output['text']))}</pre>"
            continue
        if "application/vnd.jupyter.widget-view+json" in output["data"]:  # the output before it is its still picture
            continue
        forms = {kind: "".join(value) for kind, value in output["data"].items() if not isinstance(value, dict)}
        if "text/html" in forms:
            yield forms["text/html"]
        elif "image/png" in forms:
            said = escape("".join(cell["source"]).splitlines()[-1], quote=True)
            yield f'<img alt="What {said} draws" src="data:image/png;base64,{forms["image/png"].strip()}">'
        elif "text/plain" in forms:
            yield f"<pre>{escape(forms['text/plain'])}</pre>"
