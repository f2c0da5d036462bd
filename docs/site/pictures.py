"""Pictures as a part of their page, so that they are drawn in its ink, on light and on dark."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

__all__ = ["inlined"]

_IMAGE = re.compile(r'<img alt="([^"]*)" src="([^":]*/)?([\w-]+)\.svg" ?/?>')


def inlined(html: str, folder: Path) -> str:
    """Return a page with its SVG pictures in place of references to them.

    Parameters
    ----------
    html
        Content of the page.
    folder
        Where the page's Markdown lies; pictures are found from there.
    """
    return _IMAGE.sub(lambda image: _picture(image[1], folder / (image[2] or "") / f"{image[3]}.svg"), html)


def _picture(alt: str, path: Path) -> str:
    drawn = path.read_text("utf-8")
    # Names inside a picture are its own: two pictures of a page may both have a `figure_1`.
    for name in set(re.findall(r' id="([^"]+)"', drawn)):
        drawn = re.sub(rf'( id="|"#|url\(#){re.escape(name)}(?=["\)])', rf"\g<1>{path.stem}-{name}", drawn)
    drawn = re.sub(r'(<svg[^>]*?) color="[^"]*"', r"\1", drawn, count=1)
    label = unescape(alt).replace('"', "&quot;")
    drawn = re.sub(r'(<svg[^>]*?) aria-label="[^"]*"', rf'\1 aria-label="{label}"', drawn, count=1)
    return f'<span class="picture">{drawn.strip()}</span>'
