"""What is written from the service stands in the repository as it would be written now."""

from pathlib import Path

import pytest
from clvlab_service.reference import splice

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["http.md", "settings.md"])
def test_the_reference_is_current(page):
    text = (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8")

    stale = text.replace("<!-- end -->", "an older line\n<!-- end -->")

    assert stale != text == splice(stale), "run python -m clvlab_service.reference"
