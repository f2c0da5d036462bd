"""How long duels are: CI meets each of them at its short length, ``just duels`` at its whole one."""

import os
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")

few = pytest.mark.few
"""Of how many cases CI meets of a test whose cases cost much, evenly drawn from them; the others are ``long``."""
any_store = pytest.mark.any_store  # of a module in OVER_POSTGRESQL, a test that ends before SQL
WHOLE = os.environ.get("CLVLAB_DUELS") == "whole"
whole_only = pytest.mark.skipif(not WHOLE, reason="a duel of `just duels`, at its whole length only")
HERE = Path(__file__).parent
# Where SQL, locks or news between processes decide. Each store keeps its contract in tests/store and tests/log; what else
# is the same over any of them runs over PostgreSQL in `just duels`.
OVER_POSTGRESQL = {
    HERE / "arena": {"test_cancelling", "test_competitions", "test_crashes", "test_live_jobs", "test_restoring",
                     "test_retention", "test_seats", "test_shutdown", "test_standings", "test_stored_runs"},
    HERE / "service": {"test_caps", "test_endpoints", "test_hostile", "test_lists", "test_log", "test_outage", "test_reads",
                       "test_removed", "test_seats", "test_starting", "test_stream", "test_uploads", "test_watching",
                       "test_withdrawing"},
}  # fmt: skip


def length(short: T, whole: T) -> T:
    """Return what a duel is measured by: rounds, examples, seeds."""
    return whole if WHOLE else short
