"""What the guards count; ``python -m tests.architecture.figures`` prints every figure in the form of ``budget.toml``.

Nothing here looks at a clock: a count is the same on an idle machine and on a busy one.
"""

import ast
import tokenize
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
BUDGET = Path(__file__).with_name("budget.toml")
PACKAGES = {"clvlab": ROOT / "clvlab", "clvlab_service": ROOT / "service" / "clvlab_service"}
SPELLED = ("min_clv_horizon_s", "max_exposure_per_market", "max_overround", "1X2_PARTICIPANT_RESULT")
SLACK_PERCENT = {"lines": 3, "files": 3, "ideas": 0, "trips": 5}
"""How far a bound may stand above its figure; a figure above its bound is never right."""

_LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip


def budget(kind: str) -> dict[str, int]:
    """Return the bounds of one table of ``budget.toml``; those of tables within it are named ``verb.figure``."""
    table = tomllib.loads(BUDGET.read_text(encoding="utf-8"))[kind]
    flat = {}
    for name, bound in table.items():
        flat |= {f"{name}.{inner}": each for inner, each in bound.items()} if isinstance(bound, dict) else {name: bound}
    return flat


def misfits(kind: str, figures: Mapping[str, int], bounds: Mapping[str, int]) -> list[str]:
    """Return a sentence for each figure above its bound, each bound too far above its figure, and each without the other."""
    percent, sentences = SLACK_PERCENT[kind], []
    for name in sorted({*figures, *bounds}):
        where = f"{BUDGET.name} [{kind}] {name}"
        figure, bound = figures.get(name), bounds.get(name)
        if figure is None:
            sentences.append(f"{where}: bounds what is no longer there; delete its line")
        elif bound is None:
            sentences.append(f"{where}: is {figure} and has no bound; write it down, and say in that file why it came")
        elif figure > bound:
            sentences.append(f"{where}: is {figure}, its bound {bound}; make it smaller, or raise it and say why in that file")
        elif 100 * bound > (100 + percent) * figure:
            sentences.append(f"{where}: is {figure}, its bound {bound}; lower it to {figure}")
    return sentences


@cache
def sources() -> Mapping[str, Path]:
    """Return the file of each of our modules, by its dotted name."""
    files = {}
    for package, folder in PACKAGES.items():
        for path in sorted(folder.rglob("*.py")):
            parts = [package, *path.relative_to(folder).with_suffix("").parts]
            files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes(), path.name)


def folder_of(path: Path) -> str:
    """Return the first-level folder of ``clvlab`` a module stands in; the service is one folder."""
    parts = path.relative_to(ROOT).parts
    return "clvlab_service" if parts[0] == "service" else "/".join(parts[:2] if len(parts) > 2 else parts[:1])


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def code_lines(path: Path) -> int:
    """Count the lines of a module that are no blank, docstring, comment or import."""
    lines = path.read_text(encoding="utf-8").splitlines()
    with path.open("rb") as file:
        tokens = [token for token in tokenize.tokenize(file.readline) if token.type not in _LAYOUT]
    code = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import | ast.ImportFrom) or _is_text(node):
            code -= set(range(node.lineno, node.end_lineno + 1))
    return sum(1 for line in code if lines[line - 1].strip())


@cache
def sizes() -> dict[str, dict[str, int]]:
    """Count the code lines and files of each folder."""
    lines, files = Counter(), Counter()
    for path in sources().values():
        lines[folder_of(path)] += code_lines(path)
        files[folder_of(path)] += 1
    return {"lines": dict(lines), "files": dict(files)}


def _imports(name: str, path: Path) -> Iterator[str]:
    """Yield our modules that a module imports, at its top or in a function."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in sources())
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield from (found for found in (inner if inner in sources() else base,) if found in sources())


def closets() -> list[str]:
    """Return the modules that exactly one other module imports; a package's ``__init__`` is a face, not a closet."""
    importers = defaultdict(set)
    for name, path in sources().items():
        for found in _imports(name, path):
            if found != name and sources()[found].name != "__init__.py":
                importers[found].add(name)
    return sorted(found for found, by in importers.items() if len(by) == 1)


def namesakes() -> dict[str, list[str]]:
    """Return the class names that stand in two or more modules, and where."""
    places = defaultdict(set)
    for name, path in sources().items():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef):
                places[node.name].add(name)
    return {name: sorted(modules) for name, modules in sorted(places.items()) if len(modules) > 1}


def untyped() -> dict[str, int]:
    """Count ``dict[str, Any]`` in the modules where it stands."""
    counts = {name: path.read_text(encoding="utf-8").count("dict[str, Any]") for name, path in sources().items()}
    return {name: count for name, count in counts.items() if count}


def spelled(literal: str) -> list[str]:
    """Return the modules with a string that holds a literal; what a docstring says is no spelling of it."""
    return [name for name, path in sources().items() if any(literal in text for text in _strings(path))]


@cache
def _strings(path: Path) -> frozenset[str]:
    docs = {id(node.value) for node in ast.walk(tree(path)) if _is_text(node)}
    constants = (node for node in ast.walk(tree(path)) if isinstance(node, ast.Constant) and id(node) not in docs)
    return frozenset(node.value for node in constants if isinstance(node.value, str))


def ideas() -> dict[str, int]:
    """Count what shows one idea in many places."""
    return {
        "modules_with_one_importer": len(closets()),
        "class_names_in_several_modules": len(namesakes()),
        "dict_str_any": sum(untyped().values()),
        **{literal: len(spelled(literal)) for literal in SPELLED},
    }


def main() -> None:
    """Print every figure, in the form of ``budget.toml``."""
    for kind, figures in {**sizes(), "ideas": ideas()}.items():
        _print(kind, figures)
    from tests.architecture.trips import VERBS, settled_trip  # which bring in what they go through

    for verb in VERBS:
        with TemporaryDirectory() as folder:
            trip = settled_trip(verb, Path(folder))
        _print(f"trips.{verb}", trip.figures(verb))


def _print(table: str, figures: Mapping[str, int]) -> None:
    names = {name: name if name.isidentifier() else f'"{name}"' for name in sorted(figures)}
    print(f"[{table}]", *(f"{names[name]} = {figures[name]}" for name in names), sep="\n", end="\n\n")


if __name__ == "__main__":
    main()
