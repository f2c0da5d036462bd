"""The journal of a live run: decisions at each message, on the disk before agents see the next message."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

import orjson

from clvlab.errors import ReplayError
from clvlab.law.actions import Decision
from clvlab.sources.capture.recorder import whole_lines


@dataclass(frozen=True, slots=True)
class Failure:
    error: str
    cause: str


@dataclass(frozen=True, slots=True)
class Answers:
    decided: Mapping[str, Sequence[Decision]] = field(default_factory=dict)
    failed: Mapping[str, Failure] = field(default_factory=dict)


class Journal:
    """A file with a line for each message at which an agent decided or failed, and another line if others fail at it later.

    ``known`` has its content by number of the message in the run; ``last`` is the highest number, or -1. An unfinished line of
    a killed process is cut off.
    """

    def __init__(self, path: Path) -> None:
        self.known: dict[int, Answers] = {}
        if path.exists():
            os.truncate(path, whole_lines(path))
            for line in path.read_bytes().splitlines():
                self._read(line)
        self.last = max(self.known, default=-1)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def _read(self, line: bytes) -> None:
        try:
            own = orjson.loads(line)
            decided = {agent_id: [_decision(one) for one in several] for agent_id, several in own["decided"].items()}
            failed = {agent_id: Failure(**stated) for agent_id, stated in own["failed"].items()}
            self._note(int(own["message"]), Answers(decided, failed))
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise ReplayError(f"the journal of a live run can't be read: {line[:80]!r}") from error

    def _note(self, number: int, answers: Answers) -> None:
        """Merge later results of a message into earlier ones; an agent that failed once stays failed."""
        before = self.known.get(number, Answers())
        failed = {**answers.failed, **before.failed}
        decided = {**answers.decided, **before.decided}
        self.known[number] = Answers({name: own for name, own in decided.items() if name not in failed}, failed)

    def write(self, number: int, received_ts_ms: int, answers: Answers) -> None:
        """Add the results of a message; they are on the disk when this returns."""
        line = {
            "message": number,
            "received_ts_ms": received_ts_ms,
            "decided": {agent_id: [_written(one) for one in several] for agent_id, several in answers.decided.items()},
            "failed": {agent_id: {"error": own.error, "cause": own.cause} for agent_id, own in answers.failed.items()},
        }
        os.write(self._file, orjson.dumps(line) + b"\n")
        os.fsync(self._file)
        self._note(number, answers)
        self.last = max(self.last, number)

    def close(self) -> None:
        os.close(self._file)


def _written(decision: Decision) -> list[Any]:
    """Return a decision as JSON, with NaN and infinity as text."""
    *named, confidence, edge_bps = decision
    claim: Any = confidence
    return [*named, claim if claim is None or isfinite(claim) else str(claim), edge_bps]


def _decision(written: Sequence[Any]) -> Decision:
    *named, confidence, edge_bps = written
    decided: Any = (*named, float(confidence) if isinstance(confidence, str) else confidence, edge_bps)
    decision: Decision = decided
    return decision
