import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def realdata() -> Path:
    """Folder of real odds that are not part of the project."""
    folder = Path(os.environ.get("CLVLAB_REALDATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real odds at {folder}; set CLVLAB_REALDATA")
    return folder
