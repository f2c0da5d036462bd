"""Entries at the closing message itself: what the law scores as it scores any other, and statistics leave out."""

from __future__ import annotations

import polars as pl

from clvlab.law.schema import Action

_MARKET = ["fixture_id", "market_key"]


def at_close(decisions: pl.DataFrame, closes: pl.DataFrame) -> pl.Series:
    """Tell which decisions acted on the message that closes their market: nothing came after it that could have moved.

    Parameters
    ----------
    decisions, closes
        ``DECISION_EVENTS`` and ``CLOSE_EVENTS``.

    Returns
    -------
    pl.Series
        ``at_close``: Boolean without nulls, a row for each decision; false where the agent waited.

    Examples
    --------
    >>> import clvlab as cl
    >>> run = cl.backtest("starter", "baseline").source
    >>> int(at_close(run.result.decisions, run.result.closes).sum())
    0
    """
    closing = closes.select(*_MARKET, closing_tick_seq="state_tick_seq")
    found = decisions.select("action", *_MARKET, "state_tick_seq").join(closing, on=_MARKET, how="left", maintain_order="left")
    same = (pl.col("action") == Action.BACK) & (pl.col("state_tick_seq") == pl.col("closing_tick_seq"))
    return found.select(at_close=same.fill_null(value=False)).to_series()
