"""The order of the pages: that of the home page, which lists every one of them."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

from docs.site import api

__all__ = ["OUTSIDE", "linked", "navigation"]

_TITLES = {"overview.md": "Overview", "changelog.md": "Changelog"}
_MARKS = re.compile(r"^( *```\w+)[ \t]+\S.*$", re.MULTILINE)
"""What tests read behind the language of a block."""
OUTSIDE = {"README": "overview.md", "CHANGELOG": "changelog.md"}
"""Pages of the project that lie above ``docs/``, and the names of them in the site."""

_PART = re.compile(r"^## ([\w-]+)$", re.MULTILINE)
_PAGE = re.compile(r"\]\(([\w/-]+\.md)\)")


def navigation(home: str, notebooks: Path) -> list[Any]:
    """Return MkDocs' navigation: the parts of the home page, the notebooks after the tutorials, the API before the rest.

    Parameters
    ----------
    home
        Markdown of the home page: a heading of each part, and under it a list of links to its pages.
    notebooks
        Folder of the notebooks.
    """
    _, *parts = _PART.split(home)
    found: list[Any] = [{"Home": ["README.md", *({_TITLES[path]: path} for path in OUTSIDE.values())]}]
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        pages = list(dict.fromkeys(_PAGE.findall(text)))
        found.append({name: pages})
        if name == "Tutorials":
            found.append({"Notebooks": [f"notebooks/{path.stem}.md" for path in sorted(notebooks.glob("*.ipynb"))]})
        if name == "How-to":
            found.append({"API": [path for path, _ in api.pages()]})
    return found


def linked(markdown: str, path: str, notebooks: Path) -> str:
    """Return a page whose links lead to pages where on disk they lead to files outside ``docs/``, as names of notebooks do.

    Parameters
    ----------
    markdown, path
        The page, and where it stands in the site.
    notebooks
        Folder of the notebooks.

    Examples
    --------
    >>> linked("[Start](../../README.md), then [go on](02_b.ipynb).", "how-to/x.md", Path("nowhere"))
    '[Start](../overview.md), then [go on](../notebooks/02_b.md).'
    >>> linked("[The law](docs/reference/law.md).", "changelog.md", Path("nowhere"))
    '[The law](reference/law.md).'
    """
    above = "../" * (len(PurePosixPath(path).parts) - 1)
    if path in OUTSIDE.values():
        markdown = markdown.replace("](docs/", "](")
    markdown = re.sub(
        rf"\]\({re.escape(above)}\.\./(README|CHANGELOG)\.md", lambda file: f"]({above}{OUTSIDE[file[1]]}", markdown
    )
    markdown = re.sub(r"\]\((?:[\w./]*/)?(\d\d_\w+)\.ipynb", rf"]({above}notebooks/\1.md", markdown)
    markdown = _MARKS.sub(r"\1", markdown)
    for source in notebooks.glob("*.ipynb"):
        name = rf"(?<!\[)`(?:notebooks/)?{re.escape(source.name)}`"
        markdown = re.sub(name, f"[`{source.name}`]({above}notebooks/{source.stem}.md)", markdown)
    return markdown
