"""What the site adds to the pages of ``docs/``: the API, the notebooks, links to the glossary, pictures in its ink."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

from docs.site import api, glossary, navigation, notebooks, pictures

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

_DOCS = Path(__file__).parents[1]
_NOTEBOOKS = _DOCS.parent / "notebooks"
_ERRORS = _DOCS.parent / "clvlab" / "errors.py"
_GLOSSARY = "reference/glossary.md"
_SEARCH = re.compile('data-md-component="search" role="dialog"')
_EMPTY_HEADER, _EMPTY_LINK = re.compile(r"<th( [^>]*)?></th>"), re.compile(r'<a(?: href="")? id="([^"]+)"(?: href="")?></a>')


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Take the order of the pages from the home page, which lists them."""
    config.nav = navigation.navigation((_DOCS / "README.md").read_text("utf-8"), _NOTEBOOKS)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in ``docs/``: of the API, of the notebooks, and of the project itself."""
    for path, text in api.pages():
        files.append(File.generated(config, path, content=text))
    for name, path in navigation.OUTSIDE.items():
        files.append(File.generated(config, path, content=(_DOCS.parent / f"{name}.md").read_text("utf-8")))
    for source in sorted(_NOTEBOOKS.glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{source.stem}.md", content=notebooks.markdown(source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001  named by MkDocs
    """Lead to the pages of the notebooks, and give every term of the glossary a place to link to."""
    path = page.file.src_uri
    if path == _GLOSSARY:
        return glossary.anchored(markdown)
    return navigation.linked(markdown, path, _NOTEBOOKS)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001  named by MkDocs
    """Put in outputs of notebooks and pictures, and link the first use of each term."""
    path = page.file.src_uri
    if path.startswith("notebooks/"):
        html = notebooks.with_outputs(html, _NOTEBOOKS / f"{Path(path).stem}.ipynb")
    if path.startswith("api/"):
        html = api.with_errors(html, re.findall(r"^class (\w+)", _ERRORS.read_text("utf-8"), re.MULTILINE))
    html = pictures.inlined(html, (_DOCS / path).parent)
    if path in (_GLOSSARY, "README.md", "changelog.md"):
        return html
    target = files.get_file_from_path(_GLOSSARY)
    terms = glossary.terms((_DOCS / _GLOSSARY).read_text("utf-8"))
    return glossary.linked(html, terms, target.url_relative_to(page.file)) if target else html


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:  # noqa: ARG001  named by MkDocs
    """Mend the theme's markup for readers by ear: the search gets a name; links and headers without text are neither."""
    named = _SEARCH.sub(r'\g<0> aria-label="Search"', output)
    return _EMPTY_HEADER.sub(r"<td\1></td>", _EMPTY_LINK.sub(r'<span id="\1"></span>', named))
