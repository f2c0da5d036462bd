"""Import audit: nothing but the law, the proof and a fixed set of names may decide a score.

The trust folders are closed: what they import is audited with them. An allowlist, not a list of known model vendors,
so that tomorrow's vendor fails too. Dynamic imports have no allowed form.

It guards maintainers against a slip. It is no wall: code that wants to hide from it can, by changing the audit itself,
the interpreter, or a library that is allowed.
"""

from __future__ import annotations

import ast
import gc
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from threading import Lock

from clvlab.proof.allowlist import ALLOWED_NAMES
from clvlab.proof.bytecode import Cached, foreign_bytecode, read_cache
from clvlab.proof.closure import TRUST, foreign_modules, package_folder, read_closure

_OWN = ("clvlab.errors", "clvlab.law", "clvlab.proof")
_EXCEPTIONS = frozenset(
    {
        ("proof/bytecode.py", "compile()"),
        ("proof/bytecode.py", "importlib.abc.SourceLoader"),
        ("proof/bytecode.py", "importlib.util.cache_from_source"),
        ("proof/bytecode.py", "types.CodeType"),
        ("proof/clv_states.py", "clv_verify"),  # run as a file, it imports the one beside it
        ("proof/clv_states.py", "sys.path"),
        ("proof/clv_verify.py", "os"),  # it opens files itself, without waiting for a pipe
        ("proof/clv_verify.py", "stat"),
        ("proof/closure.py", "sys.modules"),
    }
)
_FORBIDDEN_NAMES = frozenset({"breakpoint", "compile", "eval", "exec", "getattr", "globals", "help", "locals", "vars"})
_SPECIAL_NAMES = frozenset({"__all__", "__file__", "__name__", "__package__"})
_SPECIAL_ATTRIBUTES = frozenset({"__file__", "__init__", "__name__", "__setattr__"})
_FORBIDDEN_ATTRIBUTES = frozenset(
    {"ag_frame", "builtins", "cr_frame", "exec_module", "gi_frame", "import_module", "importlib", "load_module", "meta_path",
     "modules", "os", "path_hooks", "subprocess", "sys"}
)  # fmt: skip

_PARSING = Lock()

Names = Mapping[str, Collection[str]]


def audit(folder: Path | None = None) -> tuple[str, ...]:
    """List every way in which the trust folders reach beyond themselves; empty is good.

    Parameters
    ----------
    folder
        Package folder that holds ``errors.py``, ``law`` and ``proof``; the installed one by default, of which the modules
        that are loaded must come from these sources too. A missing one is a violation: the audit fails closed.
    """
    root = package_folder() if folder is None else folder
    missing = tuple(f"{name} is missing" for name in TRUST if not (root / name).exists())
    if missing:
        return missing
    closure = read_closure(root)
    bytecode = read_cache(root, closure.sources)
    found = _audited(tuple(closure.sources.items()), bytecode)
    return (*closure.strays, *found, *(foreign_modules(root, closure.sources) if folder is None else ()))


@lru_cache(maxsize=4)
def _audited(read: tuple[tuple[str, bytes], ...], bytecode: tuple[Cached, ...]) -> tuple[str, ...]:
    parsed = {name: _nodes(source) for name, source in read}
    own: dict[str, set[str]] = {one: set() for one in _OWN}
    for name in parsed:
        parts = _module(name).split(".")
        own |= {".".join(parts[:end]): set() for end in range(2, len(parts) + 1)}
    for name, nodes in parsed.items():
        if not isinstance(nodes, str):
            own[_module(name)] |= {bound for _, bound, target, _ in _imports(nodes, name) if _is_module(target, own)}
    found = [violation for name, nodes in parsed.items() for violation in _violations(nodes, name, own)]
    return (*found, *foreign_bytecode(dict(read), bytecode))


def _module(name: str) -> str:
    return f"clvlab.{name.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}"


def violations(source: str | bytes, name: str) -> list[str]:
    """List what one source file (``name`` relative to the package) may not do."""
    return list(_violations(_nodes(source), name, None))


def _nodes(source: str | bytes) -> list[ast.AST] | str:
    """Parse a source in the encoding that it names, or say why it can't be."""
    try:
        return list(ast.walk(_parsed(source)))
    except (MemoryError, RecursionError, SyntaxError, ValueError) as error:
        return str(error)


