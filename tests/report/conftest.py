import pytest


@pytest.fixture(scope="session", autouse=True)
def _tables(tables_in_memory):
    """Every test here may open a store in memory."""
