"""``/verify.html``."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from clvlab.application.browser.page import page_policy, verifier_page
from clvlab_service.caching import RevalidatedRoute

router = APIRouter(route_class=RevalidatedRoute, include_in_schema=False)


@router.get("/verify.html")
def page() -> HTMLResponse:
    """Read the verifier as one page; it asks nobody, and works as well when it is saved and opened from a disk."""
    safe = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
    return HTMLResponse(verifier_page(), headers={"Content-Security-Policy": page_policy()} | safe)
