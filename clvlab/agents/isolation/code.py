"""Code of an agent on its way to its process: a pickle, or the bytes of a file that never runs here."""

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
    """Code that the process of an agent loads: a pickle, or a source with its path and the agent's name in ``file``.

    ``source_sha256`` is of the whole file, or of the function's or class's text; ``None`` where that is not the running code's.
    """

    content: bytes = field(repr=False)
    file: tuple[str, str] | None
    source_sha256: str | None

    @property
    def name(self) -> str:
        """Identifier of the code: its source's digest, or that of its pickle."""
        return self.source_sha256 or sha256(self.content)

    def has(self, digest: str | None) -> bool:
        """Check that a digest is that of this code, of the named function or class in its file, or ``None``."""
        if digest in (None, self.source_sha256):
            return True
        return self.file is not None and digest in digests_in(self.content, self.file[1])


def code_in_file(path: str, name: str) -> Code:
    file = Path(path)
    if not path:
        raise UnknownAgentError(f"an agent of your own is named as file.py:name, not {name!r:.200}")
    if not file.is_file():
        raise UnknownAgentError(f"no Python file at {path!r}")
    content = file.read_bytes()
    return Code(content, (path, name), sha256(content))


def code_of(agent: object) -> Code:
    """Return an agent's code from an object, users' modules included; ``AgentError`` if it can't be pickled."""
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
    """Pickle users' modules with the agent: its process may be unable or not allowed to read them."""
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
    """Return whether a module is outside the interpreter's folders, and neither clvlab's nor ``__main__``."""
    file = getattr(module, "__file__", None) if isinstance(module, ModuleType) else None
    if not isinstance(file, str) or module.__name__ == "__main__" or sys.modules.get(module.__name__) is not module:
        return False
    return not file.startswith(_KNOWN_FOLDERS)


_KNOWN_FOLDERS = tuple(f"{folder}{os.sep}" for folder in (*python_folders(), CLVLAB))
