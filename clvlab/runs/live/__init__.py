"""Live runs: committed to before their data exists, followed message by message, and sealed when their fixture closes."""

GRACE_S = 900
"""By default a run is sealed this many seconds after the announced kickoff."""
