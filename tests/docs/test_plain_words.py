"""Habits that make a reader read a sentence twice stay out of pages, notebooks and docstrings; CLV has one definition."""

import inspect
import json
import pkgutil
import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

from docs.site import api
from tests.docs.test_public_names import MEMBERS

ROOT = Path(__file__).parents[2]
GENERATED = {"http.md"}
PAGES = [page for page in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))] if page.name not in GENERATED]
GUIDES = [page for page in PAGES if page.parent.name in {"tutorials", "how-to", "explanation"} or page == ROOT / "README.md"]
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))
QUESTIONS = {"reading-a-tear-sheet.md"}
"""Pages with a table of questions, which may begin with "what"."""

KINDS = (FunctionType, property, cached_property, classmethod, staticmethod)

HABITS = {
    "a noun, not a clause with 'what'": r"\bwhat\b(?! a seal proves\b)(?![^.]*\?)",
    "a positive sentence": r"\b(?:nobody|nothing|no one|none of|whoever)\b",
    "a plain verb": r"\b(?:stands for|stands (?:next|under|in|on|at)|lies)\b",
    "a modern word": r"\b(?:hence|thereby|thus|whereby|upon|anew|beside|likewise)\b",
    "the subject first": r"^(?-i:Of|Whom|Whose|From what|To what) ",
}


def sentences(markdown: str) -> list[str]:
    """The sentences of running text, lists and tables, without code, quoted words, addresses and what is in a picture."""
    text = re.sub(r"^ *```.*?^ *```$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)|\]\([^)]*\)|`[^`]*`|^ {4,}\S.*$|\"[^\"]*\"", " ", text, flags=re.MULTILINE)
    lines = [re.sub(r"^[\s>*#-]+|^\d+\. ", "", line) for line in text.splitlines()]
    return [sentence.strip() for line in lines for sentence in re.split(r"(?<=[.!?:]) +| \| ", line) if sentence.strip()]


def found(texts: dict[str, str], habit: str) -> list[str]:
    pattern = re.compile(HABITS[habit], re.IGNORECASE)
    return [f"{name}: {one}" for name, text in texts.items() for one in sentences(text) if pattern.search(one)]


def cells(notebook: Path) -> str:
    return "\n\n".join(
        "".join(cell["source"])
        for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        if cell["cell_type"] == "markdown"
    )


def public(module: ModuleType) -> Iterable[str]:
    """The public names that a module defines."""
    own = (name for name, thing in vars(module).items() if getattr(thing, "__module__", "") == module.__name__)
    return getattr(module, "__all__", None) or (name for name in own if not name.startswith("_"))


def documented() -> dict[str, object]:
    """Everything on the pages of the API: functions, classes, and the public members of classes."""
    found, named = dict(MEMBERS), []
    for name in (name for page in api.PAGES for name in page.names):
        module, _, everything = name.partition(":")
        named += [f"{module}.{one}" for one in public(pkgutil.resolve_name(module))] if everything else [name]
    for name in named:
        thing = pkgutil.resolve_name(name)
        found[name] = thing
        own = vars(thing).items() if inspect.isclass(thing) else ()
        found |= {f"{name}.{key}": value for key, value in own if isinstance(value, KINDS) and not key.startswith("_")}
    return found


def prose_of(docstring: str) -> str:
    """A docstring without its examples, references and underlines."""
    text = re.sub(r"^(Examples|References)\n-+\n.*?(?=^\w+\n---|\Z)", "", docstring, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"``[^`]*``|^-+$|:\w+:", " ", text, flags=re.MULTILINE)


TEXTS = {
    "pages": {page.name: page.read_text(encoding="utf-8") for page in PAGES if page.name != "CONTRIBUTING.md"},
    "notebooks": {page.name: cells(page) for page in NOTEBOOKS},
    "docstrings": {
        name: prose_of(inspect.getdoc(thing.__func__ if isinstance(thing, classmethod | staticmethod) else thing) or "")
        for name, thing in documented().items()
        if not name.startswith("clvlab.api.")  # texts of the OpenAPI document
    },
}


@pytest.mark.parametrize("habit", HABITS)
@pytest.mark.parametrize("kind", TEXTS)
def test_no_sentence_has_the_habit(kind, habit):
    texts = {name: text for name, text in TEXTS[kind].items() if name not in QUESTIONS or "what" not in habit}

    assert found(texts, habit) == []


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_paragraphs_of_guides_have_one_claim_a_sentence(page):
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^(?: {2,}\S|[|!>*-]).*$|`[^`\n]*`|\([^)\n]*\)", "", text, flags=re.MULTILINE)

    assert [line for line in text.splitlines() if "; " in line] == []


def test_clv_is_defined_in_one_way():
    definition = re.compile(
        r"(?:CLV\)?|[Cc]losing-line value)(?:\]\([^)]*\))?(?:\*| \(CLV\))* (?:is how|means|measures|tells)|\(CLV\) is"
    )
    texts = {name: text for kind in TEXTS.values() for name, text in kind.items()}
    defined = [line for text in texts.values() for line in text.splitlines() if definition.search(line)]

    assert defined
    assert [line for line in defined if "how far the fair probability of your side rose from bet to close" not in line] == []
    assert [name for name, text in texts.items() if re.search(r"(?i)how much better .{0,20}(price|odds)", text)] == []


@pytest.mark.parametrize(
    ("text", "habit"),
    [
        ("It says what a run has.", "a noun, not a clause with 'what'"),
        ("| what | limit |", "a noun, not a clause with 'what'"),
        ("- Nothing is stored.", "a positive sentence"),
        ("A name stands for a formula.", "a plain verb"),
        ("It is computed. Of each fixture one side counts.", "the subject first"),
    ],
)
def test_a_habit_is_found(text, habit):
    assert len(found({"x": text}, habit)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "What does a seal prove?",
        "See [what a seal proves](x.md).",
        "```\nwhat\n```",
        "`nothing` is a key.",
        '"Says nothing" is quoted.',
    ],
)
def test_questions_titles_code_and_quotes_are_no_habits(text):
    assert [habit for habit in HABITS if found({"x": text}, habit)] == []
