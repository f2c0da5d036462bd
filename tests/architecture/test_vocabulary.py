"""One word for one thing: what `docs/CONTRIBUTING.md` says is out stands in no name, and in no sentence."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator

from tests.architecture import figures

PAGE = figures.ROOT / "docs" / "CONTRIBUTING.md"
DOCUMENTS = [figures.ROOT / "README.md", figures.ROOT / "CHANGELOG.md", *sorted((figures.ROOT / "docs").rglob("*.md"))]
NOUNS = {
    *("closing", "matching", "overfitting", "staking", "string", "setting", "ring", "feed", "seed", "embed", "speed"),
    *("binding", "standing", "meaning", "ranking", "recording", "listing", "mapping", "unmatched", "rendering", "tampering"),
}
"""Words that end like a gerund or a participle and are nouns, of the field or of the language."""
INTERFACE = {"ASKED", "NOT_SHOWN", "RunStarted", "Joined"}
"""Names of the interface: members whose values are its words, the payload of RUN_STARTED, a class that users import."""


def words_out(kind: str) -> list[str]:
    """Return the first column of a table of the page, its cells split at commas."""
    table = PAGE.read_text(encoding="utf-8").partition(f"| out of {kind} | instead |\n|---|---|\n")[2].partition("\n\n")[0]
    return [word.strip() for row in table.splitlines() for word in row.split("|")[1].split(",")]


def words_of(name: str) -> list[str]:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_").split("_")


def names_in(module: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


def sentences_of(source: str) -> Iterator[tuple[int, str]]:
    """Return the strings and comments of a module, with their lines; ``is None`` is code of an example or of an f-string."""
    texts = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in texts and " " in token.string:  # one word alone is a key
            yield from enumerate(token.string.replace("is None", "").splitlines(), token.start[0])


def prose_of(document: str) -> Iterator[tuple[int, str]]:
    """Return the lines of a document outside its code."""
    is_code = False
    for number, line in enumerate(document.splitlines(), 1):
        is_code ^= line.lstrip().startswith("```")
        if not is_code:
            yield number, re.sub(r"`[^`]*`", "", line)


def test_no_name_holds_a_word_that_is_out():
    out = set(words_out("names"))
    assert {"asked", "told", "said"} <= out

    found = [
        f"{name}:{line} {word}"
        for name, path in figures.sources().items()
        for line, word in names_in(figures.tree(path))
        if word not in INTERFACE and out & set(words_of(word))
    ]

    assert found == []


def test_no_module_and_no_class_is_named_by_what_happens():
    modules = [name for name in figures.sources() if _is_verbal(name.rpartition(".")[2])]
    classes = [
        f"{name}.{node.name}"
        for name, path in figures.sources().items()
        for node in ast.walk(figures.tree(path))
        if isinstance(node, ast.ClassDef) and _is_verbal(node.name)
    ]

    assert (modules, classes) == ([], [])


def _is_verbal(name: str) -> bool:
    last = words_of(name)[-1]
    return bool(re.search(r"(ing|ed)$", last)) and last not in NOUNS and name not in INTERFACE


def test_no_sentence_holds_a_word_that_is_out():
    out = re.compile(rf"\b(?:{'|'.join(words_out('prose'))})\b", re.IGNORECASE)
    assert out.search("It asks anew.")

    texts = {str(path): prose_of(path.read_text(encoding="utf-8")) for path in DOCUMENTS if path != PAGE}
    texts |= {name: sentences_of(path.read_text(encoding="utf-8")) for name, path in figures.sources().items()}
    found = [f"{where}:{line} {text.strip()}" for where, lines in texts.items() for line, text in lines if out.search(text)]

    assert found == []
