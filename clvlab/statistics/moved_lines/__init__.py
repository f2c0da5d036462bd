"""Bets on a line that the market no longer quotes at the close: what they would close at; outside the law."""

from clvlab.statistics.moved_lines.distribution import Model
from clvlab.statistics.moved_lines.markets import FIRST_ROLES, Quote, quotes_of, scored_by_goals
from clvlab.statistics.moved_lines.rule import VERSION, MovedClose, hidden, leave_one_out, moved_close, predicted

__all__ = [
    "FIRST_ROLES",
    "VERSION",
    "Model",
    "MovedClose",
    "Quote",
    "hidden",
    "leave_one_out",
    "moved_close",
    "predicted",
    "quotes_of",
    "scored_by_goals",
]
