"""A sweep: one agent with many parameters over one tape, judged with all trials counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from clvlab.base.names import names_checked
from clvlab.engine.agent import Agent
from clvlab.errors import ArgumentError, ExecutorError, StatisticsError
from clvlab.lab.progress import Progress, progress_bar
from clvlab.lab.results.pack import Pack as LabPack
from clvlab.lab.results.result import Result
from clvlab.law.closing import Window
from clvlab.report import axes as drawing
from clvlab.report.cautions import cautions_of_points
from clvlab.report.comparison import mean_table
from clvlab.report.export import Exportable, check_settings
from clvlab.report.html import Html, card
from clvlab.report.power import PowerResult, sweep_power
from clvlab.report.search import OverfittingResult, best_points, draw_heatmap, grid_picture, overfitting_of, sweep_verdict
from clvlab.runs.search.scorer import point_scores
from clvlab.runs.search.search import Search, check_trials, grid_points, grid_size, search_of, spoken
from clvlab.runs.search.sums import KeptSums, search_points
from clvlab.statistics import BoundedClusters, Family, family_of
from clvlab.statistics.measures import MEASURES, Measure, measure_of, stacked
from clvlab.statistics.overfitting import Statistic
from clvlab.statistics.verdict import Verdict
from clvlab.words import counted, p_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# The executor and progress of a search, and the name of its agent.


@dataclass(frozen=True, slots=True)
class GridWork:
    """The executor and progress of a search.

    Attributes
    ----------
    executor
        The executor of the work; see ``parallel_map``.
    progress
        Whether a bar is shown; or a callback for each point.
    """

    executor: Executor | None = None
    progress: Progress | bool = True

    def __post_init__(self) -> None:
        if self.executor is not None and not isinstance(self.executor, Executor):
            raise ExecutorError(
                f"an executor is a concurrent.futures.Executor, not {self.executor!r:.80}: leave it out for all cores of this "
                "machine, or give ProcessPoolExecutor(4)"
            )
        if not isinstance(self.progress, bool) and not callable(self.progress):
            raise ArgumentError(f"progress is True, False, or a function called after each point, not {self.progress!r:.80}")


def agent_name(agent: str | Agent) -> str:
    """Return the name of an agent for a title."""
    return agent if isinstance(agent, str) else agent.identity.agent_id


Seal = Callable[[Mapping[str, Any]], Result]
_MAX_ROWS = 40
_LEAST_RESAMPLES = 1_000
_COLUMNS = {
    "n", "fixtures", "low", "high", "t", "p_alone", "p_family", "p_worst",
    *(name for one in MEASURES.values() for name in (one.mean, f"{one.name}_low", f"{one.name}_high")),
}  # fmt: skip


@dataclass(frozen=True)
class _Setting:
    """The common part of all trials of a sweep."""

    pack: LabPack
    agent: str | Agent
    seal: Seal
    search: Search

    def score(self, params: Mapping[str, Any]) -> pl.DataFrame:
        """Run the agent again at a point."""
        self.pack.source.check_open(self.search.fixture_ids)  # a plan may now hold them out
        return point_scores(self.search, params)


@dataclass(frozen=True)
class Trial:
    """One point of the grid, scored but not sealed.

    Attributes
    ----------
    number
        Row in the sweep's ``frame``.
    params
        Parameters of this point.
    sums
        ``FIXTURE_SUMS`` of its decisions.
    """

    number: int
    params: Mapping[str, Any]
    sums: pl.DataFrame
    setting: _Setting

    @property
    def scores(self) -> pl.DataFrame:
        """``SCORES`` with ``at_close``; the agent runs again, because a sweep keeps no decisions."""
        return self.setting.score(self.params)

    def seal(self) -> Result:
        """Run the point again as an audited, sealed backtest with the same scores."""
        return self.setting.seal(self.params)

    def __repr__(self) -> str:
        return f"Trial {self.number} with {spoken(self.params)}; next: .seal()"


def check_draws(level: float, seed: int, resamples: int) -> None:
    """Refuse invalid settings or too few resamples of a sweep."""
    check_settings(level, seed, resamples=resamples)
    if resamples < _LEAST_RESAMPLES:
        raise StatisticsError(
            f"a sweep is judged by {_LEAST_RESAMPLES:,} resamples or more, not {resamples}: with few, the result depends "
            "on the seed"
        )


def sweep_grid(
    pack: LabPack,
    agent: str | Agent,
    grid: Mapping[str, Sequence[Any]],
    *,
    seal: Seal,
    kept: KeptSums | None = None,
    fixture_ids: Sequence[int] | None = None,
    window: Window | None = None,
    executor: Executor | None = None,
    progress: Progress | bool = True,
) -> tuple[Trial, ...]:
    """Score an agent at every point of a grid, in which the last parameter changes fastest; see ``clvlab.sweep``.

    ``seal`` backtests a point with its parameters.
    """
    taken = [name for name in grid if name in _COLUMNS]
    if taken:
        raise StatisticsError(f"the frame of a sweep has a column {taken[0]!r} of its own: give the parameter another name")
    count = grid_size(grid)
    search = search_of(pack.source, agent, fixture_ids, window or Window(), next(grid_points(grid)))

    setting, trials = _Setting(pack, agent, seal, search), []
    with progress_bar(f"Sweep of {agent_name(agent)}", "scoring settings", progress=progress) as tell:
        found = search_points(search, grid_points(grid), count, executor=executor, kept=kept)
        for number, (params, sums) in enumerate(zip(grid_points(grid), found, strict=True)):
            trials.append(Trial(number, params, sums, setting))
            tell(number + 1, count)
    return tuple(trials)


@dataclass(frozen=True)
class Sweep(Exportable):
    """The trials of a grid; made by ``clvlab.sweep()``.

    Attributes
    ----------
    sources
        The trials.
    grid
        Values of each parameter.
    earlier_trials
        Number of trials made before, which count too.
    by
        Measure of the points: ``clv``, ``edge`` or ``price_ratio``.
    level
        Level of the intervals.
    resamples, seed
        Number of draws for the distribution of the highest t by chance, and their seed.
    """

    sources: tuple[Trial, ...]
    grid: Mapping[str, tuple[Any, ...]]
    earlier_trials: int = 0
    by: str = "clv"
    level: float = 0.95
    resamples: int = 5_000
    seed: int = 0

    def __post_init__(self) -> None:
        check_draws(self.level, self.seed, self.resamples)
        check_trials(self.earlier_trials)
        measure_of(self.by)

    @property
    def trials(self) -> int:
        """Number of trials on record: the points of the grid, and the trials made before."""
        return len(self.sources) + self.earlier_trials

    @property
    def _measure(self) -> Measure:
        return measure_of(self.by)

    @cached_property
    def sums(self) -> BoundedClusters:
        """The sums and counts of decisions per fixture (row) and point (column)."""
        return stacked(self._each, self._measure)[0]

    @property
    def _each(self) -> list[pl.DataFrame]:
        return [trial.sums for trial in self.sources]

    @cached_property
    def family(self) -> Family:
        """The p-values of all points, corrected for all trials."""
        return family_of(self.sums, earlier=self.earlier_trials, resamples=self.resamples, seed=self.seed)

    @cached_property
    def frame(self) -> pl.DataFrame:
        """One row per point: parameters, ``n`` decisions, ``fixtures``, mean, ``low``, ``high``, ``t``.

        ``p_alone`` is the one-sided p-value without correction. ``p_family`` is corrected for all trials, and so is
        ``p_worst``, for an unseen fixture that loses its whole price; see ``clvlab.statistics.Family``. They are ``None`` with
        fewer than five fixtures. The means by the other measures come last, with intervals.
        Entries at the closing message are left out.
        """
        found = mean_table(self._each, self._measure, self.level)
        table = found.rename({"p_value": "p_alone"})
        for name, p_values in (("p_worst", self.family.p_worst), ("p_family", self.family.p_values)):
            table.insert_column(table.get_column_index("p_alone") + 1, pl.Series(name, p_values).fill_nan(None))
        params = [pl.Series(name, [trial.params[name] for trial in self.sources], strict=False) for name in self.grid]
        return pl.DataFrame(params).hstack(table)

    @names_checked
    def best(self, by: str | None = None) -> Trial:
        """Return the point with the highest mean among those with an interval; among equal points, the first.

        Parameters
        ----------
        by
            ``clv``, ``edge`` or ``price_ratio``, by default the measure of this sweep; or ``t`` of that measure.

        Raises
        ------
        StatisticsError
            No point has scored decisions in five fixtures, or ``by`` is not a measure.
        """
        column = "t" if by == "t" else measure_of(by or self.by).mean
        known = self.frame.with_row_index("number").drop_nulls(["low", column])
        if known.is_empty():
            raise StatisticsError("no point of the grid has an interval: they have scored decisions in too few fixtures")
        return self.sources[int(known.sort(column, descending=True, maintain_order=True)["number"][0])]

    @names_checked
    def overfitting(self, blocks: int = 16, *, statistic: Statistic = "mean") -> OverfittingResult:
        """Return how often the best point in half of the fixtures is no better than the median in the other half.

        Parameters
        ----------
        blocks
            Even number, from 4 to 20, of blocks of fixtures by kickoff; all halves of the blocks are tried.
        statistic
            Statistic that ranks points: ``mean`` of the measure of this sweep, or its cluster ``t``.

        Raises
        ------
        StatisticsError
            There are too few points or fixtures, or the number of blocks is odd.

        Examples
        --------
        >>> import clvlab as cl
        >>> grid = {"warmup_ticks": [5, 10, 15, 20, 30, 40], "cooldown_s": [0, 3600]}
        >>> found = cl.sweep("season", "cumulative-drift", grid, progress=False).overfitting(blocks=8)
        >>> found.source.configurations, found.source.splits, 0 <= found.pbo <= 1
        (12, 70, True)
        """
        points = self.frame.select(list(self.grid))
        fixtures = self.sources[0].setting.pack.source.fixtures.select("fixture_id", "kickoff_ts_ms")
        return overfitting_of(self._each, points, self._measure, fixtures, blocks, statistic)

    @names_checked
    def power(self, edge: float) -> PowerResult:
        """Return how many more fixtures each point would need until an edge shows with all trials counted.

        The threshold is that of ``p_family``: at a level of 0.95, chance alone exceeds it in some trial in one case of twenty.
        The unseen fixture counts as in ``clvlab.statistics.Family``. Points that have no p-value are left out.

        Parameters
        ----------
        edge
            The smallest edge that matters to you, above 0, in the unit of the measure: 34 for 34 bps. It should not be the mean
            of the best point.

        Raises
        ------
        StatisticsError
            The edge is not above 0.

        Examples
        --------
        >>> import clvlab as cl
        >>> found = cl.sweep("season", "cumulative-drift", {"warmup_ticks": [10, 40]}, progress=False).power(edge=34)
        >>> found.frame.columns[:4]
        ['warmup_ticks', 'edge', 'power', 'fixtures']
        """
        return sweep_power(self.sums, self.family, self.frame.select(list(self.grid)), self._measure, edge, 1 - self.level)

    @names_checked
    def heatmap(self, x: str | None = None, y: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw the mean over two parameters, by default the first two with several values, averaged over the others.

        A dot marks a point whose family-wise p-value is below 1 - ``level``.

        Raises
        ------
        StatisticsError
            The grid does not have the parameter.
        MissingLibraryError
            matplotlib is not installed.
        """
        several = [name for name, values in self.grid.items() if len(values) > 1] or list(self.grid)
        x = x or several[0]
        y = y or next((name for name in several if name != x), None)
        for name in (x, y):
            if name is not None and name not in self.grid:
                raise StatisticsError(f"the grid has no parameter {name!r}; it has: {', '.join(self.grid)}")
        ax = drawing.axes_or_new(ax)
        draw_heatmap(self.frame, self.grid, self._measure, x, y, 1 - self.level, ax)
        return ax

    @property
    def line(self) -> str:
        """The sweep in one sentence."""
        passed = self.frame.filter(pl.col("p_family") < 1 - self.level).height
        alone = self.frame.filter(pl.col("p_alone") < 1 - self.level).height
        head = (
            f"{counted(len(self.sources), 'setting')}, {counted(self.trials, 'trial')} on record: by {self._measure.title}, "
            f"{passed} above zero after correction for all trials ({alone} uncorrected)"
        )
        found = self.family
        if np.isnan(found.scores).all():
            return f"{head}; no setting has a t"
        top = int(np.nanargmax(found.scores))
        return (
            f"{head}; best t {self.frame['t'][top]:.2f}, with an unseen fixture {found.scores[top]:z.2f} on the normal "
            f"scale, where chance gives {found.expected_max:z.2f}: p {p_value(found.p_values[top])}"
        )

    def __repr__(self) -> str:
        return f"Sweep of {agent_name(self.sources[0].setting.agent)}: {self.line}; next: .frame, .heatmap(), .best().seal()"

    @property
    def cautions(self) -> list[str]:
        """Warnings about the figures: skewed means, few fixtures, missing closes."""
        return cautions_of_points(self.sums, self._each)

    @property
    def verdict(self) -> Verdict:
        """The verdict on the points in one sentence, corrected for all trials."""
        return sweep_verdict(self.frame, self.trials, 1 - self.level, self.by)

    def _repr_html_(self) -> Html:
        measure, alpha = self._measure, 1 - self.level
        return card(
            "sweep.html",
            f"Sweep of {agent_name(self.sources[0].setting.agent)} on {self.sources[0].setting.pack.pack_id}",
            verdict=self.verdict,
            cautions=self.cautions,
            grid=grid_picture(self.frame, self.grid, measure, alpha),
            best=best_points(self.frame, self.grid, measure),
            alpha=alpha,
            measure=measure,
            line=self.line,
            rows=self.frame.sort(measure.mean, descending=True, nulls_last=True, maintain_order=True).head(_MAX_ROWS),
            height=self.frame.height,
        )
