"""Conversion of objects that users pass as an agent: agents, and plain functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from clvlab.agents.columnar import Strategy, strategy
from clvlab.agents.ticks import TickAgent
from clvlab.engine.agent import Agent
from clvlab.errors import AgentError

_WAYS = "an agent is the name of a template (clvlab.agents() lists them), 'file.py:name', or an agent of your own"


def as_agent(agent: object) -> Agent:
    """Return an agent as it is, or a plain function of ``ticks`` as a strategy with defaults; ``AgentError`` otherwise.

    Examples
    --------
    >>> import polars as pl
    >>> def favourites(ticks, *, least_bps=6000):
    ...     return ticks.filter(pl.col("prob_bps") >= least_bps)
    >>> as_agent(favourites).identity.config
    {'least_bps': 6000, 'markets': [''], 'stake': 100}
    """
    if isinstance(agent, type):
        raise AgentError(_of_class(agent))
    if inspect.isfunction(agent):
        return _of_function(agent)
    if not isinstance(agent, Agent):
        raise AgentError(f"{_WAYS}, not {agent!r:.80}")
    return agent


def _of_class(agent: type) -> str:
    if issubclass(agent, TickAgent):
        return f"{agent.__name__} is a class, and an agent is an object of it: give {agent.__name__}()"
    return f"{_WAYS}, not the class {agent.__name__}: give an object of it, and derive it from clvlab.TickAgent"


def _of_function(rule: Callable[..., Any]) -> Strategy:
    parameters, name = list(inspect.signature(rule).parameters), rule.__name__
    if parameters[:1] == ["ticks"]:
        return strategy(rule)
    if parameters[:1] == ["book"]:
        raise AgentError(
            f"{name} is a function of a book: write it as the method on_tick(self, book) of a class that derives from "
            "clvlab.TickAgent, and give an object of that class"
        )
    signature = "no parameter" if not parameters else f"{parameters[0]!r} as its first parameter"
    raise AgentError(
        f"{name} is a plain function with {signature}: write @clvlab.strategy above it if it takes all ticks as a lazy frame "
        "and returns a frame of decisions, or name that parameter 'ticks'"
    )
