"""Figures for an operator: waiting and failed work, used and free space, the log, and backups."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from clvlab.api.answer import FeedHealth
from clvlab.arena.caps import Budget
from clvlab.log.publication import Publication
from clvlab.store import jobs, uploads, usage
from clvlab.store.database import CHECKPOINT, Database
from clvlab.store.labels import ANYBODY
from clvlab.store.runlog import StoredLogRows


@dataclass(frozen=True, slots=True)
class Measures:
    """The state of a store at a moment, and of the folders that belong to it."""

    jobs: Mapping[str, int]  # number of jobs by status
    failed_jobs: Mapping[str, int]  # number of failed jobs by kind; kinds without one are missing
    queue_age_s: Mapping[str, float]  # wait of the oldest job of each kind, in seconds; kinds without a waiting job are missing
    job_age_s: Mapping[str, float]  # age of the oldest unfinished job of each kind, in seconds, however often it was tried
    stored_bytes: Mapping[str, int]  # bytes of runs without an owner (``public``), of owners' runs, and of uploads
    budget_bytes: Mapping[str, int]  # limits of bytes: of all runs without an owner (``public``), of each owner's (``owner``)
    free_bytes: Mapping[str, int]  # free bytes of the disk under each folder that the service writes to
    log_entries: int  # length of the run log
    log_is_behind: bool  # whether the log lacks published entries, so that nothing is appended
    checkpoint_is_storable: bool | None  # whether the next checkpoint can be stored; ``None`` without a file
    backup_age_s: float | None  # age of the newest backup, infinite without one; ``None`` without a folder of backups
    feed: FeedHealth | None = None  # state of the live feed; ``None`` without one


@dataclass(frozen=True, slots=True)
class Meter:
    """What is measured of a store, besides its rows. ``folders`` are those that the service writes to, by name."""

    published: Publication
    budget: Budget
    folders: Mapping[str, Path]
    backups: Path | None = None

    def measures(self, database: Database, clock: Callable[[], int], feed: FeedHealth | None = None) -> Measures:
        now = clock()
        with database.read() as connection:
            of_anybody, of_all = usage.bytes_of(connection, ANYBODY), usage.total_bytes(connection)
            log = StoredLogRows(connection)
            return Measures(
                jobs.counts(connection),
                jobs.failed(connection),
                {kind: (now - since) / 1000 for kind, since in jobs.free_from(connection, now).items() if since <= now},
                {kind: max(0, now - since) / 1000 for kind, since in jobs.open_since(connection).items()},
                {"public": of_anybody, "owners": of_all - of_anybody, "uploads": uploads.total_bytes(connection)},
                {"public": self.budget.public_bytes, "owner": self.budget.owner_bytes},
                {name: shutil.disk_usage(folder).free for name, folder in self.folders.items() if folder.is_dir()},
                log.size(),
                self.published.is_behind(log),
                self.published.is_storable(),
                None if self.backups is None else _age_s(self.backups),
                feed,
            )


def _age_s(backups: Path) -> float:
    """Return the age of the newest file in a folder of backups; empty files and hidden names do not count."""
    if not backups.is_dir():
        return math.inf
    found = (path for path in backups.iterdir() if path.suffix != CHECKPOINT and not path.name.startswith("."))
    newest = max((path.stat().st_mtime for path in found if path.is_file() and path.stat().st_size), default=-math.inf)
    return max(0.0, time.time() - newest)
