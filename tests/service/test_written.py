"""What is written from the service stands in the repository as it would be written now."""

from pathlib import Path

import pytest

import clvlab
from service.app import create_app
from service.reference import spliced
from service.settings import Settings
from service.typed_answers import typed_answers

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["http.md", "settings.md"])
def test_the_reference_is_current(page):
    text = (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8")

    assert spliced(text) == text, "run python -m service.reference"


def test_the_types_of_the_client_are_current():
    written = Path(clvlab.__path__[0], "client", "answers.py").read_text(encoding="utf-8")

    assert typed_answers(create_app(Settings()).openapi()) == written, "run python -m service.typed_answers"
