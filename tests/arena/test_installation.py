"""What is said to be installed, against what the project declares."""

import re
import tomllib
from pathlib import Path

import pytest

from clvlab.arena import installation
from clvlab.arena.installation import EXTRAS, check_extras
from clvlab.errors import ArgumentError, MissingExtraError

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]


def distributions(extra):
    """All that an extra brings, those of the extras in it too."""
    found = set()
    for requirement in PROJECT["optional-dependencies"][extra]:
        name, _, within = re.fullmatch(r"([\w.-]+)(\[([\w,-]+)\])?.*", requirement).groups()
        found |= set.union(*map(distributions, within.split(","))) if name == "clvlab" else {name.lower()}
    return found


@pytest.mark.parametrize("extra", EXTRAS, ids=lambda extra: extra.name)
def test_an_extra_is_known_by_all_that_it_brings(extra):
    assert {name.lower() for name in extra.modules.values()} == distributions(extra.name)


def test_what_is_missing_is_named_with_its_command(monkeypatch):
    monkeypatch.setattr(installation, "find_spec", lambda module: None if module == "plotly" else object())

    check_extras("client")
    with pytest.raises(MissingExtraError, match=r'pip install "clvlab\[notebook\]"'):
        check_extras("client", "notebook")


def test_an_unknown_extra_is_refused():
    with pytest.raises(ArgumentError, match=r"no extra 'notebooks': did you mean 'notebook'\?"):
        check_extras("notebooks")
