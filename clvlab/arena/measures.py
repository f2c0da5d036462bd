"""What an operator watches of the store: work that waits, room that is taken, how long the log is."""

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
    """The state of a store at a moment.

    Attributes
    ----------
    jobs
        Number of jobs by status.
    queue_age_s
        How long the oldest job of each kind has waited for a worker; kinds of which none waits are missing.
    stored_bytes
        What is taken up by runs without an owner (``public``), by those of owners, and by uploads.
    log_entries
        Length of the run log.
    feed
        How the live feed is; null without one.
    """

    jobs: Mapping[str, int]
    queue_age_s: Mapping[str, float]
    stored_bytes: Mapping[str, int]
    log_entries: int
    feed: FeedHealth | None = None


def measures(database: Database, clock: Callable[[], int], feed: FeedHealth | None = None) -> Measures:
    """Measure a store.

    Raises
    ------
    StoreError
    """
    now = clock()
    with database.read() as connection:
        of_anybody, of_all = usage.bytes_of(connection, ANYBODY), usage.total_bytes(connection)
        return Measures(
            jobs.counts(connection),
            {kind: max(0, now - since) / 1000 for kind, since in jobs.waiting_since(connection, now).items()},
            {"public": of_anybody, "owners": of_all - of_anybody, "uploads": uploads.total_bytes(connection)},
            StoredLogRows(connection).size(),
            feed,
        )
