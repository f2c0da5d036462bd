import doctest

import pytest

from clvlab.client import client

pytestmark = pytest.mark.long


def test_examples_of_the_client_hold_at_a_service(api):
    done = doctest.testmod(client, extraglobs={"url": api.url, "token": api.token()})

    assert done.attempted > 10
    assert done.failed == 0
