"""Problem details of a service, as an exception."""

from __future__ import annotations

from typing import Any

import httpx2

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
        When to ask again, if the service said so.
    """

    def __init__(self, status: int, problem: dict[str, Any], retry_after_s: int | None = None) -> None:
        self.status, self.problem, self.retry_after_s = status, problem, retry_after_s
        later = f"; ask again in {retry_after_s} s" if retry_after_s is not None else ""
        super().__init__(f"{status} {problem.get('title', '')}: {problem.get('detail', 'no detail')}{later}")


def raise_for_problem(response: httpx2.Response) -> None:
    """Raise ``ApiError`` for an answer that is no success.

    Raises
    ------
    ApiError
    """
    if response.is_success:
        return
    response.read()
    problem: Any = None
    if response.headers.get("content-type", "").startswith("application/problem+json"):
        problem = response.json()
    if not isinstance(problem, dict):  # not our service, or a proxy before it
        problem = {"title": response.reason_phrase, "detail": response.text[:500]}
    after = response.headers.get("retry-after", "")
    raise ApiError(response.status_code, problem, int(after) if after.isdecimal() else None)
