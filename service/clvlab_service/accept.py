"""What a client would rather have, as its ``Accept`` says (RFC 9110, section 12.5.1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from starlette.datastructures import Headers
from starlette.types import Scope

JSON, ARROW, HTML = "application/json", "application/vnd.apache.arrow.stream", "text/html"

_RANGE = re.compile(r"\s*([^\s;/]+)/([^\s;/]+)\s*(;.*)?", re.DOTALL)
_QUALITY = re.compile(r";\s*q\s*=\s*([^\s;]*)\s*(?:;|$)", re.IGNORECASE)
_WEIGHT = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")


def qualities(accept: str) -> dict[str, float]:
    """Return the quality of each media range; what is no media range with a quality is passed over."""
    return dict(filter(None, map(_range, accept.split(","))))


def _range(text: str) -> tuple[str, float] | None:
    parts = _RANGE.fullmatch(text)
    if parts is None:
        return None
    weight = _QUALITY.search(parts[3] or "")
    if weight is not None and not _WEIGHT.fullmatch(weight[1]):
        return None
    return f"{parts[1]}/{parts[2]}".lower(), 1.0 if weight is None else float(weight[1])


def quality(given: Mapping[str, float], media_type: str) -> float:
    """Return how welcome a media type is: the most specific range that matches says so."""
    whole_type = f"{media_type.partition('/')[0]}/*"
    return next((given[name] for name in (media_type, whole_type, "*/*") if name in given), 0.0)


@lru_cache(maxsize=256)
def prefers_page(accept: str) -> bool:
    """Tell whether a page is named, and more welcome than any other form: so ask browsers, and no program by default.

    Examples
    --------
    >>> prefers_page("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"), prefers_page("text/html, */*")
    (True, False)
    """
    given = qualities(accept)
    others = (quality(given, JSON), given.get("*/*", 0.0), given.get(ARROW, 0.0))
    return given.get(HTML, 0.0) > max(others)


def asks_for_page(scope: Scope) -> bool:
    """Tell whether a request is one that is answered with a page."""
    if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
        return False
    accept = ",".join(Headers(scope=scope).getlist("accept"))
    return HTML in accept.lower() and prefers_page(accept)
