"""Requests to a service: JSON in both directions; a problem raises an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any, TypeVar, get_origin
from urllib.parse import quote

import httpx2
import orjson
import polars as pl

from clvlab.api.answer import JsonObject
from clvlab.errors import ClvlabError


class ApiError(ClvlabError):
    """The service refused a request, or could not answer it.

    Attributes
    ----------
    status
        HTTP status.
    problem
        Problem details (RFC 9457): ``type``, ``title``, ``detail``, and facts such as ``checks``, ``errors``, ``reason``.
    retry_after_s
        Seconds to wait before the next request; ``None`` if the service states none.
    """

    def __init__(self, status: int, problem: JsonObject, retry_after_s: int | None = None) -> None:
        self.status, self.problem, self.retry_after_s = status, problem, retry_after_s
        later = f"; ask again in {retry_after_s} s" if retry_after_s is not None else ""
        super().__init__(f"{status} {problem.get('title', '')}: {problem.get('detail', 'no detail')}{later}")


def raise_for_problem(response: httpx2.Response) -> None:
    """Raise ``ApiError`` unless the answer is a success."""
    if response.is_success:
        return
    response.read()
    problem: Any = None
    if response.headers.get("content-type", "").startswith("application/problem+json"):
        problem = response.json()
    if not isinstance(problem, dict):  # from another service, or from a proxy in between
        problem = {"title": response.reason_phrase, "detail": response.text[:500]}
    after = response.headers.get("retry-after", "")
    raise ApiError(response.status_code, problem, int(after) if after.isdecimal() else None)


_ARROW = "application/vnd.apache.arrow.stream"
_T = TypeVar("_T")


class HttpCaller:
    """Sends requests to one service over a persistent connection."""

    _http: httpx2.Client

    def _get(self, kind: type[_T], *path: str, **query: Any) -> _T:
        return _answer(kind, self._http.get(path_of(*path), params=query_of(query)))

    def _pages(self, kind: type[_T], *path: str, **query: Any) -> Iterator[_T]:
        """Yield all pages of a list, each named by the one before; only the query of such a name is used."""
        params: Any = query_of(query)
        while params is not None:
            response = self._http.get(path_of(*path), params=params)
            yield _answer(kind, response)
            following = response.links.get("next")
            params = None if following is None else httpx2.URL(following["url"]).params

    def _post(
        self, kind: type[_T], *path: str, body: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> _T:
        return _answer(kind, self._http.post(path_of(*path), json=body, headers=headers))

    def _delete(self, *path: str) -> None:
        raise_for_problem(self._http.delete(path_of(*path)))

    def _bytes(self, *path: str, accept: str = "*/*", **query: Any) -> bytes:
        response = self._http.get(path_of(*path), params=query_of(query), headers={"Accept": accept})
        raise_for_problem(response)
        return response.content

    def _frame(self, *path: str, **query: Any) -> pl.DataFrame:
        return pl.read_ipc_stream(BytesIO(self._bytes(*path, accept=_ARROW, **query)))

    def _messages(self, *path: str, **query: Any) -> Iterator[Any]:
        """Yield the messages of a WebSocket until it is closed."""
        from websockets.sync.client import connect  # imported here, as notebooks seldom stream

        base = str(self._http.base_url).rstrip("/").replace("http", "ws", 1)
        with connect(f"{base}{path_of(*path)}?{httpx2.QueryParams(query)}") as messages:
            yield from map(orjson.loads, messages)


def query_of(query: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parameters that are not ``None``, with Booleans in their JSON form."""
    found = {name: value for name, value in query.items() if value is not None}
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in found.items()}


def _answer(kind: type[_T], response: httpx2.Response) -> _T:
    """Return the JSON of an answer. Only object or array is checked; tests of the service check the rest of ``kind``."""
    raise_for_problem(response)
    answer: _T = response.json()
    if not isinstance(answer, list if get_origin(kind) is list else dict):
        raise ApiError(response.status_code, {"title": "unexpected answer", "detail": response.text[:200]})
    return answer


def path_of(*segments: str) -> str:  # a segment of dots would mean another folder (RFC 3986, section 5.2.4)
    return "/" + "/".join(quote(segment, safe="").replace(".", "%2E") for segment in segments)
