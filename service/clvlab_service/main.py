"""``uvicorn clvlab_service.main:app``: the service with the settings of the environment."""

from clvlab_service.app import create_app
from clvlab_service.settings import Settings
from clvlab_service.telemetry import forward_uvicorn

app = create_app(Settings())
forward_uvicorn(app.state.log)  # uvicorn has set up its own logging by now
