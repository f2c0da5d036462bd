"""Lines of code that a user writes: those with a token, docstrings and comments left out."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

__all__ = ["code_lines", "lines_of"]

_FOLDER = Path(__file__).parents[1]
_EMPTY = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(source: str) -> int:
    r"""Count the lines of a module that hold code.

    Examples
    --------
    >>> code_lines('x = 1  # one\n\n# two\ndef f():\n    "says"\n    return x\n')
    3
    """
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, documented) and ast.get_docstring(node)]
    said = {line for node in nodes for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)}
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    held = (range(one.start[0], one.end[0] + 1) for one in tokens if one.type not in _EMPTY)
    return len({line for lines in held for line in lines} - said)


def lines_of(places: tuple[str, ...]) -> int:
    """Count the lines of files below the benchmarks, or of what is named of them as ``FILE:NAME,NAME``."""
    total = 0
    for place in places:
        path, _, names = place.partition(":")
        source = (_FOLDER / path).read_text(encoding="utf-8")
        if not names:
            total += code_lines(source)
            continue
        lines = source.splitlines()
        defined = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
        for name in names.split(","):
            node = defined[name]
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            total += code_lines("\n".join(lines[first - 1 : node.end_lineno]))
    return total