def _parsed(source: str | bytes) -> ast.AST:
    """Parse without a pause: CPython 3.11 keeps one count of the depth for all threads, so none may parse in between.

    Only a collection of cycles lets another thread run here. Two of us at once would each turn collecting on for the other.
    """
    with _PARSING:
        collects = gc.isenabled()
        gc.disable()
        try:
            return ast.parse(source)
        finally:
            if collects:
                gc.enable()


def _violations(nodes: list[ast.AST] | str, name: str, own: Names | None) -> Iterator[str]:
    if isinstance(nodes, str):
        yield f"{name}: not Python: {nodes}"
        return
    for line, target in _reached(nodes, name, own):
        if (name, target) not in _EXCEPTIONS:
            yield f"{name}:{line}: {target}"


def _reached(nodes: list[ast.AST], name: str, own: Names | None) -> Iterator[tuple[int, str]]:
    """Yield what the source may not reach, with its line.

    1. an import of what is not allowed; 2. a name of a module that is not allowed; 3. a module in any other place than
    before a dot, from where it could not be followed; 4. names and attributes that lead around imports.
    """
    modules: dict[str, set[str]] = {}
    for line, bound, target, imported in _imports(nodes, name):
        modules.setdefault(bound, set()).add(target)
        if not _allowed(imported, own):  # 1
            yield line, imported
    dotted = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        match node:
            case ast.Attribute():
                targets = [f"{module}.{node.attr}" for module in _named(node.value, modules, own)]
                yield from ((node.lineno, target) for target in targets if not _allowed(target, own))  # 2
                if not targets and _leads_around(node.attr, private=not _is_own_object(node.value)):
                    yield node.lineno, f".{node.attr}"  # 4
            case ast.MatchClass():
                yield from ((node.cls.lineno, f".{attr}") for attr in node.kwd_attrs if _leads_around(attr, private=True))
            case ast.Name() if node.id in _FORBIDDEN_NAMES or (node.id.startswith("__") and node.id not in _SPECIAL_NAMES):
                yield node.lineno, f"{node.id}()"
        if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in dotted:
            yield from ((node.lineno, f"{module} as a value") for module in _named(node, modules, own))  # 3


def _imports(nodes: list[ast.AST], name: str) -> Iterator[tuple[int, str, str, str]]:
    """Yield line, bound name, what it is bound to, and what is imported: ``import a.b`` binds ``a``."""
    for node in nodes:
        match node:
            case ast.Import():
                for alias in node.names:
                    top = alias.name.split(".")[0]
                    yield node.lineno, alias.asname or top, alias.name if alias.asname else top, alias.name
            case ast.ImportFrom():
                package = ["clvlab", *name.split("/")[:-1]]
                base = package[: len(package) - node.level + 1] if node.level else []
                module = ".".join([*base, *([node.module] if node.module else [])])
                for alias in node.names:
                    yield node.lineno, alias.asname or alias.name, f"{module}.{alias.name}", f"{module}.{alias.name}"


def _named(node: ast.AST, modules: Names, own: Names | None) -> list[str]:
    """Name the modules that an expression may stand for."""
    attributes = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    named = list(modules.get(node.id, ())) if isinstance(node, ast.Name) else []
    for attribute in reversed(attributes):
        named = [f"{module}.{attribute}" for module in named if _is_module(module, own)]
    return [module for module in named if _is_module(module, own)]


def _is_module(target: str, own: Names | None) -> bool:
    return target == "clvlab" or target in ALLOWED_NAMES or (own is not None and target in own)


def _allowed(target: str, own: Names | None) -> bool:
    module, _, name = target.rpartition(".")
    if not any(target == one or target.startswith(f"{one}.") for one in _OWN):
        return target in ALLOWED_NAMES or name in ALLOWED_NAMES.get(module, ())
    return name != "*" and (own is None or target in own or (module in own and name not in own[module]))


def _is_own_object(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _leads_around(attribute: str, *, private: bool) -> bool:
    if attribute.startswith("__"):
        return attribute not in _SPECIAL_ATTRIBUTES
    return attribute in _FORBIDDEN_ATTRIBUTES or (private and attribute.startswith("_"))
