"""A sweep: one agent with many parameters over one tape, and what is left of the best when all the trials are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

import polars as pl

from clvlab.application import backtests
from clvlab.drawing import axes as drawing
from clvlab.drawing import html
from clvlab.drawing.showing import Shown, check_settings
from clvlab.engine.agent import Agent, decisions_of
from clvlab.engine.replay import locate, replay
from clvlab.errors import ClvlabError, StatisticsError
from clvlab.lab.drawing.heatmap import draw_heatmap
from clvlab.lab.drawing.progress import Progress, shown_progress
from clvlab.lab.results.comparison import fixture_sums
from clvlab.lab.results.result import Result
from clvlab.law.closing import Window
from clvlab.law.clv import scores
from clvlab.law.positions import positions
from clvlab.law.schema import Schema
from clvlab.law.tape import Tape
from clvlab.packs.reader import Pack
from clvlab.statistics import Clusters, Deflated, deflated_t, estimates, family_wise_p_values, influence_shape

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Seal = Callable[[Mapping[str, Any]], Result]
_SHOWN_ROWS = 40
_FOUND: Schema = {
    "n": pl.Int64, "fixtures": pl.Int64, "mean_clv_bps": pl.Float64, "low": pl.Float64, "high": pl.Float64, "t": pl.Float64,
    "p_alone": pl.Float64,
}  # fmt: skip


@dataclass(frozen=True)
class _Setting:
    """What all trials of a sweep have in common."""

    pack: Pack
    agent: str | Agent
    seal: Seal


@dataclass(frozen=True)
class Trial:
    """One point of the grid: scored, and not sealed.

    Attributes
    ----------
    number
        Row in the sweep's ``frame``.
    params
        Parameters of this point.
    scores
        ``SCORES``.
    """

    number: int
    params: Mapping[str, Any]
    scores: pl.DataFrame
    setting: _Setting

    def seal(self) -> Result:
        """Run it again as a backtest, audited and sealed; its scores are those of the trial."""
        return self.setting.seal(self.params)

    def __repr__(self) -> str:
        return f"Trial {self.number} with {_said(self.params)}; next: .seal()"


def grid_of(grid: Mapping[str, Sequence[Any]]) -> dict[str, tuple[Any, ...]]:
    """Return the values of each parameter.

    Raises
    ------
    StatisticsError
        No parameter, or one without a list of values, or with a value twice.
    """
    if not isinstance(grid, Mapping):
        raise StatisticsError(f"a grid is a mapping from parameters to lists of values, not {grid!r:.80}")
    values = {name: () if isinstance(own, str) or not isinstance(own, Iterable) else tuple(own) for name, own in grid.items()}
    wrong = [name for name, own in values.items() if not own]
    if not grid or wrong:
        raise StatisticsError(f"a grid needs parameters, each with a list of values: {wrong[0] if wrong else 'it is empty'}")
    for name, own in values.items():
        for number, value in enumerate(own):
            if value in own[:number]:
                raise StatisticsError(f"the grid has {name}={value!r} twice: each value is one trial")
    return values


def check_trials(earlier_trials: int) -> None:
    """Refuse a count of earlier trials that is not a valid count.

    Raises
    ------
    StatisticsError
    """
    if type(earlier_trials) is not int or earlier_trials < 0:
        raise StatisticsError(f"earlier_trials counts trials, it can't be {earlier_trials!r}")


def sweep_grid(
    pack: Pack,
    agent: str | Agent,
    grid: Mapping[str, Sequence[Any]],
    *,
    seal: Seal,
    fixture_ids: Sequence[int] | None = None,
    window: Window | None = None,
    progress: Progress | bool = True,
) -> tuple[Trial, ...]:
    """Score an agent at every point of a grid, the last parameter fastest; see ``clvlab.sweep``.

    ``seal`` makes a backtest of the parameters of a point.
    """
    setting = _Setting(pack, agent, seal)
    tape = pack.tape(fixture_ids)
    points = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    trials = []
    with shown_progress(f"sweep of {_name(agent)}", len(points), progress=progress) as tell:
        for number, params in enumerate(points):
            try:
                trials.append(Trial(number, params, _scored(tape, agent, params, window or Window()), setting))
            except ClvlabError as error:
                error.add_note(f"at point {number} of the grid: {_said(params)}")
                raise
            tell(number + 1, len(points))
    return tuple(trials)


def _scored(tape: Tape, agent: str | Agent, params: Mapping[str, Any], window: Window) -> pl.DataFrame:
    decided = decisions_of(backtests.resolve(agent, params, window), tape)
    replayed = replay(tape, locate(tape, decided), window)
    return scores(positions(replayed.decisions, replayed.closes), window, tape.max_close_age_s)


@dataclass(frozen=True)
class Sweep(Shown):
    """The trials of a grid; made by ``clvlab.sweep()``.

    Attributes
    ----------
    sources
        The trials.
    grid
        Values of each parameter.
    earlier_trials
        Trials made before this sweep, which count as well.
    level, resamples, seed
        Of the intervals and of the bootstrap over fixtures.
    """

    sources: tuple[Trial, ...]
    grid: Mapping[str, tuple[Any, ...]]
    earlier_trials: int = 0
    level: float = 0.95
    resamples: int = 5_000
    seed: int = 0

    def __post_init__(self) -> None:
        check_settings(self.level, resamples=self.resamples)
        check_trials(self.earlier_trials)

    @property
    def trials(self) -> int:
        """Trials on record: the points of the grid and those made before."""
        return len(self.sources) + self.earlier_trials

    @cached_property
    def _sums(self) -> Clusters:
        return fixture_sums([trial.scores for trial in self.sources])[0]

    @cached_property
    def frame(self) -> pl.DataFrame:
        """One row per point: parameters, ``n`` scored decisions, ``fixtures``, ``mean_clv_bps``, ``low``, ``high``, ``t``.

        ``p_alone`` is the one-sided p-value as if nothing else had been tried, ``p_family`` that of the maximum of t over the
        grid. Null with fewer than five fixtures.
        """
        found = estimates(self._sums, level=self.level, resamples=self.resamples, seed=self.seed)
        family = family_wise_p_values(self._sums, resamples=self.resamples, seed=self.seed)
        rows = [(one.n, one.n_clusters, one.mean, one.low, one.high, one.t, one.p_value) for one in found]
        table = pl.DataFrame(rows, schema=_FOUND, orient="row")
        params = [pl.Series(name, [trial.params[name] for trial in self.sources], strict=False) for name in self.grid]
        return pl.DataFrame(params).hstack(table).with_columns(p_family=pl.Series(family).fill_nan(None))

    @cached_property
    def deflated(self) -> Deflated | None:
        """The best t, less what chance gives over all trials; null if no trial has a t."""
        ts = [t for t in self.frame["t"] if t is not None]
        if not ts:
            return None
        top = self.frame["t"].arg_max() or 0
        skewness, kurtosis = influence_shape(self._sums, top)
        fixtures = int(self.frame["fixtures"][top])
        return deflated_t(max(ts), fixtures, ts, earlier=self.earlier_trials, skewness=skewness, kurtosis=kurtosis)

    def best(self, by: str = "mean_clv_bps") -> Trial:
        """Return the point with the highest mean CLV (or ``by="t"``) among those with an interval; the first one of equals.

        Raises
        ------
        StatisticsError
            No point has scored decisions in five fixtures, or ``by`` is neither.
        """
        if by not in ("mean_clv_bps", "t"):
            raise StatisticsError(f"the best point goes by mean_clv_bps or t, not {by!r}")
        known = self.frame.with_row_index("number").drop_nulls(["low", by])
        if known.is_empty():
            raise StatisticsError("no point of the grid has an interval: they have scored decisions in too few fixtures")
        return self.sources[int(known.sort(by, descending=True, maintain_order=True)["number"][0])]

    def heatmap(self, x: str | None = None, y: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw mean CLV over two parameters (the first two with several values), averaged over the others.

        A dot marks a point whose family-wise p-value is below 1 - ``level``.

        Raises
        ------
        StatisticsError
            No such parameter.
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
        draw_heatmap(self.frame, self.grid, x, y, 1 - self.level, ax)
        return ax

    @property
    def line(self) -> str:
        """The sweep in one sentence."""
        passed = self.frame.filter(pl.col("p_family") < 1 - self.level).height
        alone = self.frame.filter(pl.col("p_alone") < 1 - self.level).height
        said = (
            f"{len(self.sources)} points, {self.trials} trials on record: {alone} above zero taken alone, "
            f"{passed} when all points are counted"
        )
        found = self.deflated
        if found is None:
            return f"{said}; no point has a t"
        return (
            f"{said}; best t {found.t:.2f}, where chance gives {found.expected_max:.2f}, deflated p {1 - found.probability:.2g}"
        )

    def __repr__(self) -> str:
        return f"Sweep of {_name(self.sources[0].setting.agent)}: {self.line}; next: .frame, .heatmap(), .best().seal()"

    def _repr_html_(self) -> str:
        shown = self.frame.sort("mean_clv_bps", descending=True, nulls_last=True, maintain_order=True).head(_SHOWN_ROWS)
        more = self.frame.height - shown.height
        return html.block(
            f"Sweep of {_name(self.sources[0].setting.agent)} on {self.sources[0].setting.pack.pack_id}",
            f"<p>{html.escape(self.line)}.</p>",
            html.figures([drawing.svg(lambda ax: self.heatmap(ax=ax), "mean CLV over the grid")]),
            html.section("Points by mean CLV, bps of probability", html.table(shown.columns, shown.rows())),
            f'<p class="quiet">and {more} more, in .frame</p>' if more else "",
        )


def _name(agent: str | Agent) -> str:
    return agent if isinstance(agent, str) else agent.identity.agent_id


def _said(params: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in params.items())
