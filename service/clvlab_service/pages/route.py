"""Routes for clients that prefer a page: every other request is left to the route of the JSON answer."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.routing import Match
from starlette.types import Scope

from clvlab_service.negotiation import RevalidatedRoute, asks_for_page


class PageRoute(RevalidatedRoute):
    """A page; clients revalidate it each time, and it is sent again only if it changed."""

    is_page = True

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match as a route does, if the client prefers a page."""
        return super().matches(scope) if asks_for_page(scope) else (Match.NONE, {})

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return a handler that does not see the empty fields of a form, which browsers send too."""
        handler = super().get_route_handler()

        async def handle_filled(request: Request) -> Response:
            fields = request.scope["query_string"].split(b"&")
            request.scope["query_string"] = b"&".join(field for field in fields if field.partition(b"=")[2])
            return await handler(request)

        return handle_filled


def page_router() -> APIRouter:
    """Return a router of pages, which are not in the OpenAPI document."""
    return APIRouter(route_class=PageRoute, include_in_schema=False)
