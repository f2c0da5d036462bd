"""Query parameters: those that a route declares, each once, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args, get_origin

from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.requests import HTTPConnection
from pydantic import BaseModel

_MOST_DIGITS = 100
_SEVERAL = (list, set, frozenset, tuple, Sequence)


def shortened(text: str) -> str:
    """Leave of a number that is longer than any decision's what an integer holds: it is unknown either way."""
    return text[:_MOST_DIGITS] if text.lstrip("-").isdecimal() else text


async def only_declared(connection: HTTPConnection) -> None:
    """Refuse a query with a parameter that the route does not declare, or with a single one that stands twice.

    A misspelt filter that is ignored gives a wrong answer that looks right.

    Raises
    ------
    RequestValidationError
        Names every such parameter.
    """
    query, route = connection.query_params, connection.scope["route"]
    if not query or not (getattr(route, "include_in_schema", True) or getattr(route, "is_page", False)):
        return
    declared = _declared(route.dependant)
    wrong = []
    for name in dict.fromkeys(name for name, _ in query.multi_items()):
        values = query.getlist(name)
        if name not in declared:
            known = f"there are: {', '.join(sorted(declared))}" if declared else "this path takes no parameters"
            wrong.append(_fault(name, "extra_forbidden", f"unknown parameter {name[:100]!r}; {known}", values[0]))
        elif len(values) > 1 and not _is_several(declared[name]):
            wrong.append(_fault(name, "repeated", f"parameter {name!r} stands {len(values)} times: give one", values))
    if wrong:
        raise RequestValidationError(wrong)


def _declared(dependant: Dependant) -> dict[str, Any]:
    """Return the parameters of a route and of what it depends on, with their types; a model stands for its fields."""
    found: dict[str, Any] = {}
    for field in dependant.query_params:
        kind = field.field_info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found |= {own.alias or name: own.annotation for name, own in kind.model_fields.items()}
        else:
            found[field.alias] = kind
    for inner in dependant.dependencies:
        found |= _declared(inner)
    return found


def _fault(name: str, kind: str, message: str, given: Any) -> dict[str, Any]:
    """Return a fault in the form that the framework's own checks have."""
    return {"type": kind, "loc": ("query", name), "msg": message, "input": given}


def _is_several(annotation: Any) -> bool:
    """Whether a parameter may stand several times: its type, or an alternative of it, is a sequence."""
    return get_origin(annotation) in _SEVERAL or annotation in _SEVERAL or any(map(_is_several, get_args(annotation)))
