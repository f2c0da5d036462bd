"""``uvicorn clvlab_service.main:app``: the service as the environment sets it."""

from clvlab_service.app import create_app
from clvlab_service.settings import Settings
from clvlab_service.telemetry import forward_uvicorn

app = create_app(Settings())
forward_uvicorn(app.state.log)  # uvicorn has set up its own lines by now
