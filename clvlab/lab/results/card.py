"""The card of one agent's run: what can be said, a picture of it, figures, and the rest folded away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from clvlab import words
from clvlab.answers.runs import Metrics
from clvlab.application.sheets.dates import cumulative_clv, cumulative_picture
from clvlab.application.sheets.means import LEVEL, key_figures, means_of
from clvlab.application.sheets.measures import counted
from clvlab.application.sheets.verdict import interval_bar, verdict_of
from clvlab.drawing import html
from clvlab.law.schema import Reason
from clvlab.statistics import Estimate, beat_close_rate


def agent_card(
    title: str,
    scores: pl.DataFrame,
    closes: pl.DataFrame,
    metrics: Metrics,
    checks: Mapping[str, str],
    *,
    warnings: Sequence[str] = (),
    folded: Sequence[str] = (),
) -> str:
    """Show the scores of one agent, what can be said of them first.

    Parameters
    ----------
    title
        What ran.
    scores
        ``SCORES`` with ``at_close``, of this agent alone.
    closes
        With ``fixture_id`` and ``close_ts_ms``.
    metrics
        Of the run.
    checks
        The seven verdicts by name.
    warnings
        What a reader has to know, as text.
    folded
        HTML that only opens when it is asked for.
    """
    scored, means = scores.filter(counted()), means_of(scores)
    clv = means["clv"]
    said = verdict_of(clv)
    left = interval_bar(clv.mean, clv.low, clv.high) + html.strip(_key_figures(scored, means, metrics))
    right = cumulative_picture(cumulative_clv(scored, closes, LEVEL), LEVEL)
    return html.block(
        title,
        html.verdict(said.sentence, said.tone),
        html.figures([part for part in (left, right) if part]),
        *(f"<p>{html.escape(warning)}</p>" for warning in warnings),
        _not_scored(scores, scored),
        html.marks(checks),
        html.details("Details", *folded) if folded else "",
    )


def _key_figures(scored: pl.DataFrame, means: Mapping[str, Estimate], metrics: Metrics) -> dict[str, str]:
    size = {"sample": words.sample(metrics["clv_confidence"], metrics["valid_count"])}
    if scored.is_empty():
        return size
    beat = beat_close_rate(scored["clv_bps"], scored["fixture_id"], LEVEL)
    return key_figures(means["clv"], means["edge"], beat, "95 %") | size


def _not_scored(scores: pl.DataFrame, scored: pl.DataFrame) -> str:
    """List why decisions were not scored, and how many scored ones the statistics leave out."""
    others = scores.filter(pl.col("reason") != Reason.SCORED)["reason"].value_counts(name="n")
    late = scores.height - int(others["n"].sum()) - scored.height
    rows = [
        (count, _share(count, scores.height), words.REASONS.get(reason, reason))
        for reason, count in others.sort("n", "reason", descending=[True, False]).rows()
    ]
    if late:
        rows.append(
            (late, _share(late, scores.height), "made on the closing message itself: scored as 0, left out of the means")
        )
    if not rows:
        return ""
    head = f"Not counted: {sum(row[0] for row in rows):,} of {words.counted(scores.height, 'decision')}"
    return html.section(head, html.table(["decisions", "share", "why"], rows))


def _share(count: int, whole: int) -> str:
    return "< 0.1%" if 1000 * count < whole else f"{words.share(count / whole)}"
