"""Pages made from templates: the files that they may load, and their contents."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from fastapi.requests import HTTPConnection
from fastapi.responses import HTMLResponse
from jinja2 import Environment
from markupsafe import Markup

from clvlab import words
from clvlab.api.leaderboard import RowSeats
from clvlab.report.html import environment, time_element, times_script

# Formats of numbers and times on a page.


def signed(number: float | None, digits: int = 1) -> str | None:
    """Write a number with its sign, as ``words.signed`` does."""
    return None if number is None else words.signed(number, digits)


def moment(ts_ms: int | None) -> Markup | None:
    """Write milliseconds since 1970 as a ``time`` element; a number beyond the calendar is written as it is."""
    return None if ts_ms is None else time_element(ts_ms, words.moment(ts_ms))


def json_text(value: Any) -> str:
    """Write a value as JSON, for people."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def paired(names: Iterable[Any]) -> list[tuple[str, str]]:
    """Return each name paired with itself as its label."""
    return [(str(name), str(name).replace("_", " ").lower()) for name in names]


def market(key: str | None) -> str | None:
    """Return the readable name of a market; ``None`` for an action without a market.

    Examples
    --------
    >>> market("OVERUNDER_PARTICIPANT_GOALS||line=2.5"), market(None)
    ('Over/Under 2.5 goals', None)
    """
    return None if key is None else words.market_name(key)


def side_of(side: str | None, market_key: str | None, names: Sequence[str] = ()) -> str | None:
    """Return the readable name of a market's side, a team where the fixture's names are known."""
    return side if side is None or market_key is None else words.side_name(market_key, side, names)


def exact(value: object) -> Markup:
    r"""Write a value that a form sends back; letters that would be made visible elsewhere are references here.

    Examples
    --------
    >>> print(exact('a"‮b'))
    a&#34;&#8238;b
    """
    return Markup().join(c if c.isprintable() else Markup("&#{};").format(ord(c)) for c in str(value))


def row_seats(seats: RowSeats) -> str:
    return words.row_seats(**seats)


FILTERS = {
    "basis": words.basis,
    "exact": exact,
    "market": market,
    "moment": moment,
    "owner_name": words.owner_name,
    "match": words.match_name,
    "paired": paired,
    "row_seats": row_seats,
    "side_of": side_of,
    "signed": signed,
    "span": words.span_by_units,
    "json_text": json_text,
}
"""Filters for figures in these templates, in addition to those of ``clvlab.report``."""


_ASSETS = Path(__file__).parent / "pages" / "assets"
ASSET_PATH = "/assets"
_TEMPLATES = Path(__file__).parent / "pages" / "templates"
_NO_HEADERS: Mapping[str, str] = {}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
_LIVE = "; connect-src 'self'"
_GUARDS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Vary": "Accept"}


class Links:
    """Addresses of this service as its clients see them, also behind a proxy; each part of a path becomes one segment."""

    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/")

    def __call__(self, *segments: str | int, **query: str | int | None) -> str:
        path = "/".join(quote(str(part), safe="") for part in segments)
        query_text = urlencode({name: value for name, value in query.items() if value not in (None, "")})
        return f"{self._root}/{path}{'?' if query_text else ''}{query_text}"

    def asset(self, name: str) -> str:
        """Return the address of a file that pages load; it changes with the content."""
        return f"{self._root}{ASSET_PATH}/{asset_digest(name)}/{name}"


def page(
    request: HTTPConnection,
    template: str,
    values: Mapping[str, Any],
    status: int = HTTPStatus.OK,
    headers: Mapping[str, str] | None = None,
    *,
    stream: str | None = None,
) -> HTMLResponse:
    """Render a page.

    Parameters
    ----------
    request
        Request to answer.
    template
        File name.
    values
        Values that the template shows; all text is escaped.
    status, headers
        Status and headers of the answer.
    stream
        Address of the stream that reports changes of the page. Only the script of such a page may make requests.
    """
    links = Links(str(request.scope.get("root_path", "")))
    everywhere = {"here": links, "stream": stream, "words": words, "version": version("clvlab")}
    text = _environment().get_template(template).render(values, **everywhere)
    policy = _POLICY + (_LIVE if stream else "")
    return HTMLResponse(text, status, {**_GUARDS, "Content-Security-Policy": policy, **(headers or _NO_HEADERS)})


@cache
def asset_content(name: str) -> bytes:
    """Return the content of a file that pages load."""
    return times_script().encode() if name == "times.js" else (_ASSETS / name).read_bytes()


@cache
def asset_digest(name: str) -> str:
    """Return the digest that distinguishes versions of a file that pages load."""
    return hashlib.sha256(asset_content(name)).hexdigest()[:16]


@cache
def _environment() -> Environment:
    made = environment(_TEMPLATES)
    made.filters |= FILTERS
    return made
