"""Tables as JSON or as Arrow, whichever the client would rather have (RFC 9110, section 12.5.1)."""

from __future__ import annotations

from enum import StrEnum
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, HTTPException, Query, Request, Response

from clvlab.application.tables import MAX_PAGE, ArrowTable
from clvlab_service import accept

_VARY = {"Vary": "Accept"}


class Form(StrEnum):
    """What a table can be sent as."""

    JSON = accept.JSON
    ARROW = accept.ARROW


def negotiated(header: str) -> Form | None:
    """Choose the form of an answer, or None where neither is acceptable.

    Arrow is sent where it is named with a quality at least that of JSON, or where JSON is refused. What is no media range with
    a quality is passed over; a header without any stands for no header.

    Examples
    --------
    >>> negotiated("application/vnd.apache.arrow.stream, */*;q=0.5").name
    'ARROW'
    >>> negotiated("*/*").name
    'JSON'
    """
    given = accept.qualities(header)
    if not given:
        return Form.JSON
    json, arrow = accept.quality(given, Form.JSON), accept.quality(given, Form.ARROW)
    if arrow and (not json or (Form.ARROW in given and arrow >= json)):
        return Form.ARROW
    return Form.JSON if json else None


async def _form(request: Request, response: Response) -> Form:
    form = negotiated(",".join(request.headers.getlist("accept")))
    if form is None:
        detail = f"this is to be had as {' or as '.join(Form)}, and the Accept header refuses both"
        raise HTTPException(HTTPStatus.NOT_ACCEPTABLE, detail, _VARY)
    response.headers.update(_VARY)
    return form


FormDep = Annotated[Form, Depends(_form)]
RowsQuery = Annotated[int | None, Query(ge=1, le=MAX_PAGE, description="Rows of a page; as Arrow, all that match without it.")]

_BYTES = {"schema": {"type": "string", "format": "binary"}}
TABLE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A page as JSON; as an Arrow IPC stream all rows, or a page whose header `Link` names the next",
        "headers": {"Link": {"schema": {"type": "string"}, "description": 'Of Arrow: `<?...>; rel="next"` (RFC 8288).'}},
        "content": {Form.ARROW.value: _BYTES},
    }
}
"""What a route declares that has both forms, beside its problems."""


def arrow_response(request: Request, table: ArrowTable) -> Response:
    """Send a table; the page after it is linked to (RFC 8288), as there is no place for a cursor in it."""
    headers = dict(_VARY)
    if table.next_cursor is not None:
        following = request.url.include_query_params(cursor=table.next_cursor)
        headers["Link"] = f'<?{following.query}>; rel="next"'
    return Response(table.content, headers=headers, media_type=Form.ARROW.value)
