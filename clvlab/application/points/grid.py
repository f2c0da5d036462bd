"""A grid of parameters, its points, and how many trials they are judged among."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from clvlab.errors import StatisticsError


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
