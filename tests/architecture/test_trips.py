"""No verb goes further than it does: a detour is found by what is on the way, which no clock on a busy machine can tell."""

import os
import sys

import numpy as np
import pytest

from tests.architecture import figures
from tests.architecture.trips import VERBS, profiled, settled_trip, trip

pytestmark = [
    pytest.mark.skipif(
        sys.version_info[:2] != (3, 11), reason="other interpreters enter other frames: bounds are those of Python 3.11"
    ),
    pytest.mark.skipif(
        "PYTEST_XDIST_WORKER" in os.environ, reason="what other tests left in caches is on the way: `just trips`"
    ),
    pytest.mark.skipif(sys.gettrace() is not None, reason="a tracer enters frames of its own"),
]


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_goes_no_further(verb, tmp_path):
    bounds = {name: bound for name, bound in figures.budget("trips").items() if name.startswith(f"{verb}.")}

    found = settled_trip(verb, tmp_path)

    measured = {f"{verb}.{name}": figure for name, figure in found.figures(verb).items()}
    assert figures.misfits("trips", measured, bounds) == [], sorted(name for _, name, _ in found.functions)


def test_every_bound_is_of_a_verb():
    assert {name.partition(".")[0] for name in figures.budget("trips")} == set(VERBS)


def test_what_a_run_does_more_is_counted(tmp_path):
    import polars as pl

    from clvlab.base.times import of_unix
    from clvlab.law.lines import known, within

    ones = np.ones(3, dtype=np.int64)

    def more():
        within(ones, 1)
        pl.LazyFrame({"a": [1]}).collect()
        pl.DataFrame({"a": [1]}).select("a")
        of_unix(1)
        (tmp_path / "a").write_text("x")
        (tmp_path / "a").read_text()

    with profiled():
        more()
        little, much = trip(lambda: known(ones)), trip(more)

    assert [name for _, name, _ in little.functions] == ["known"]
    assert {name for _, name, _ in much.functions} == {"known", "within", "of_unix"}
    assert (little.figures("verify"), much.figures("verify")) == (
        {"functions": 1, "modules": 1, "stays": 1, "collects": 0, "reads": 0},
        {"functions": 3, "modules": 2, "stays": 2, "collects": 2, "reads": 1},
    )
