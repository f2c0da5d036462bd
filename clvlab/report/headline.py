"""What a run says first: its mean CLV with the interval over fixtures, in one careful sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from clvlab.drawing.calendar import cumulative_line
from clvlab.drawing.ink import interval_bar
from clvlab.report.means import LEVEL, spelt_mean
from clvlab.runs.run import Run
from clvlab.statistics import Estimate, estimates
from clvlab.statistics.measures import MEASURES, fixture_sums, stacked
from clvlab.statistics.verdict import CLOSE, SEARCH, Phrases, Tone, Verdict, verdict, verdict_of

__all__ = ["CLOSE", "SEARCH", "Phrases", "Tone", "Verdict", "cumulative_line", "interval_bar"]


@dataclass(frozen=True, slots=True)
class Headline:
    """A mean, its interval, and what they allow to be said.

    Attributes
    ----------
    clv
        Mean CLV in bps of probability with its interval, without entries at the closing message.
    said
        The sentence.
    """

    clv: Estimate
    said: Verdict

    @property
    def interval(self) -> str:
        """The mean with its interval, as ``+2.4 bps [+0.6, +4.3]``."""
        return "no scored action" if self.clv.mean is None else spelt_mean(self.clv, "bps")

    def facts(self) -> Mapping[str, object]:
        """Return the figures and the sentence as JSON values."""
        clv = self.clv
        return {
            "mean_clv_bps": clv.mean,
            "low": clv.low,
            "high": clv.high,
            "fixtures": clv.n_clusters,
            "verdict": self.said.sentence,
            "tone": self.said.tone.value,
        }


def headline(scores: pl.DataFrame) -> Headline:
    """Judge ``SCORES`` with ``at_close`` of one agent.

    Examples
    --------
    >>> import clvlab as cl
    >>> headline_of(cl.backtest("starter", "cumulative-drift").source).clv.n_clusters
    12
    """
    clv = estimates(stacked([fixture_sums(scores)], MEASURES["clv"])[0], level=LEVEL)[0]
    return Headline(clv, verdict_of(clv))


def headline_of(done: Run) -> Headline:
    """Judge a run of one agent."""
    return headline(done.scores.with_columns(at_close=done.at_close))


# What every page and terminal says and draws of a mean first: its sentence, its interval, its sum by date.
#
# Faces that know neither statistics nor drawing ask here; all of it is made of plain figures.


__all__ += ["verdict", "verdict_of"]
