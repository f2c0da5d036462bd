"""A grid of parameters: its points, and the scores of an agent at one of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any

import polars as pl

from clvlab.agents.isolation.isolated import IsolatedAgent
from clvlab.application import backtests
from clvlab.application.runs.entries import at_close
from clvlab.engine.agent import Agent, decisions_of
from clvlab.engine.replay import locate, replay
from clvlab.errors import ClvlabError, StatisticsError
from clvlab.law.closing import Window
from clvlab.law.clv import scores
from clvlab.law.positions import positions
from clvlab.law.tape import Tape


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


def grid_points(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return the parameters of every point, the last parameter fastest."""
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def check_trials(earlier_trials: int) -> None:
    """Refuse a count of earlier trials that is not a valid count.

    Raises
    ------
    StatisticsError
    """
    if type(earlier_trials) is not int or earlier_trials < 0:
        raise StatisticsError(f"earlier_trials counts trials, it can't be {earlier_trials!r}")


@contextmanager
def fresh_points(agent: str | Agent, points: Sequence[Mapping[str, Any]], window: Window) -> Iterator[Sequence[Agent | None]]:
    """Return an agent of one's own at each point, in one process that has seen nothing; null where it keeps nothing anyway."""
    try:
        first = backtests.resolve(agent, points[0], window)
    except ClvlabError as error:
        error.add_note(f"at point 0 of the grid: {spoken(points[0])}")
        raise
    if not isinstance(first, IsolatedAgent):
        yield [None] * len(points)
        return
    with first.fresh_at(points) as found:
        yield found


def scored_point(
    tape: Tape,
    agent: str | Agent,
    params: Mapping[str, Any],
    window: Window,
    number: int,
    *,
    asked: Agent | None = None,
) -> pl.DataFrame:
    """Return ``SCORES`` with ``at_close`` of an agent at a point of a grid; an error of it is noted to be of that point.

    ``asked`` is the agent at that point where it is at hand.
    """
    try:
        decided = decisions_of(asked or backtests.resolve(agent, params, window), tape)
        replayed = replay(tape, locate(tape, decided), window)
    except ClvlabError as error:
        error.add_note(f"at point {number} of the grid: {spoken(params)}")
        raise
    rows = scores(positions(replayed.decisions, replayed.closes), window, tape.max_close_age_s)
    return rows.with_columns(at_close(replayed.decisions, replayed.closes))


def agent_name(agent: str | Agent) -> str:
    """Return what an agent is called in a title."""
    return agent if isinstance(agent, str) else agent.identity.agent_id


def spoken(params: Mapping[str, Any]) -> str:
    """Return parameters in words."""
    return ", ".join(f"{name}={value!r}" for name, value in params.items())
