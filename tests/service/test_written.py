"""What is written from the service stands in the repository as it would be written now."""

import re
from pathlib import Path

import pytest
from clvlab_service.reference import splice
from clvlab_service.telemetry import RequestMetrics

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["http.md", "settings.md"])
def test_the_reference_is_current(page):
    text = (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8")

    stale = text.replace("<!-- end -->", "an older line\n<!-- end -->")

    assert stale != text == splice(stale), "run python -m clvlab_service.reference"


def test_what_an_operator_watches_is_what_the_service_measures():
    measured = {family.name for family in RequestMetrics().registry.collect()}
    guides = ROOT / "docs" / "how-to"
    page, board = ((guides / name).read_text(encoding="utf-8") for name in ("operate.md", "clvlab-dashboard.json"))

    def named(text):
        return {re.sub("_(total|bucket|count)$", "", name) for name in re.findall(r"\bclvlab_[a-z_]+", text)}

    assert named(page) == measured
    assert named(board) <= measured
