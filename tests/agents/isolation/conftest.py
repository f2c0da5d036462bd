import subprocess
from unittest.mock import patch

import pytest

from clvlab.agents.isolation import process

ASKED_ALIKE = {"test_blocks", "test_steps"}


@pytest.fixture(scope="module", autouse=True)
def _started(request):
    """Start the processes that these tests are about as everybody's are; elsewhere they are forked."""
    if request.path.stem in ASKED_ALIKE:
        yield
    else:
        with patch.object(process, "subprocess", subprocess):
            yield
