"""The paper venue: fills what the gate allowed, at the quote that the agent saw. No market hears of it."""

from __future__ import annotations

import polars as pl

from clvlab.law.policy import ExecutionMode, PolicyEnvelope
from clvlab.law.schema import RECEIPTS


def fills(run_id: str, decisions: pl.DataFrame, proposals: pl.DataFrame, envelope: PolicyEnvelope) -> pl.DataFrame:
    """Fill every allowed action at its carried quote.

    Parameters
    ----------
    run_id
        The sealed run.
    decisions, proposals
        ``DECISION_EVENTS`` and their ``PROPOSALS``, row by row.
    envelope
        With ``execution_mode`` ``dry_run`` no venue is asked.

    Returns
    -------
    pl.DataFrame
        ``RECEIPTS`` in order of ``decision_seq``: ``filled``, or ``no_quote`` where the policy allows an action without one,
        because no price is ever made up. Receipts are no evidence and never score.
    """
    refusals = decisions["pre"].list.len() + decisions["post"].list.len()
    asked = (refusals == 0) & (envelope.execution_mode == ExecutionMode.PAPER)
    quoted = pl.col("odds_milli").is_not_null()
    return (
        proposals.with_columns(decision_seq=decisions["seq"])
        .filter(asked.fill_null(value=False))
        .with_columns(
            run_id=pl.lit(run_id),
            venue=pl.lit("paper"),
            status=pl.when(quoted).then(pl.lit("filled")).otherwise(pl.lit("no_quote")),
            stake=pl.when(quoted).then("stake").otherwise(0),
        )
        .select(*RECEIPTS)
    )
