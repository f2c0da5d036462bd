"""``uvicorn service.main:app``: the service as the environment sets it."""

from service.app import create_app
from service.settings import Settings

__all__ = ["app"]

app = create_app(Settings())
