"""The digest of a user agent's source: what names its code in a seal."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from textwrap import dedent
from types import CodeType
from typing import Any

from clvlab.proof.canonical import sha256


def source_sha256(code: Callable[..., Any] | type) -> str:
    """Hash the text of a function or class; where no file holds one, as in ``python -c``, its bytecode.

    What the code calls or reads from elsewhere is not covered: agents that differ only there have the same digest. Bytecode
    is that of one version of Python.
    """
    try:
        return sha256(dedent(inspect.getsource(code)).encode())
    except (OSError, TypeError):  # no file holds it
        functions = [code] if inspect.isfunction(code) else [value for _, value in sorted(vars(code).items())]
        return sha256("\n".join(_spelled(value.__code__) for value in functions if inspect.isfunction(value)).encode())


def digests_in(source: bytes, name: str) -> set[str]:
    """Hash the text of each function and class of a name in a file, as ``source_sha256`` does, without running it."""
    try:
        tree, lines = ast.parse(source), source.decode().splitlines(keepends=True)
    except (SyntaxError, ValueError):  # then it has none that could have been sealed
        return set()
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) - 1
            found.add(sha256(dedent("".join(lines[first : node.end_lineno])).encode()))
    return found


def _spelled(value: object) -> str:
    """Spell bytecode and its constants without anything that differs from process to process."""
    if isinstance(value, CodeType):
        names = (value.co_names, value.co_varnames, value.co_freevars)
        return f"{value.co_name}:{value.co_code.hex()}:{names}:{_spelled(value.co_consts)}"
    if isinstance(value, tuple):
        return f"({','.join(map(_spelled, value))})"
    if isinstance(value, frozenset):
        return f"{{{','.join(sorted(map(_spelled, value)))}}}"
    return f"{type(value).__name__} {value!r}"
