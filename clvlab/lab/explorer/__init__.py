"""The explorer: one market of a backtest at a time, its decisions, and the replay of what was known."""

from clvlab.lab.explorer.explorer import Explorer

__all__ = ["Explorer"]
