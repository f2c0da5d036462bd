"""Backtests of the one offline agent, stored and verifiable."""

from __future__ import annotations

from typing import Any

from clvlab.application.requests import BacktestRunRequest

__all__ = ["BacktestReports"]


class BacktestReports:
    """Use cases of backtests; asking twice gives the same report."""

    def run(self, request: BacktestRunRequest) -> dict[str, Any]:
        """Replay, seal and store; gives BacktestRunResponse. Blocks.

        Raises
        ------
        UnknownPackError, UnknownFixtureError, WindowError
            In this order.
        PackReplayError
            The replay itself failed.
        BusyError
            The pool of public work is full.
        """
        raise NotImplementedError

    def report(self, backtest_id: str) -> dict[str, Any]:
        """Give BacktestReport.

        Raises
        ------
        UnknownBacktestError
        """
        raise NotImplementedError

    def page(self, cursor: str | None = None, limit: int = 50) -> dict[str, Any]:
        """Give ``{backtests: [{backtest_id, run_id, pack_id, fixture_id, created_ts_ms}], next_cursor}``, newest first.

        Raises
        ------
        PageError
        """
        raise NotImplementedError
