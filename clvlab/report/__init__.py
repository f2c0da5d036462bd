"""Tear sheets: the statistics of one agent over a backtest, as figures, pictures and pages."""
