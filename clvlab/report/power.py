"""How many more fixtures would show an edge: of one mean, or of every point of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property

import polars as pl

from clvlab.report.export import Exportable
from clvlab.report.html import Html, card
from clvlab.report.svg import edge_ruler
from clvlab.statistics.clusters import MIN_CLUSTERS, BoundedClusters, Clusters
from clvlab.statistics.families import Family
from clvlab.statistics.measures import Measure
from clvlab.statistics.power import POWER, MeanErrors, Power, alone, check_edge, mean_errors, powers, ruler, smallest_edge
from clvlab.words import counted

SAMPLES = f"{POWER:.0%} of samples"
_MAX_ROWS = 40


@dataclass(frozen=True)
class PowerResult(Exportable):
    """How many more fixtures would show an edge; made by ``.power()`` of a result, a tear sheet, a sweep or a walk forward.

    Attributes
    ----------
    measure
        The measure whose mean is judged; edges are in its unit.
    points
        Parameters of each row's point in a sweep; without columns for one mean.
    powers
        One row each.
    rule
        The rule by which an edge shows, in words.
    ruled
        Round edges, for the picture; empty for a sweep.
    """

    measure: Measure
    points: pl.DataFrame = field(repr=False)
    powers: tuple[Power, ...] = field(repr=False)
    rule: str
    ruled: tuple[Power, ...] = field(default=(), repr=False)

    @cached_property
    def frame(self) -> pl.DataFrame:
        """One row per edge, or per point of a sweep: ``edge, power, fixtures, needed, more, more_low, more_high``.

        ``power`` is the probability, 0..1, that the fixtures that there are show the edge; ``more`` counts those that are
        missing, and ``more_low`` and ``more_high`` bound it as the error is not known better.
        """
        whole = dict.fromkeys(("fixtures", "needed", "more", "more_low", "more_high"), pl.Int64)
        rows = [tuple(asdict(one).values()) for one in self.powers]
        table = pl.DataFrame(rows, schema={"edge": pl.Float64, "power": pl.Float64, **whole}, orient="row")
        return self.points.hstack(table) if self.points.width else table

    @property
    def line(self) -> str:
        """The result in one sentence."""
        unit = self.measure.short
        if len(self.powers) == 1:
            return _words(self.powers[0], unit)
        if self.ruled:
            return f"edges of these sizes, in {unit}: {_ruled_words(self.powers)}"
        if not self.powers:
            return "no point has scored decisions in enough fixtures"
        least, most = min(self.powers, key=lambda one: one.more), max(self.powers, key=lambda one: one.more)
        return f"of {counted(len(self.powers), 'point')}, at best {_words(least, unit)}; at worst {_words(most, unit)}"

    def __repr__(self) -> str:
        return f"Power of the mean {self.measure.title}: {self.line}; next: .frame, .to_html(path)"

    def _repr_html_(self) -> Html:
        return card(
            "power.html",
            f"Power of the mean {self.measure.title}",
            line=self.line,
            ruler=edge_ruler(self.ruled, self.measure.short),
            rule=self.rule,
            rows=self.frame.head(_MAX_ROWS),
            height=self.frame.height,
        )


def mean_power(clusters: Clusters, measure: Measure, edge: float | None, level: float) -> PowerResult:
    """Return the power of one mean at an edge; without an edge, at round edges that depend on the error alone."""
    known = alone(clusters, level)
    ruled = ruler(known)
    found = ruled if edge is None else powers(known, [check_edge(edge)])
    rule = f"An edge shows if its interval of {level:.0%} over fixtures lies above zero, in {SAMPLES}."
    return PowerResult(measure, pl.DataFrame(), tuple(found), rule, tuple(ruled))


def sweep_power(
    clusters: BoundedClusters, family: Family, points: pl.DataFrame, measure: Measure, edge: float, alpha: float
) -> PowerResult:
    """Return the power of every point with an interval, judged as a sweep judges it: with all trials counted."""
    size = check_edge(edge)
    own = (pl.Series(family.scores).is_not_nan()).to_numpy().nonzero()[0]
    trials = counted(family.trials, "trial")
    rule = f"An edge shows if its p_family, which counts {trials}, is below {alpha:.2g}, in {SAMPLES}."
    if not own.size:
        return PowerResult(measure, points.clear(), (), rule)
    known = mean_errors(clusters.columns(own), family.threshold(alpha))
    total = clusters.counts[:, own].sum(0)
    burdened = MeanErrors(
        known.errors, known.degrees, known.range_degrees, known.n_clusters, known.threshold,
        clusters.counts[:, own].max(0) / total, -family.losses[own] / total,
    )  # fmt: skip
    return PowerResult(measure, points[own.tolist()], tuple(powers(burdened, [size])), rule)


def mean_ruler(clusters: Clusters, measure: Measure, level: float) -> tuple[Html, str]:
    """Return the picture of round edges for a mean with an interval and its caption; both are empty without an error."""
    known = mean_errors(clusters, 0.0)
    if not known.errors[0] > 0 or known.n_clusters[0] < MIN_CLUSTERS:
        return Html(""), ""
    own = alone(clusters, level)
    smallest = f"{smallest_edge(own):.2g} {measure.short}"
    caption = f"Edges, and how many more fixtures would show them in {SAMPLES}; {smallest} shows now, whatever the mean."
    return edge_ruler(ruler(own), measure.short), caption


def _words(one: Power, unit: str) -> str:
    there = counted(one.n_clusters, "fixture")
    chance = f"an edge of {one.edge:g} {unit} shows with the {there} in {one.power:.0%} of samples"
    if not one.more:
        return f"{chance}, which is enough"
    return f"{chance}; {counted(one.more, 'more fixture')} [{one.more_low:,}, {one.more_high:,}] would make it {POWER:.0%}"


def _ruled_words(ruled: Sequence[Power]) -> str:
    return ", ".join(f"{one.edge:g} {'shows now' if not one.more else f'takes {one.more:,} more'}" for one in ruled)
