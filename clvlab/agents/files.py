"""Agents in files of one's own: ``path/to/file.py:name``."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from clvlab.agents.columnar import Strategy
from clvlab.agents.ticking import TickAgent
from clvlab.engine.agent import Agent
from clvlab.errors import UnknownAgentError

__all__ = ["from_file"]


def from_file(path: str, name: str) -> Agent:
    """Run a Python file and take an agent out of it: a strategy, a ``TickAgent`` or a class of one, or any other agent.

    Raises
    ------
    UnknownAgentError
        No such file, no such name in it, or no agent under that name.
    """
    file = Path(path)
    spec = spec_from_file_location(f"clvlab_agent_{file.stem}", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise UnknownAgentError(f"no Python file at {path!r}")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # where inspect looks for the source of a class
    try:
        spec.loader.exec_module(module)
        found: object = vars(module).get(name)
        if isinstance(found, type) and issubclass(found, TickAgent):
            found = found()
    except (Exception, SystemExit) as error:  # the file is foreign code
        raise UnknownAgentError(f"{path} does not run: {type(error).__name__}: {error}") from error
    if isinstance(found, type) or not isinstance(found, Agent):
        known = ", ".join(key for key, value in vars(module).items() if _is_agent(value, spec.name)) or "none"
        raise UnknownAgentError(f"{path} has no agent {name!r}; it has: {known}")
    return found


def _is_agent(value: object, module: str) -> bool:
    own_class = isinstance(value, type) and issubclass(value, TickAgent) and value.__module__ == module
    return own_class or isinstance(value, Strategy | TickAgent)
