"""What the examples of docstrings take for granted: a service, where an example talks to one."""

import pytest

from tests.service.serving import api


@pytest.fixture(scope="session")
def trial_service(tmp_path_factory):
    """A service in memory."""
    with api(tmp_path_factory.mktemp("trial-keys")) as running:
        yield running


@pytest.fixture(autouse=True)
def service_of_examples(request, doctest_namespace):
    """Give ``url`` and ``token`` to the examples of the client."""
    if isinstance(request.node, pytest.DoctestItem) and request.node.name.startswith("clvlab.client"):
        running = request.getfixturevalue("trial_service")
        doctest_namespace |= {"url": running.url, "token": running.token()}
