"""Import audit: nothing but the law, the proof and a fixed set of modules may decide a score.

The trust folders are closed: what they import is audited with them. An allowlist, not a list of known model vendors,
so that tomorrow's vendor fails too. Dynamic imports have no allowed form.
"""

from __future__ import annotations

import ast
import hashlib
from functools import lru_cache
from pathlib import Path
from threading import Lock

__all__ = ["ALLOWED_MODULES", "TRUST", "audit", "package_folder", "violations"]

TRUST = ("errors.py", "law", "proof")
ALLOWED_MODULES = frozenset(
    {
        "__future__", "argparse", "ast", "base64", "bisect", "collections", "concurrent", "csv", "dataclasses", "decimal",
        "enum", "functools", "gc", "hashlib", "io", "itertools", "json", "math", "orjson", "pathlib", "polars", "pyarrow",
        "re", "sys", "threading", "typing",
    }
)  # fmt: skip
_OWN = ("clvlab.errors", "clvlab.law", "clvlab.proof")
_ALONE = {  # what is run as a file of its own opens files itself, and imports the one beside it
    ("proof/clv_states.py", "clv_verify"),
    ("proof/clv_verify.py", "os"),
    ("proof/clv_verify.py", "stat"),
}
_FORBIDDEN_NAMES = frozenset(
    {"__builtins__", "__import__", "__loader__", "__spec__", "compile", "eval", "exec", "getattr", "globals", "locals",
     "vars"}
)  # fmt: skip
_FORBIDDEN_ATTRIBUTES = frozenset(
    {"__builtins__", "__dict__", "__globals__", "__import__", "__loader__", "__spec__", "__subclasses__",
     "builtins", "importlib", "import_module", "load_module", "exec_module", "modules", "meta_path", "path_hooks"}
)  # fmt: skip

_PARSING = Lock()  # two threads in ast.parse at once can break each other's count of recursion (CPython 3.11)


def package_folder() -> Path:
    """Folder of the installed package, whose trust folders decide scores here."""
    return Path(__file__).parent.parent


def audit(folder: Path | None = None) -> tuple[str, ...]:
    """List every way in which the trust folders reach beyond themselves; empty is good.

    Parameters
    ----------
    folder
        Package folder that holds ``errors.py``, ``law`` and ``proof``; the installed one by default. A missing one is a
        violation: the audit fails closed.
    """
    root = package_folder() if folder is None else folder
    missing = tuple(f"{name} is missing" for name in TRUST if not (root / name).exists())
    if missing:
        return missing
    files = tuple(sorted(path for name in TRUST for path in _files(root / name)))
    digest = hashlib.sha256()
    for path in files:
        digest.update(str(path).encode() + b"\0" + path.read_bytes() + b"\0")
    with _PARSING:
        return _audited(root, files, digest.digest())


@lru_cache(maxsize=8)
def _audited(root: Path, files: tuple[Path, ...], _digest: bytes) -> tuple[str, ...]:
    found: list[str] = []
    for path in files:
        name = path.relative_to(root).as_posix()
        if path.suffix != ".py":
            found.append(f"{name}: only Python sources may stand in a trust folder")
        else:
            found += violations(path.read_text(encoding="utf-8"), name)
    return tuple(found)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return [p for p in path.rglob("*") if not p.is_dir() and "__pycache__" not in p.parts]


def violations(source: str, name: str) -> list[str]:
    """List what one source file (``name`` relative to the package) may not do."""
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        return [f"{name}: not Python: {error.msg}"]
    package = ["clvlab", *name.split("/")[:-1]]
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                targets = [alias.name for alias in node.names]
            case ast.ImportFrom():
                base = package[: len(package) - node.level + 1] if node.level else []
                module = ".".join([*base, *([node.module] if node.module else [])])
                # ``from clvlab import law`` names a module, ``from polars import Expr`` does not.
                targets = [f"{module}.{alias.name}" for alias in node.names] if module == "clvlab" else [module]
            case ast.Name() if node.id in _FORBIDDEN_NAMES:
                targets = [f"{node.id}()"]
            case ast.Attribute() if node.attr in _FORBIDDEN_ATTRIBUTES:
                targets = [f".{node.attr}"]
            case _:
                continue
        found += [
            f"{name}:{node.lineno}: {target}" for target in targets if not _allowed(target) and (name, target) not in _ALONE
        ]
    return found


def _allowed(target: str) -> bool:
    if target.split(".")[0] == "clvlab":
        return any(target == own or target.startswith(f"{own}.") for own in _OWN)
    return target.split(".")[0] in ALLOWED_MODULES and not target.endswith("()")
