"""A grid of parameters, its points, and how they are worked on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from clvlab.engine.agent import Agent
from clvlab.errors import ArgumentError, ExecutorError, StatisticsError
from clvlab.lab.drawing.progress import Progress


@dataclass(frozen=True, slots=True)
class Work:
    """How a search is worked on.

    Attributes
    ----------
    executor
        Who computes; see ``in_order``.
    progress
        Whether a bar is shown, or what is told of each point.

    Raises
    ------
    ExecutorError
        What is no executor.
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
            raise ArgumentError(f"progress is True, False, or what is called after each point, not {self.progress!r:.80}")


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
        said = f"write {{{wrong[0]!r}: [{grid[wrong[0]]!r:.40}]}}" if wrong else "it is empty"
        raise StatisticsError(f"a grid needs parameters, each with a list of values: {said}")
    for name, own in values.items():
        for number, value in enumerate(own):
            if value in own[:number]:
                raise StatisticsError(f"the grid has {name}={value!r} twice: each value is one trial")
    return values


def grid_points(grid: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Yield the parameters of every point, the last parameter fastest."""
    return (dict(zip(grid, values, strict=True)) for values in product(*grid.values()))


def grid_size(grid: Mapping[str, Sequence[Any]]) -> int:
    """Count the points."""
    return prod(map(len, grid.values()))


def check_trials(earlier_trials: int) -> None:
    """Refuse a count of earlier trials that is not a valid count.

    Raises
    ------
    StatisticsError
    """
    if type(earlier_trials) is not int or earlier_trials < 0:
        raise StatisticsError(f"earlier_trials counts trials, it can't be {earlier_trials!r}")


def agent_name(agent: str | Agent) -> str:
    """Return what an agent is called in a title."""
    return agent if isinstance(agent, str) else agent.identity.agent_id
