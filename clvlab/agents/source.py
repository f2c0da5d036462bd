"""Digest of a user agent's source. In a seal it identifies the agent's code."""

from __future__ import annotations
import __future__

import ast
import dataclasses
import dis
import inspect
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from copy import copy
from functools import cached_property, lru_cache
from textwrap import dedent
from types import CodeType, FunctionType, GetSetDescriptorType, MemberDescriptorType, MethodType
from typing import Any

from clvlab.proof.canonical import sha256

_FUTURE = sum({getattr(__future__, name).compiler_flag for name in __future__.all_feature_names})


def source_sha256(code: Callable[..., Any] | type) -> str | None:
    """Return the hash of the text of a function or class. Without a file, as in ``python -c``, hash its bytecode.

    ``None`` unless the text compiles to the code that runs, because an agent could show the text of another agent. The hash
    does not cover code that the agent calls or reads from elsewhere. Bytecode is specific to a version of Python.
    """
    function = code.__func__ if isinstance(code, MethodType) else code
    text: str | None = None
    try:
        if isinstance(function, type):
            text = _class_text(function)
        elif isinstance(function, FunctionType):
            text = _function_text(function.__code__)
    except (OSError, TypeError):  # no file holds it
        functions = [function] if inspect.isfunction(function) else [value for _, value in sorted(vars(function).items())]
        return sha256("\n".join(_stable_text(value.__code__) for value in functions if inspect.isfunction(value)).encode())
    return None if text is None else sha256(dedent(text).encode())


def agent_sha256(agent: object) -> str | None:
    """Return ``source_sha256`` of an agent's class; also ``None`` if the instance has functions of its own."""
    own = type(agent)
    replaced = any(inspect.isroutine(getattr(own, name, None)) for name in getattr(agent, "__dict__", {}))
    return None if replaced else source_sha256(own)


def digests_in(source: bytes, name: str) -> set[str]:
    try:
        tree, lines = ast.parse(source), source.decode().splitlines(keepends=True)
    except (SyntaxError, ValueError):  # such a source can't have a sealed digest
        return set()
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            found.add(sha256(dedent("".join(lines[_first(node) : node.end_lineno])).encode()))
    return found


def _first(node: ast.FunctionDef | ast.ClassDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) - 1


def _function_text(code: CodeType) -> str | None:
    """Return the text of a function; ``None`` if it compiles to other code."""
    lines, first = inspect.findsource(code)
    if code not in _codes("".join(lines), code.co_flags & _FUTURE):
        return None
    block = inspect.getblock(lines[first:])
    # If the first line is not a definition, ``inspect`` finds a definition above it, which belongs to another function.
    ends = max([code.co_firstlineno, *(line for *_, line in code.co_lines() if line)])
    return "".join(block) if first < code.co_firstlineno and ends <= first + len(block) else None


def _class_text(own: type) -> str | None:
    """Return the text of a class; ``None`` if one of its functions is not compiled from that text, or a base differs."""
    lines, first = inspect.findsource(own)
    text = "".join(lines)
    flags = next((part.co_flags for value in vars(own).values() for part in _parts(value)), 0) & _FUTURE
    bodies = [code for code in _codes(text, flags) if (code.co_qualname, code.co_firstlineno) == (own.__qualname__, first + 1)]
    if not any(_is_compiled(own, body) for body in bodies):
        return None
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef) and _first(node) == first)
    return "".join(inspect.getblock(lines[first:])) if any(_has_bases(own, node) for node in nodes) else None


