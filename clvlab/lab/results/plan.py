"""Planned searches: training fixtures, and a hold-out until one configuration is chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import polars as pl

from clvlab.errors import StatisticsError
from clvlab.lab.progress import Progress
from clvlab.lab.results.result import Result
from clvlab.lab.results.sweep import GridWork, Sweep
from clvlab.lab.results.walk_forward import WalkForward
from clvlab.report.export import Exportable
from clvlab.report.html import Html, card
from clvlab.runs.search.search import spoken
from clvlab.statistics.verdict import Tone, Verdict

if TYPE_CHECKING:
    from clvlab.arena.searches import KeptPlan  # needs the libraries of the store


class PlanOpener(Protocol):
    """Records that a hold-out is opened for a configuration, and runs the configuration there."""

    def __call__(self, params: Mapping[str, Any], *, again: bool) -> Result: ...


_FIRST = ("points of the grid", "training fixtures", "planned as entry", "opened")


@dataclass(frozen=True)
class PlanVerbs:
    """The functions of a laboratory that a plan needs; ``trials`` counts the trials on record over the pack."""

    kept: Callable[[], KeptPlan]
    sweep: Callable[[GridWork], Sweep]
    walk: Callable[[GridWork], WalkForward]
    open: PlanOpener
    trials: Callable[[], int]


@dataclass(frozen=True)
class SearchPlan(Exportable):
    """A search that is recorded in the log before it starts; made by ``Lab.plan()``.

    Attributes
    ----------
    grid
        Values of each parameter.
    training, held_out
        Fixtures of the search, and fixtures that are held out until ``open``.
    """

    grid: Mapping[str, tuple[Any, ...]]
    training: tuple[int, ...] = field(repr=False)
    held_out: tuple[int, ...] = field(repr=False)
    verbs: PlanVerbs = field(repr=False)

    @cached_property
    def _plan(self) -> KeptPlan:
        return self.verbs.kept()

    @property
    def plan_id(self) -> str:
        return self._plan.plan_id

    @property
    def index(self) -> int:
        """Log entry with the plan's hash."""
        return self._plan.index

    @property
    def payload(self) -> Mapping[str, Any]:
        """The plan; the SHA-256 of its canonical JSON is the plan's hash."""
        return self._plan.payload

    def sweep(self, *, executor: Executor | None = None, progress: Progress | bool = True) -> Sweep:
        """Score the grid over the training fixtures, by the plan's objective; see ``Lab.sweep``."""
        return self.verbs.sweep(GridWork(executor, progress))

    def walk_forward(self, *, executor: Executor | None = None, progress: Progress | bool = True) -> WalkForward:
        """Walk the grid forward over the plan's folds of the training fixtures; see ``Lab.walk_forward``."""
        return self.verbs.walk(GridWork(executor, progress))

    def open(self, params: Mapping[str, Any] | None = None, *, again: bool = False) -> Result:
        """Run one configuration over the hold-out; the log records the opening before its first tick is read.

        Parameters
        ----------
        params
            A point of the grid; by default the best in a sweep of the training fixtures.
        again
            Whether to open the hold-out for a second configuration, which the log then shows. The same configuration always
            returns the same run.

        Raises
        ------
        StatisticsError
            The parameters are not a point of the grid, or the agent is not the planned one.
        LogConflictError
            The hold-out was opened for another configuration, and ``again`` is False.
        PackTamperedError
            The pack has changed since the plan was made.
        """
        if type(again) is not bool:
            raise StatisticsError(f"again is True or False, not {again!r:.80}")
        chosen = self.sweep(progress=False).best().params if params is None else params
        if not isinstance(chosen, Mapping):
            raise StatisticsError(f"a point of the grid is a mapping from parameters to values, not {chosen!r:.80}")
        # Use the grid's own value with its type: 20.0 equals 20 in Python, but would be another configuration in the log.
        point = {
            name: value
            for name, values in self.grid.items()
            for value in values
            if name in chosen and type(value) is type(chosen[name]) and value == chosen[name]
        }
        if point.keys() != self.grid.keys() or chosen.keys() != self.grid.keys():
            text = f"with {spoken(chosen)}" if chosen else "without parameters"
            raise StatisticsError(f"the plan has no point {text}: it is about {', '.join(self.grid)}")
        return self.verbs.open(point, again=again)

    @property
    def frame(self) -> pl.DataFrame:
        """One row per fact of the plan in its current state: (fact, value)."""
        kept = self.verbs.kept()
        points = 1
        for values in self.grid.values():
            points *= len(values)
        opened = ", ".join(str(index) for index, _ in kept.openings)
        times = {0: "not yet", 1: f"once in this log, as entry {opened}"}
        facts = {
            "plan": kept.plan_id,
            "hash": kept.plan_hash,
            "planned as entry": f"{kept.index:,}",
            "objective": str(kept.payload["objective"]),
            "points of the grid": f"{points:,}",
            "training fixtures": f"{len(self.training):,}",
            "fixtures held out": f"{len(self.held_out):,}, {kept.payload['hold_out']['content_hash']}",
            "trials over these fixtures' packs before the plan": f"{kept.trials_before:,}",
            "trials over these fixtures' packs by now": f"{self.verbs.trials():,}",
            "opened": times.get(len(kept.openings), f"{len(kept.openings)} times, as entries {opened}"),
            "opened by other plans": _opened_elsewhere(kept),
        }
        return pl.DataFrame(list(facts.items()), schema={"fact": pl.String, "value": pl.String}, orient="row")

    def __repr__(self) -> str:
        kept = self.verbs.kept()
        opened = {0: "not opened", 1: "opened once"}.get(len(kept.openings), f"opened {len(kept.openings)} times")
        steps = ".sweep(), .walk_forward(), .open()"
        others = {0: "", 1: ", with 1 opening by other plans"}.get(
            len(kept.elsewhere), f", with {len(kept.elsewhere)} openings by other plans"
        )
        held = f"{len(self.held_out)} fixtures held out, {opened}{others}"
        return f"Plan {kept.plan_id} at entry {kept.index:,}: {held}; next: {steps}"

    def _repr_html_(self) -> Html:
        kept, facts = self.verbs.kept(), dict(self.frame.iter_rows())
        tone = Tone.UNCLEAR if kept.openings[1:] or kept.elsewhere else Tone.NOTHING
        return card(
            "plan.html",
            f"Search plan {self.plan_id}",
            verdict=Verdict(_sentence(kept, len(self.held_out)), tone),
            first={name: facts[name] for name in _FIRST},
            plan=self.frame,
        )


def _sentence(kept: KeptPlan, held_out: int) -> str:
    """Return how often the hold-out was opened, in a sentence."""
    times = {0: "was not opened", 1: "was opened once"}.get(len(kept.openings), f"was opened {len(kept.openings)} times")
    others = {0: "", 1: "; another plan opened some of them"}.get(
        len(kept.elsewhere), f"; other plans opened some of them {len(kept.elsewhere)} times"
    )
    return f"{held_out:,} fixtures are held out, and the plan {times}{others}."


def _opened_elsewhere(kept: KeptPlan) -> str:
    """Return in words how often other plans opened some of the same fixtures."""
    before = [str(index) for index in kept.elsewhere if index < kept.index]
    since = [str(index) for index in kept.elsewhere if index > kept.index]
    parts = [f"{len(own)} {when}, as {', '.join(own)}" for own, when in ((before, "before it"), (since, "since")) if own]
    return "; ".join(parts) or "never"
