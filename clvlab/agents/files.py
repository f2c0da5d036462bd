"""Agents in a user's files, named ``path/to/file.py:name``. Their code runs only in the agent's process."""

from __future__ import annotations

import sys
from inspect import isfunction
from types import ModuleType

from clvlab.agents.coercion import as_agent
from clvlab.agents.columnar import Strategy
from clvlab.agents.ticks import TickAgent
from clvlab.base.names import did_you_mean
from clvlab.engine.agent import Agent
from clvlab.errors import AgentError, UnknownAgentError

_MODULE = "clvlab_agent_file"


def agent_of(code: bytes, path: str, name: str) -> Agent:
    """Run a file's code and return its agent: a strategy, a ``TickAgent``, a subclass of it, or another agent."""
    module = ModuleType(_MODULE)
    module.__file__ = path
    sys.modules[_MODULE] = module  # dataclasses and pickles look up the file's definitions here
    try:
        exec(compile(code, path, "exec"), vars(module))  # noqa: S102  the purpose of an agent's process
        found: object = vars(module).get(name)
        if isinstance(found, type) and issubclass(found, TickAgent):
            found = found()
    except (Exception, SystemExit) as error:  # the file is foreign code
        raise UnknownAgentError(f"{path} does not run: {type(error).__name__}: {error}") from error
    if isfunction(found):
        try:
            return as_agent(found)
        except AgentError as error:
            raise UnknownAgentError(f"{path} has no agent {name!r}: {error}") from error
    if isinstance(found, type) or not isinstance(found, Agent):
        known = [key for key, value in vars(module).items() if _is_agent(value)]
        listed = f"; it has: {', '.join(known) or 'none'}"
        raise UnknownAgentError(f"{path} has no agent {name!r}{listed}{did_you_mean(name, known)}")
    return found


def _is_agent(value: object) -> bool:
    own_class = isinstance(value, type) and issubclass(value, TickAgent) and value.__module__ == _MODULE
    return own_class or isinstance(value, Strategy | TickAgent)
