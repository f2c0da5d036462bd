"""``uvicorn clvlab_service.main:app``: the service as the environment sets it."""

from clvlab_service.app import create_app
from clvlab_service.settings import Settings

app = create_app(Settings())
