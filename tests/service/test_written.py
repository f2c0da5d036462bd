"""What is written from the service stands in the repository as it would be written now."""

from pathlib import Path

import pytest
from clvlab_service.app import create_app
from clvlab_service.reference import spliced
from clvlab_service.settings import Settings
from clvlab_service.typed_answers import typed_answers

import clvlab

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["http.md", "settings.md"])
def test_the_reference_is_current(page):
    text = (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8")

    assert spliced(text) == text, "run python -m clvlab_service.reference"


def test_the_types_of_the_client_are_current():
    written = Path(clvlab.__path__[0], "client", "answers.py").read_text(encoding="utf-8")

    assert typed_answers(create_app(Settings()).openapi()) == written, "run python -m clvlab_service.typed_answers"
