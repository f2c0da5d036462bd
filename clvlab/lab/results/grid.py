"""How a search is worked on, and what its agent is called."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass

from clvlab.engine.agent import Agent
from clvlab.errors import ArgumentError, ExecutorError
from clvlab.lab.progress import Progress


@dataclass(frozen=True, slots=True)
class GridWork:
    """How a search is worked on.

    Attributes
    ----------
    executor
        Who computes; see ``parallel_map``.
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


def agent_name(agent: str | Agent) -> str:
    """Return what an agent is called in a title."""
    return agent if isinstance(agent, str) else agent.identity.agent_id
