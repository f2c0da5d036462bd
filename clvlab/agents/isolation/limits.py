"""Limits of the process of an agent."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clvlab.errors import AgentError
from clvlab.proof.canonical import sha256

_MAX_READ = 1 << 30
_DEFAULTS = {"CLVLAB_AGENT_MEMORY_MB": 8192, "CLVLAB_AGENT_TIMEOUT_S": 600}


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Limits of a process; mapped files may take as much again as ``memory_mb``.

    ``named`` are the names of ``reads`` that are links: the agent's code opens these.
    """

    memory_mb: int
    timeout_s: float
    reads: tuple[Path, ...] = ()
    network: bool = False
    named: tuple[Path, ...] = ()

    @classmethod
    def of(
        cls,
        memory_mb: int | None = None,
        timeout_s: float | None = None,
        reads: Sequence[str | Path] = (),
        *,
        network: bool = False,
    ) -> ProcessLimits:
        """Return limits with defaults from ``CLVLAB_AGENT_MEMORY_MB`` and ``CLVLAB_AGENT_TIMEOUT_S``, or built-in ones."""
        if isinstance(reads, str | Path):
            raise AgentError(f"reads must be a list of files, not {reads!r}")
        files = tuple(Path(path).resolve() for path in reads)
        named = {Path(path).absolute() for path in reads}
        return cls(
            _set("CLVLAB_AGENT_MEMORY_MB") if memory_mb is None else memory_mb,
            _set("CLVLAB_AGENT_TIMEOUT_S") if timeout_s is None else timeout_s,
            tuple(sorted(set(files))),
            network,
            tuple(sorted(named - set(files))),
        )

    def __post_init__(self) -> None:
        for name, value, kinds in (("memory_mb", self.memory_mb, (int,)), ("timeout_s", self.timeout_s, (int, float))):
            if type(value) not in kinds or not 0 < value <= 2**30:
                raise AgentError(f"{name} must be a positive number, at most 2**30, not {value!r}")
        if type(self.network) is not bool:
            raise AgentError(f"network must be True or False, not {self.network!r}")
        for path in self.reads:
            if not path.is_file():
                raise AgentError(f"an agent can be allowed to read files, and {str(path)!r} is not one")
            if path.stat().st_size > _MAX_READ:
                raise AgentError(f"{str(path)!r} has more than {_MAX_READ} bytes, which is the limit of a file to read")

    def digests(self) -> tuple[tuple[str, str], ...]:
        """Return name and hash of each readable file as it is now, without folders, as a run's bytes depend on no machine."""
        return tuple(sorted((path.name, sha256(path.read_bytes())) for path in self.reads))


def _set(name: str) -> int:
    text = os.environ.get(name, "")
    if text and not (text.isascii() and text.isdigit()):
        raise AgentError(f"{name} must be a whole number, not {text!r}")
    return int(text) if text else _DEFAULTS[name]
