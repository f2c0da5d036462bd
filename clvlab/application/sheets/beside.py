"""Runs beside each other: each mean with its interval, and how much the others differ from the first, fixture by fixture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clvlab.application.sheets.listing import ListedRun
from clvlab.application.sheets.measures import MEASURES
from clvlab.application.sheets.sums import stacked
from clvlab.errors import StatisticsError
from clvlab.statistics import paired_difference
from clvlab.statistics.verdict import Verdict, Wording, verdict


@dataclass(frozen=True)
class Beside:
    """What one agent brings more than the first, over the fixtures that both scored in, in bps of probability."""

    first: str
    other: str
    fixtures: int
    difference: float | None
    low: float | None
    high: float | None

    @property
    def said(self) -> Verdict:
        """The difference in one sentence."""
        first, other = self.first, self.other
        words = Wording(
            f"{other} is ahead of {first}",
            f"{other} is behind {first}",
            f"{other} and {first} can't be told apart",
            f"{other} and {first} have no scored fixture in common",
        )
        return verdict(self.difference, self.low, self.high, fixtures=self.fixtures, wording=words, caveat="")

    def facts(self) -> dict[str, Any]:
        """Return it as JSON values."""
        figures = {"fixtures": self.fixtures, "difference_bps": self.difference, "low": self.low, "high": self.high}
        return {"agent": self.other, "beside": self.first, **figures, "verdict": self.said.sentence}


def beside_the_first(runs: Sequence[ListedRun]) -> list[Beside]:
    """Compare the agents of runs over one pack with the first of them, each difference taken alone.

    Raises
    ------
    StatisticsError
        Fewer than two agents, runs over different packs, or one that can't be read.
    """
    for run in runs:
        if run.fault is not None:
            raise StatisticsError(f"{run.run_id} can't be compared: {run.fault}")
        if run.content_hash != runs[0].content_hash:
            raise StatisticsError(
                f"runs over different packs have no fixtures in common: {runs[0].run_id} is over {runs[0].content_hash}, "
                f"{run.run_id} over {run.content_hash}"
            )
    names = _names(runs)
    if len(names) < 2:
        raise StatisticsError(f"a comparison needs at least two agents, not {len(names)}")
    sums = stacked([one for run in runs for one in run.sums], MEASURES["clv"])[0]
    found = [paired_difference(sums, k, 0, level=0.95) for k in range(1, len(names))]
    return [
        Beside(names[0], names[k], one.n_clusters, one.difference, one.low, one.high) for k, one in enumerate(found, start=1)
    ]


def _names(runs: Sequence[ListedRun]) -> list[str]:
    """Name each agent; one that is there more than once with the beginning of its run id."""
    each = [(agent, run.run_id) for run in runs for agent in run.agents]
    known = [agent for agent, _ in each]
    return [agent if known.count(agent) == 1 else f"{agent} ({run_id.removeprefix('run_')[:8]})" for agent, run_id in each]
