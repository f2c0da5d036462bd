"""What pages load: a style, a script and a picture, all of this service."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter, HTTPException, Response

from clvlab_service.rendering import ASSET_PATH, ASSETS, asset_digest

router = APIRouter(include_in_schema=False)

_KINDS = {"style.css": "text/css; charset=utf-8", "live.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml"}
_FOR_EVER, _ASK_AGAIN = "public, max-age=31536000, immutable", "no-cache"


@router.get(f"{ASSET_PATH}/{{digest}}/{{name}}")
def asset(digest: str, name: str) -> Response:
    """Send a file; the present one also under the digest of an earlier one, but not for ever."""
    if name not in _KINDS:
        raise HTTPException(HTTPStatus.NOT_FOUND, "pages load no such file")
    keep = _FOR_EVER if digest == asset_digest(name) else _ASK_AGAIN
    headers = {"Cache-Control": keep, "X-Content-Type-Options": "nosniff"}
    return Response((ASSETS / name).read_bytes(), headers=headers, media_type=_KINDS[name])
