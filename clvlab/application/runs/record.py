"""The life of a run: planned, committed to, performed, kept; or abandoned, on the record."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Protocol

from clvlab.application.causes import cause_of
from clvlab.application.progress import Tell, tell_nobody
from clvlab.application.runs.perform import Commitment, PerformedRun, perform
from clvlab.application.runs.plan import Plan
from clvlab.engine.lookahead import Draw, DrawingOf
from clvlab.errors import ClvlabError
from clvlab.law.schema import SAFE_INTEGER
from clvlab.proof.started import RunStarted
from clvlab.runlog.log import LogStore, draw_audit

ABANDONED = "failed"
"""All that the log says of a failure, as nothing can be taken back from it."""


class Planned(Protocol):
    """A run as it is planned: of a pack that is there, or of one that a live run will capture."""

    @property
    def run_id(self) -> str: ...

    @property
    def started(self) -> RunStarted: ...


class Record(Protocol):
    """Where runs are committed to and kept: in a folder, with or without a log, or in the database."""

    @property
    def log(self) -> LogStore | None:
        """The log in which runs are committed to; null without one."""
        ...

    def commit(self, plan: Planned) -> Commitment:
        """Commit to a run before its tape is opened; again if it was abandoned."""
        ...

    def keep(self, done: PerformedRun) -> None:
        """Store a run and conclude its commitment; the same again changes nothing."""
        ...

    def abandon(self, run_id: str, cause: str) -> None:
        """Note that a run failed; asking for it again commits to it anew."""
        ...


def drawing_of(log: LogStore, run_id: str, clock: Callable[[], int]) -> DrawingOf:
    """Return what draws the audits of a committed run by its log, which notes what an agent answered before."""

    def drawing(agent_id: str, answers_hash: str) -> Draw:
        with log.write() as rows:
            drawn = draw_audit(rows, run_id, agent_id, answers_hash, clock())
        return Draw(secrets.randbelow(SAFE_INTEGER)) if drawn is None else Draw(*drawn)

    return drawing


def make(plan: Plan, record: Record, tell: Tell = tell_nobody) -> PerformedRun:
    """Make a run and keep it, on the record.

    One that is interrupted stays open, and goes on when it is asked for again; ``tell`` is told how far it is.

    Raises
    ------
    ClvlabError
        As ``perform``, and as the record says; the run is then abandoned.
    """
    commitment = record.commit(plan)
    try:
        done = perform(plan, commitment, tell)
        record.keep(done)
    except ClvlabError as error:
        record.abandon(plan.run_id, cause_of(error))
        raise
    return done
