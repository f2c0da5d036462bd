"""The card of one agent's run: what can be said, a picture of it, figures, and the rest folded away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from clvlab import words
from clvlab.api.runs import Metrics
from clvlab.drawing import html
from clvlab.drawing.showing import Shown, check_settings
from clvlab.law.markets import UnreadKey
from clvlab.law.schema import Reason
from clvlab.report.breakdowns import cumulative_clv, cumulative_picture
from clvlab.report.headline import interval_bar, verdict_of
from clvlab.report.means import LEVEL, key_figures, means_of, spelt_mean
from clvlab.report.moved_lines import moved_html, moved_lines, moved_mean, spelt_error, unread_markets
from clvlab.runs.run import Run
from clvlab.statistics import Estimate, beat_close_rate
from clvlab.statistics.measures import counted
from clvlab.words import REASONS, market_names
from clvlab.words import counted as number_of


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


# Decisions on lines that were not quoted at the close, with what they would have closed at: a frame, and a card.


_SHOWN, _NAMED = 20, 3


@dataclass(frozen=True)
class MovedLines(Shown):
    """Decisions on lines that moved, of one agent; made by ``Result.moved_lines()``, and part of no mean CLV.

    Attributes
    ----------
    source
        The run of the agent.
    level
        Of the interval.
    """

    source: Run = field(repr=False)
    level: float = 0.95

    def __post_init__(self) -> None:
        check_settings(self.level)

    @cached_property
    def frame(self) -> pl.DataFrame:
        """``MOVED_LINES``, one row per decision: entry, ``moved_close_prob_bps``, ``moved_clv_bps``, rule and its error."""
        return moved_lines(self.source)

    @cached_property
    def mean(self) -> Estimate:
        """Mean of ``moved_clv_bps`` over fixtures, in bps of probability."""
        return moved_mean(self.frame, self.level)

    @cached_property
    def unread(self) -> list[UnreadKey]:
        """Markets of decisions without a close whose keys have no reading: which line they are on is not known."""
        return unread_markets(self.source.scores)

    @property
    def _left_out(self) -> str:
        more = f", and {len(self.unread) - _NAMED:,} more, in .unread" if len(self.unread) > _NAMED else ""
        return "".join(f"; {one}" for one in self.unread[:_NAMED]) + more

    def __repr__(self) -> str:
        if self.frame.is_empty():
            return f"Lines that moved: no decision on one{self._left_out}"
        count, mean = number_of(self.mean.n, "decision"), spelt_mean(self.mean, "bps")
        said = f"{count} in {number_of(self.mean.n_clusters, 'fixture')}, mean {mean}, not part of the mean CLV{self._left_out}"
        return f"Lines that moved: {said}; next: .frame, .mean, .to_html(path)"

    def _repr_html_(self) -> str:
        unread = f'<p class="quiet">{html.escape(self._left_out[2:])}</p>' if self.unread else ""
        if self.frame.is_empty():
            return html.block("Lines that moved", "<p>No decision is on a line that moved.</p>", unread)
        names, shown = market_names(self.frame["market_key"]), self.frame.head(_SHOWN)
        rows = [
            (
                str(row["fixture_id"]),
                html.hinted(names[row["market_key"]], row["market_key"]),
                row["side"],
                html.hinted(REASONS[row["reason"]], row["reason"]),
                row["entry_prob_bps"],
                row["moved_close_prob_bps"],
                row["moved_clv_bps"],
                row["moved_rule"],
                spelt_error(row["moved_rule"], row["moved_error_bps"]),
            )
            for row in shown.iter_rows(named=True)
        ]
        columns = ["fixture", "market", "side", "why no score", "entry, bps", "would close, bps", "moved CLV, bps", "rule"]
        return html.block(
            "",
            moved_html(self.frame, self.level),
            html.section("", html.table([*columns, "error, bps"], rows), whole=True),
            html.rest(self.frame.height, shown.height, ".frame"),
            unread,
        )
