"""``/me``."""

from __future__ import annotations

from fastapi import APIRouter, Request

from clvlab.answers.me import MeResponse
from clvlab_service.deps import ApplicationDep, AuthenticatedRoute, CurrentPrincipal
from clvlab_service.openapi import problems
from clvlab_service.settings import Settings

router = APIRouter(prefix="/me", tags=["me"], route_class=AuthenticatedRoute)


@router.get("", operation_id="getMe", responses=problems(401))
def me(principal: CurrentPrincipal, application: ApplicationDep, request: Request) -> MeResponse:
    """Read who the token speaks for, what is theirs, and the limits that hold."""
    settings: Settings = request.app.state.settings
    return {
        "did": principal,
        **application.principals.belongings(principal),
        "limits": {"max_body_bytes": settings.max_body_bytes, "max_token_lifetime_s": settings.jwt_max_lifetime_s},
    }
