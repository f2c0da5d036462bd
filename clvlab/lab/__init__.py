"""The notebook's face: results that show themselves."""

from clvlab.lab.laboratory.auditing import lookahead_audit, lookahead_audits
from clvlab.lab.laboratory.verbs import (
    agents,
    backtest,
    backtests,
    compare,
    concat,
    grade_bets,
    import_odds,
    imports,
    join_sources,
    leaderboard,
    open_pack,
    open_run,
    packs,
    sweep,
    walk_forward,
)

__all__ = [
    "agents",
    "backtest",
    "backtests",
    "compare",
    "concat",
    "grade_bets",
    "import_odds",
    "imports",
    "join_sources",
    "leaderboard",
    "lookahead_audit",
    "lookahead_audits",
    "open_pack",
    "open_run",
    "packs",
    "sweep",
    "walk_forward",
]
