"""So that ``pytest -p nbval --nbval notebooks`` runs: cells in their order, and no complaint about what nbval leaves open."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Keep pytest-randomly from shuffling cells; nbval opens /dev/null for every kernel and never closes it."""
    config.option.randomly_reorganize = False
    config.addinivalue_line("filterwarnings", "ignore::ResourceWarning")
    config.addinivalue_line("filterwarnings", "ignore::pytest.PytestUnraisableExceptionWarning")
