"""The code of an agent on its way to a process of its own: pickled from here, or the bytes of a file that never runs here."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any

import cloudpickle

from clvlab.agents.columnar import Strategy
from clvlab.agents.isolation.sandbox import CLVLAB, python_folders
from clvlab.agents.source import agent_sha256, digests_in, source_sha256
from clvlab.agents.template import Template
from clvlab.errors import AgentError, UnknownAgentError
from clvlab.proof.canonical import sha256

_PICKLING = Lock()  # which modules are pickled by value is a setting of the whole process


@dataclass(frozen=True, slots=True)
class Code:
    """What a process of an agent loads.

    Attributes
    ----------
    content
        A pickle, or the source of a file.
    file
        Path and name of the agent in it; null for a pickle.
    source_sha256
        Digest under which the code is sealed: of the whole file, or of the function's or class's text. Null in runs of agents
        that named none, or whose text is not that of what runs.
    """

    content: bytes = field(repr=False)
    file: tuple[str, str] | None
    source_sha256: str | None

    @property
    def name(self) -> str:
        """What tells the code from other code: its source's digest, or where it has none, that of its pickle."""
        return self.source_sha256 or sha256(self.content)

    def has(self, digest: str | None) -> bool:
        """Whether a digest is that of this code, of the function or class in its file that is named, or none at all."""
        if digest in (None, self.source_sha256):
            return True
        return self.file is not None and digest in digests_in(self.content, self.file[1])


def code_in_file(path: str, name: str) -> Code:
    """Take an agent's code from a file, without running it.

    Raises
    ------
    UnknownAgentError
        No such file.
    """
    file = Path(path)
    if not file.is_file():
        raise UnknownAgentError(f"no Python file at {path!r}")
    content = file.read_bytes()
    return Code(content, (path, name), sha256(content))


def code_of(agent: object) -> Code:
    """Take an agent's code from an object of this process, modules of one's own included.

    Raises
    ------
    AgentError
        It holds something that can't be taken to another process: an open file, a lock, a connection.
    """
    try:
        with _PICKLING, _by_value():
            content = cloudpickle.dumps(agent)
    except Exception as error:  # pickling calls the agent's own code
        raise AgentError(
            f"{type(agent).__name__} can't be taken to a process of its own: {type(error).__name__}: {error}; "
            "an agent must not hold open files, locks or connections"
        ) from error
    source = source_sha256(agent.rule) if isinstance(agent, Strategy | Template) else agent_sha256(agent)
    if source is None:
        name = agent.agent_id if isinstance(agent, Strategy | Template) else type(agent).__name__
        cause = "what runs is not compiled from the text of its file"
        warnings.warn(f"the source of {name} is sealed as null: {cause}", stacklevel=3)
    return Code(content, None, source)


@contextmanager
def _by_value() -> Iterator[None]:
    """Pickle modules of one's own with the agent: its process may not find them, or may not be allowed to read them."""
    own = [module for module in list(sys.modules.values()) if _is_own(module)]
    registered = []
    try:
        for module in own:
            if module.__name__ not in cloudpickle.list_registry_pickle_by_value():
                cloudpickle.register_pickle_by_value(module)
                registered.append(module)
        yield
    finally:
        for module in registered:
            cloudpickle.unregister_pickle_by_value(module)


def _is_own(module: Any) -> bool:
    """Whether a module lies outside the interpreter's folders, and is neither clvlab's nor ``__main__``."""
    file = getattr(module, "__file__", None) if isinstance(module, ModuleType) else None
    if not isinstance(file, str) or module.__name__ == "__main__" or sys.modules.get(module.__name__) is not module:
        return False
    return not file.startswith(_KNOWN_FOLDERS)


_KNOWN_FOLDERS = tuple(f"{folder}{os.sep}" for folder in (*python_folders(), CLVLAB))