@lru_cache(maxsize=8)  # read at every point of a grid
def _codes(text: str, flags: int) -> frozenset[CodeType]:
    try:
        return frozenset(_nested(compile(text, "<source>", "exec", flags, dont_inherit=True)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _nested(value)


def _is_compiled(own: type, body: CodeType) -> bool:
    """Check that a class's namespace and a compiled class body have the same functions under the same names."""
    by_name: defaultdict[str, list[CodeType]] = defaultdict(list)
    for value in body.co_consts:
        if isinstance(value, CodeType):
            by_name[_mangled(value.co_name, own)].append(value)
    assigned = {step.argval for step in dis.get_instructions(body) if step.opname == "STORE_NAME"}
    defined = {name for name in by_name if name in assigned}
    own_codes = [code for codes in by_name.values() for code in codes]
    generated = _generated(own)
    for name, value in vars(own).items():
        parts = _parts(value)
        if name in defined:
            same = _is_one_of(value, parts, by_name[name])
        elif parts:
            same = _same_parts(parts, own_codes if name in assigned else _parts(generated.get(name)))
        else:
            same = name in assigned or isinstance(value, _SLOTS) or not (callable(value) or hasattr(type(value), "__get__"))
        if not same:
            return False
    return defined <= vars(own).keys()


def _is_one_of(value: object, parts: list[CodeType], codes: list[CodeType]) -> bool:
    if isinstance(value, type):
        return any(value.__qualname__ == code.co_qualname and _is_compiled(value, code) for code in codes)
    return bool(parts) and _same_parts(parts, codes)


def _same_parts(parts: list[CodeType], codes: list[CodeType]) -> bool:
    return all(part in codes for part in parts)


_SLOTS = (MemberDescriptorType, GetSetDescriptorType)


def _mangled(name: str, own: type) -> str:
    private = name.startswith("__") and not name.endswith("__")
    return f"_{own.__name__.lstrip('_')}{name}" if private else name


def _parts(value: object) -> list[CodeType]:
    """Return the code that runs when an attribute of a class is read or called, for Python's own types."""
    if isinstance(value, FunctionType):
        return [value.__code__]
    # Only these exact types count, because a subclass may run any code.
    if isinstance(value, staticmethod | classmethod) and type(value) in (staticmethod, classmethod):
        return _parts(value.__func__)
    if type(value) is property:
        return [part for each in (value.fget, value.fset, value.fdel) for part in _parts(each)]
    return _parts(value.func) if type(value) is cached_property else []


def _generated(own: type) -> dict[str, object]:
    """Return the namespace that ``dataclass`` generates for a class of the same fields. No file holds that code."""
    params = vars(own).get("__dataclass_params__")
    if params is None:
        return {}
    every = vars(own)["__dataclass_fields__"].values()
    kinds = {"_FIELD": object, "_FIELD_INITVAR": dataclasses.InitVar[object]}
    typed = [(each, kinds.get(each._field_type.name)) for each in every]  # noqa: SLF001  it is said in no other way
    fields = [(each.name, kind, copy(each)) for each, kind in typed if kind is not None]
    namespace = {"__post_init__": _generated} if hasattr(own, "__post_init__") else {}
    chosen = {name: getattr(params, name) for name in ("init", "repr", "eq", "order", "unsafe_hash", "frozen")}
    slots = "__slots__" in vars(own)
    return dict(vars(dataclasses.make_dataclass(own.__name__, fields, namespace=namespace, slots=slots, **chosen)))


def _has_bases(own: type, node: ast.ClassDef) -> bool:
    """Check that a class has the bases that its text names. Classes without functions differ only in their bases."""
    if not node.bases:
        return own.__bases__ == (object,)
    module = vars(sys.modules[own.__module__])
    for base in node.bases:
        stated = base.value if isinstance(base, ast.Subscript) else base
        if isinstance(stated, ast.Name) and isinstance(module.get(stated.id), type):
            same = module[stated.id] in own.__bases__
        elif isinstance(stated, ast.Name | ast.Attribute):
            name = stated.id if isinstance(stated, ast.Name) else stated.attr
            same = name in {each.__name__ for each in own.__bases__}
        else:
            same = True  # the base is an expression, which may give any class
        if not same:
            return False
    return True


def _stable_text(value: object) -> str:
    """Return bytecode and its constants as text that is the same in every process."""
    if isinstance(value, CodeType):
        names = (value.co_names, value.co_varnames, value.co_freevars)
        return f"{value.co_name}:{value.co_code.hex()}:{names}:{_stable_text(value.co_consts)}"
    if isinstance(value, tuple):
        return f"({','.join(map(_stable_text, value))})"
    if isinstance(value, frozenset):
        return f"{{{','.join(sorted(map(_stable_text, value)))}}}"
    return f"{type(value).__name__} {value!r}"
