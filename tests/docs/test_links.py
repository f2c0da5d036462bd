"""Every relative link and anchor leads somewhere, in pages, notebooks and docstrings; every picture says what it shows."""

import ast
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("docs/**/*.md")), ROOT / "README.md", ROOT / "CHANGELOG.md"]
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))
SOURCES = sorted([*ROOT.glob("clvlab/**/*.py"), *ROOT.glob("service/**/*.py")])
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")


def anchors(text):
    """The anchors of a page's headings, as GitHub makes them."""
    plain = [re.sub(r"\]\([^)]*\)|[^\w -]", "", heading.lower()) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    return {heading.replace(" ", "-") for heading in plain}


def dead(text, page):
    """The relative links of a text that lead nowhere from a page."""
    found = [target for target in LINK.findall(FENCE.sub("", text)) if "://" not in target and not target.startswith("mailto:")]
    return [target for target in found if not leads_somewhere(page, *target.partition("#")[::2])]


def leads_somewhere(page, path, anchor):
    target = page.parent / path if path else page
    if not target.exists():
        return False
    return not anchor or (target.suffix == ".md" and anchor in anchors(FENCE.sub("", target.read_text(encoding="utf-8"))))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_a_page_lead_somewhere(page):
    assert dead(page.read_text(encoding="utf-8"), page) == []


@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.name)
def test_links_of_a_notebook_lead_somewhere(page):
    cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")

    assert dead(text, page) == []


def test_pages_that_docstrings_name_are_there():
    missing = []
    for source in SOURCES:
        nodes = ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        texts = [
            ast.get_docstring(node) or "" for node in nodes if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        ]
        named = {path for text in texts for path in re.findall(r"\bdocs/[\w/.-]+\.\w+", text)}
        missing += [f"{source.name}: {path}" for path in sorted(named) if not (ROOT / path).exists()]
        missing += [f"{source.name}: {target}" for text in texts for target in dead(text, ROOT / "README.md")]

    assert missing == []


def test_pages_and_notebooks_that_text_names_are_there():
    for page in PAGES:
        named = set(re.findall(r"\b(?:docs|notebooks)/[\w/.-]+\.(?:md|ipynb|py|svg)\b", page.read_text(encoding="utf-8")))
        assert [path for path in sorted(named) if not (ROOT / path).exists()] == [], page.name


@pytest.mark.parametrize(
    ("text", "is_dead"),
    [
        ("[a](cli.md)", False),
        ("[a](cli.md#no-such-heading)", True),
        ("[a](nowhere.md)", True),
        ("[a](#glossary)", False),
        ("[a](https://example.org/x)", False),
        ("```text\n[a](nowhere.md)\n```", False),
    ],
)
def test_a_dead_link_is_found(text, is_dead):
    assert bool(dead(text, ROOT / "docs" / "reference" / "glossary.md")) == is_dead


def test_every_picture_says_what_it_shows():
    pictures = [(page, *found) for page in PAGES for found in PICTURE.findall(page.read_text(encoding="utf-8"))]

    assert len(pictures) > 10
    assert [alt for _, alt, _ in pictures if len(alt.split()) < 8 or re.match(r"(?i)(picture|image|graph|chart)\b", alt)] == []
    assert [target for page, _, target in pictures if not (page.parent / target).exists()] == []


def test_files_recipes_and_modules_that_pages_name_are_there():
    recipes = re.findall(r"^([a-z]+)[^:\n]*:", (ROOT / ".justfile").read_text(encoding="utf-8"), re.MULTILINE)
    folders = sorted(path.name for path in (ROOT / "clvlab").iterdir() if path.is_dir())
    own = re.compile(rf"(?:{'|'.join(['clvlab', 'service', 'tests', *folders])})/[\w/.-]*\.py")
    missing = []
    for page in PAGES[:-1]:  # the changelog names what was
        spans = re.findall(r"`([^`\n]+)`", FENCE.sub("", page.read_text(encoding="utf-8")))
        for span in spans:
            if own.fullmatch(span) and not any((folder / span).exists() for folder in (ROOT, ROOT / "clvlab")):
                missing.append(f"{page.name}: {span}")
            if (named := re.match(r"just ([a-z]+)", span)) and named[1] not in recipes:
                missing.append(f"{page.name}: {span}")
            if named := re.match(r"python3? -m (tests[\w.]*)", span):
                path = ROOT / named[1].replace(".", "/")
                if not (path.with_suffix(".py").exists() or (path / "__main__.py").exists()):
                    missing.append(f"{page.name}: {span}")

    assert missing == []
