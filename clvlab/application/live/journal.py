"""The journal of a live run: what agents decided at each message, on the disk before the next one is shown to them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from clvlab.errors import ReplayError
from clvlab.feeds.segments import whole_lines
from clvlab.law.actions import Decision


@dataclass(frozen=True, slots=True)
class Failure:
    """How an agent failed: the class of its error, and what that said."""

    error: str
    cause: str


@dataclass(frozen=True, slots=True)
class Answers:
    """What came of one message: decisions by agent id, and agents that failed at it."""

    decided: Mapping[str, Sequence[Decision]] = field(default_factory=dict)
    failed: Mapping[str, Failure] = field(default_factory=dict)


class Journal:
    """A file of one line for each message at which somebody decided or failed.

    Parameters
    ----------
    path
        Made if it is not there; a line that a process which was killed had begun is cut off.

    Attributes
    ----------
    known
        What stands in it, by the number of the message in the run.
    last
        The highest of these numbers; -1 without any.

    Raises
    ------
    ReplayError
        It holds something else.
    """

    def __init__(self, path: Path) -> None:
        self.known: dict[int, Answers] = {}
        if path.exists():
            os.truncate(path, whole_lines(path))
            for line in path.read_bytes().splitlines():
                self._read(line)
        self.last = max(self.known, default=-1)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def _read(self, line: bytes) -> None:
        try:
            own = orjson.loads(line)
            decided = {agent_id: [tuple(one) for one in several] for agent_id, several in own["decided"].items()}
            failed = {agent_id: Failure(**stated) for agent_id, stated in own["failed"].items()}
            self.known[int(own["message"])] = Answers(decided, failed)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ReplayError(f"the journal of a live run can't be read: {line[:80]!r}") from error

    def write(self, number: int, received_ts_ms: int, answers: Answers) -> None:
        """Add what came of a message; on the disk when this returns."""
        line = {
            "message": number,
            "received_ts_ms": received_ts_ms,
            "decided": answers.decided,
            "failed": {agent_id: {"error": own.error, "cause": own.cause} for agent_id, own in answers.failed.items()},
        }
        os.write(self._file, orjson.dumps(line) + b"\n")
        os.fsync(self._file)
        self.known[number], self.last = answers, number

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)
