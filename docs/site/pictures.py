"""Pictures as a part of their page, so that they are drawn in its ink, on light and on dark."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["inlined", "with_own_names"]

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


def with_own_names(svg: str, prefix: str) -> str:
    """Return a picture whose names of parts begin with a prefix: two pictures of a page may both have a `figure_1`.

    >>> with_own_names('<path id="p"/><use href="#p" clip-path="url(#p)"/>', "clv")
    '<path id="clv-p"/><use href="#clv-p" clip-path="url(#clv-p)"/>'
    """
    return re.sub(r'( id="|(?<=href=")#|(?<=url\()#)(?=[\w.-]+["\)])', rf"\g<1>{prefix}-", svg)


def _picture(alt: str, path: Path) -> str:
    drawn = with_own_names(path.read_text("utf-8"), path.stem)
    drawn = re.sub(r'(<svg[^>]*?) color="[^"]*"', r"\1", drawn, count=1)
    drawn = re.sub(r'(?<= aria-label=")[^"]*', lambda _: alt, drawn, count=1)
    return f'<span class="picture">{drawn.strip()}</span>'
