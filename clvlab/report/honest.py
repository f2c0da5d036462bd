"""A search over a grid and what is left of its best point when everything that was tried is counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clvlab.agents.template import Params
from clvlab.engine.agent import Agent
from clvlab.law.closing import Window
from clvlab.packs.reader import Pack
from clvlab.report.cautions import cautions_of_points
from clvlab.runs.search.search import check_trials, grid_of, grid_points, grid_size, search_of, spoken
from clvlab.runs.search.sums import search_points
from clvlab.statistics import Estimate, estimates, family_of
from clvlab.statistics.means import finite
from clvlab.statistics.measures import MEASURES, stacked
from clvlab.statistics.verdict import Phrases, Tone, Verdict, verdict_of
from clvlab.words import p_value

_LEVEL = 0.95


@dataclass(frozen=True)
class Point:
    """One point: its parameters, its mean CLV, and its p-values when all points are counted, null without an interval.

    See ``Family``: ``p_worst`` is that if what nobody saw loses its whole price.
    """

    params: Params
    clv: Estimate
    p_family: float | None
    p_worst: float | None

    def facts(self) -> Mapping[str, object]:
        """Return it as JSON values."""
        clv = self.clv
        figures = {"mean_clv_bps": clv.mean, "low": clv.low, "high": clv.high, "n": clv.n, "fixtures": clv.n_clusters}
        return {
            "params": dict(self.params),
            **figures,
            "p_alone": clv.p_value,
            "p_family": self.p_family,
            "p_worst": self.p_worst,
        }


@dataclass(frozen=True)
class HonestSearch:
    """The points of a grid, and how many trials they are judged among.

    Attributes
    ----------
    points
        The last parameter fastest.
    trials
        Points, and the trials made before.
    cautions
        What a reader has to know before the figures.
    """

    points: tuple[Point, ...]
    trials: int
    cautions: tuple[str, ...]

    @property
    def best(self) -> Point | None:
        """The point with the highest mean among those with an interval; null if there is none."""
        known = [point for point in self.points if point.clv.low is not None]
        return max(known, key=lambda point: point.clv.mean or 0.0, default=None)

    @property
    def said(self) -> Verdict:
        """What is left of the best point, in words."""
        best = self.best
        if best is None or best.p_family is None:
            return Verdict("Nothing to judge: no point has scored decisions in enough fixtures.", Tone.NOTHING)
        clv, passed = best.clv, best.p_family < 1 - _LEVEL
        chance = f"p {p_value(best.p_family)} counting all {self.trials:,} trials"
        words = Phrases(
            above="The best point beats the closing line", around="The best point is what luck over a grid can give"
        )
        spelt = verdict_of(clv, wording=words, caveat="")
        if not passed and spelt.tone is Tone.BEATS:
            alone = spelt.sentence.partition(": ")[2].rstrip(".")
            return Verdict(f"{words.around}: {alone} taken alone, but {chance}.", Tone.UNCLEAR)
        return Verdict(f"{spelt.sentence.rstrip('.')}, {chance}.", spelt.tone)

    def facts(self) -> Mapping[str, object]:
        """Return the search as JSON values."""
        best = self.best
        return {
            "trials": self.trials,
            "verdict": self.said.sentence,
            "tone": self.said.tone.value,
            "cautions": list(self.cautions),
            "best": None if best is None else best.facts(),
            "points": [point.facts() for point in self.points],
        }


def honest_search(
    pack: Pack,
    agent: str | Agent,
    grid: Mapping[str, Sequence[Any]],
    *,
    window: Window | None = None,
    fixture_ids: Sequence[int] | None = None,
    earlier: int = 0,
    tell: Callable[[int, int], None] = lambda done, of: None,  # noqa: ARG005  nobody is told
) -> HonestSearch:
    """Score an agent at every point of a grid, unsealed, and judge them together.

    Parameters
    ----------
    pack, agent, window, fixture_ids
        As for ``backtest_spec``.
    grid
        Values of each parameter.
    earlier
        Trials made before on these fixtures, which count as well.
    tell
        Told how many points are done, and of how many.

    Raises
    ------
    StatisticsError
        As ``grid_of`` and ``check_trials``.
    UnknownAgentError, AgentError, UnknownFixtureError
        As for ``search_of``.
    """
    values = grid_of(grid)
    check_trials(earlier)
    each, count = list(grid_points(values)), grid_size(values)
    found = []
    for sums in search_points(search_of(pack, agent, fixture_ids, window or Window(), each[0]), each, count):
        found.append(sums)
        tell(len(found), count)
    clusters = stacked(found, MEASURES["clv"])[0]
    family = family_of(clusters, earlier=earlier)
    points = zip(each, estimates(clusters, level=_LEVEL), family.p_values, family.p_worst, strict=True)
    return HonestSearch(
        tuple(Point(params, clv, finite(p), finite(worst)) for params, clv, p, worst in points),
        count + earlier,
        tuple(cautions_of_points(clusters, found)),
    )


def named(point: Point) -> str:
    """Return the parameters of a point in words."""
    return spoken(point.params)
