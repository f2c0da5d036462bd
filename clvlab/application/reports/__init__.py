"""Backtests of the templates, asked for by anybody: stored, verifiable, and the same for all who ask the same."""
