"""Routes for clients that prefer a page: every other request goes on to the route of the JSON answer."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.routing import Match
from starlette.types import Scope

from clvlab_service.negotiation import RevalidatedRoute, asks_for_page


class PageRoute(RevalidatedRoute):
    """A page; asked for again each time, as what it is made by may change, and sent again only if it did."""

    is_page = True

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match as a route does, where a page is asked for."""
        return super().matches(scope) if asks_for_page(scope) else (Match.NONE, {})

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return a handler that does not see fields of a form which nobody filled in: browsers send them all the same."""
        handler = super().get_route_handler()

        async def handle_filled(request: Request) -> Response:
            fields = request.scope["query_string"].split(b"&")
            request.scope["query_string"] = b"&".join(field for field in fields if field.partition(b"=")[2])
            return await handler(request)

        return handle_filled


def page_router() -> APIRouter:
    """Return a router of pages, none of which the OpenAPI document names."""
    return APIRouter(route_class=PageRoute, include_in_schema=False)
