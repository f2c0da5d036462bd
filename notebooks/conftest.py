"""So that ``pytest -p nbval --nbval notebooks`` runs: cells in their order, and no complaint about what nbval leaves open."""

import os
from pathlib import Path

import pytest

_REAL = "09_would_it_have_paid.ipynb"


def pytest_configure(config: pytest.Config) -> None:
    """Keep pytest-randomly from shuffling cells; nbval opens /dev/null for every kernel and never closes it."""
    config.option.randomly_reorganize = False
    config.addinivalue_line("filterwarnings", "ignore::ResourceWarning")
    config.addinivalue_line("filterwarnings", "ignore::pytest.PytestUnraisableExceptionWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the notebook that reads historical files where they are missing."""
    data = Path(os.environ.get("CLVLAB_REALDATA", Path(__file__).parents[2] / "shared" / "data")) / "betfair-stream"
    if not data.is_dir():
        for item in items:
            if item.path.name == _REAL:
                item.add_marker(pytest.mark.skip(reason=f"no historical files in {data}"))
