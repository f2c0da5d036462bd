import pytest

from clvlab.application.application import Application


@pytest.fixture
def application(database_url):
    """Application over an empty store of each kind; its workers are not started."""
    opened = Application(database_url)
    yield opened
    opened.close()


@pytest.fixture
def in_memory():
    """Application over an empty store in memory, for what does not depend on the store."""
    opened = Application()
    yield opened
    opened.close()
