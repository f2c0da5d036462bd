"""How long duels are: CI meets each of them at its short length, ``just duels`` at its whole one."""

import os
from typing import TypeVar

import pytest

T = TypeVar("T")

WHOLE = os.environ.get("CLVLAB_DUELS") == "whole"
whole_only = pytest.mark.skipif(not WHOLE, reason="a duel of `just duels`, at its whole length only")


def length(short: T, whole: T) -> T:
    """Return what a duel is measured by: rounds, examples, seeds."""
    return whole if WHOLE else short
