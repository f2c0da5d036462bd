"""``constraints.txt`` pins what an installation with every extra may bring, and nothing else."""

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PINS = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").split())


def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def asked_for(requirement) -> Iterator[Requirement]:
    """Yield what a requirement of ours brings, as far as it is installed here, on any Python that we run on."""
    waiting, seen = [requirement], set()
    while waiting:
        one = waiting.pop()
        key = (plain(one.name), frozenset(one.extras))
        if key in seen:
            continue
        seen.add(key)
        yield one
        try:
            further = [Requirement(text) for text in requires(one.name) or ()]
        except PackageNotFoundError:  # of an extra that is not installed here
            continue
        waiting += [found for found in further if needed(found, one.extras or {""})]


def needed(requirement, extras):
    pythons = [{"python_version": minor, "python_full_version": f"{minor}.0"} for minor in ("3.11", "3.12", "3.13")]
    marker = requirement.marker
    return marker is None or any(marker.evaluate({**python, "extra": extra}) for python in pythons for extra in extras)


def is_installed(name):
    try:
        requires(name)
    except PackageNotFoundError:
        return False
    return True


def test_every_pin_is_of_something_that_an_extra_brings():
    declared = [*PROJECT["dependencies"], *(text for extra in PROJECT["optional-dependencies"].values() for text in extra)]
    ours = [Requirement(text) for text in declared]
    brought = {plain(found.name) for one in ours if plain(one.name) != "clvlab" for found in asked_for(one)}

    unknown = {plain(name) for name in PINS} - brought
    alone = {"betfair_data"}  # brings nothing else, and is in no extra that CI installs
    if unknown and (absent := sorted(one.name for one in ours if one.name not in alone and not is_installed(one.name))):
        pytest.skip(f"what {', '.join(absent)} bring can't be asked here: pip install -e '.[dev]'")

    assert unknown == set()


def test_no_pin_is_of_a_placeholder():
    assert [name for name, version in PINS.items() if not re.search("[1-9]", version)] == []
