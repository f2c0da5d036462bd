"""Figures of the store for an operator: waiting work, used space, length of the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from clvlab.api.answer import FeedHealth
from clvlab.store import jobs, uploads, usage
from clvlab.store.database import Database
from clvlab.store.labels import ANYBODY
from clvlab.store.runlog import StoredLogRows


@dataclass(frozen=True, slots=True)
class Measures:
    """The state of a store at a moment."""

    jobs: Mapping[str, int]  # number of jobs by status
    queue_age_s: Mapping[str, float]  # wait of the oldest job of each kind, in seconds; kinds without a waiting job are missing
    stored_bytes: Mapping[str, int]  # bytes of runs without an owner (``public``), of owners' runs, and of uploads
    log_entries: int  # length of the run log
    feed: FeedHealth | None = None  # state of the live feed; ``None`` without one


def measures(database: Database, clock: Callable[[], int], feed: FeedHealth | None = None) -> Measures:
    now = clock()
    with database.read() as connection:
        of_anybody, of_all = usage.bytes_of(connection, ANYBODY), usage.total_bytes(connection)
        return Measures(
            jobs.counts(connection),
            {kind: (now - since) / 1000 for kind, since in jobs.free_from(connection, now).items() if since <= now},
            {"public": of_anybody, "owners": of_all - of_anybody, "uploads": uploads.total_bytes(connection)},
            StoredLogRows(connection).size(),
            feed,
        )
