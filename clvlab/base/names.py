"""Suggestions for wrong names, and unprintable names as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import update_wrapper
from inspect import Signature, signature
from types import FunctionType
from typing import Any, ParamSpec, TypeVar

from clvlab.errors import ArgumentError

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def printable(text: str) -> str:
    r"""Return a text on one line, with each unprintable character as Python's escape.

    Examples
    --------
    >>> printable("odds\x00.csv\x1b[31m")
    'odds\\x00.csv\\x1b[31m'
    """
    return text if text.isprintable() else "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def nearest(value: object, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant, ignoring case and dashes; ``None`` if no name is near.

    Examples
    --------
    >>> nearest("Cumulative_drift", ["baseline", "cumulative-drift"])
    'cumulative-drift'
    >>> nearest("1x2", ["1X2_PARTICIPANT_RESULT||", "totals||point=2.5"])
    '1X2_PARTICIPANT_RESULT||'
    >>> nearest("momentum", ["baseline", "cumulative-drift"])
    """
    names: dict[str, str] = {}
    for name in known:
        names.setdefault(_plain(name), str(name))
    wanted = _plain(str(value)[:200])
    found = get_close_matches(wanted, names, 1, cutoff=0.7) or [name for name in names if name.startswith(wanted)]
    return names[found[0]] if wanted and len(found) == 1 else None


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter not in "-_ ./|")


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return ``: did you mean 'name'?`` to append to an error, empty if no name is near.

    Examples
    --------
    >>> "no pack 'startr'" + did_you_mean("startr", ["season", "starter"])
    "no pack 'startr': did you mean 'starter'?"
    """
    found = nearest(name, known)
    return "" if found is None else f": did you mean {found!r}?"


def among(name: object, known: Iterable[str]) -> str:
    """Return the name that was probably meant, and all names, to append to an error.

    Examples
    --------
    >>> among("warmup", ["stake", "cooldown_s"])
    '; it has: stake, cooldown_s'
    """
    names = list(known)
    meant = did_you_mean(name, names)
    return f"{meant} It has: {', '.join(names)}" if meant else f"; it has: {', '.join(names)}"


def names_checked(verb: Callable[P, R]) -> Callable[P, R]:
    """Return a function whose ``ArgumentError`` for a wrong or missing argument suggests the right one."""
    shape = signature(verb)

    def checked(*values: Any, **named: Any) -> Any:
        try:
            bind(*values, **named)
        except TypeError as error:
            raise refused(named, error) from None
        return verb(*values, **named)

    def refused(named: Iterable[str], error: TypeError) -> ArgumentError:
        return ArgumentError(_refusal(verb, shape, named, error))

    bind = shape.bind
    # Doctests find a function by its globals, so the wrapper has the globals of the wrapped function.
    made = FunctionType(checked.__code__, verb.__globals__, verb.__name__, None, checked.__closure__)
    return update_wrapper(made, verb)


def fields_checked(made: type[T]) -> type[T]:
    """Return a dataclass that checks its arguments as ``names_checked`` does."""
    type.__setattr__(made, "__init__", names_checked(vars(made)["__init__"]))
    return made


def _refusal(verb: Callable[..., Any], shape: Signature, named: Iterable[str], error: TypeError) -> str:
    known = [name for name, one in shape.parameters.items() if name != "self" and one.kind is not one.VAR_KEYWORD]
    name = getattr(verb, "__qualname__", "this").removesuffix(".__init__").rpartition(".")[2]
    strange = [argument for argument in named if argument not in known]
    listed = f"it has: {', '.join(known)}"
    if not strange:
        return f"{name}: {error}; {listed}"
    first = strange[0]
    if "params" in known and nearest(first, known) is None:
        return f"{name} has no argument {first!r}; a parameter of the agent goes into params={{{first!r}: ...}}; {listed}"
    return no_argument(name, first, known)


def no_argument(verb: str, name: str, known: Iterable[str]) -> str:
    """Return the error text of an unknown argument.

    Examples
    --------
    >>> no_argument("import_odds", "timezone", ["margin", "time_zone"])
    "import_odds has no argument 'timezone': did you mean 'time_zone'? It has: margin, time_zone"
    """
    return f"{verb} has no argument {name!r}{among(name, known)}"
