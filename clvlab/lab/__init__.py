"""The notebook's face: results that show themselves."""

from clvlab.lab.laboratory.verbs import (
    backtest,
    compare,
    import_odds,
    leaderboard,
    lookahead_audit,
    open_pack,
    open_run,
    sweep,
    walk_forward,
)

__all__ = [
    "backtest",
    "compare",
    "import_odds",
    "leaderboard",
    "lookahead_audit",
    "open_pack",
    "open_run",
    "sweep",
    "walk_forward",
]
