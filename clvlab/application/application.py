"""The composition root: one object that holds every use case over one store and one catalog."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from clvlab.anchor.configured import anchorer
from clvlab.anchor.settings import AnchorSettings
from clvlab.application.anchoring import Anchoring, StoredRecords
from clvlab.application.caps import Caps
from clvlab.application.competitions.competitions import Competitions
from clvlab.application.competitions.demo import Demo
from clvlab.application.competitions.event_log import EventLog
from clvlab.application.competitions.job import CompetitionRuns
from clvlab.application.competitions.live import LiveCompetition
from clvlab.application.deploys.deploys import Deploys
from clvlab.application.deploys.job import DeployRuns
from clvlab.application.deploys.live import LiveDeploy
from clvlab.application.forest import Forest
from clvlab.application.handling import Handler
from clvlab.application.hub import Hub
from clvlab.application.jobs import Jobs
from clvlab.application.leaderboard import Leaderboard
from clvlab.application.live.feed import LiveFeed
from clvlab.application.live.feed import LiveSettings as LiveSettings
from clvlab.application.live.job import LiveRuns
from clvlab.application.log.public import PublicLog
from clvlab.application.log.watching import Watch
from clvlab.application.measures import Measures, measures
from clvlab.application.packs import bundled_catalog
from clvlab.application.principals import Principals
from clvlab.application.replay_packs import ReplayPacks
from clvlab.application.reports.job import BacktestRuns
from clvlab.application.reports.reports import BacktestReports
from clvlab.application.results import RunResults
from clvlab.application.retention import Retention
from clvlab.application.runs.budget import Budget
from clvlab.application.runs.decisions import RunDecisions
from clvlab.application.runs.stored import StoredRuns
from clvlab.application.uploads.limits import UploadLimits
from clvlab.application.uploads.seen import Packs
from clvlab.application.uploads.uploads import Uploads
from clvlab.errors import LogBehindError, LogError, UploadsOffError
from clvlab.packs.catalog import Catalog
from clvlab.runlog.note import Signer
from clvlab.runlog.published import Published
from clvlab.store.database import Database
from clvlab.store.waits import Waits as Waits  # whoever configures an application has it from here

logger = logging.getLogger("clvlab.log")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _new_id() -> str:
    return uuid4().hex


class Application:
    """Everything that a service can be asked for; thread-safe, and every method blocks.

    Parameters
    ----------
    database_url
        SQLAlchemy URL (``sqlite:///runs.db``, ``postgresql://...``); None is in memory.
    waits
        How long PostgreSQL is waited for.
    catalog
        Packs that may be named; the bundled ones by default.
    uploads
        Where packs of owners are kept, and their bounds; by default there are none.
    budget
        How much runs may take up in the store.
    caps
        How much an owner may have going on at once.
    anchor
        Chain, and key if sealed runs of competitions and deploys are to be anchored there; by default nothing is anchored.
    live
        The feed that runs may follow, and where they are kept; by default there is none.
    log_key
        Signs checkpoints of the run log; without one they are not to be had.
    checkpoint_file
        Where the newest of them is kept, outside the database: a log that lacks it is not appended to. None keeps none.
    witness
        Path or URL of what a witness saw last of the log, which is held against it likewise.
    workers
        Threads that perform jobs, once ``start`` was called; 0 leaves every job to other processes.
    unasked
        Nobody asks here: what others ask for is taken up at once, backtests too.
    lease_ms
        How long a worker that fell silent keeps its job.
    clock
        UTC milliseconds.
    new_id
        Unguessable ids of letters and digits.

    Raises
    ------
    StoreUnreachableError
        A configured database that can't be reached.
    StoreError
        One that can't be migrated.
    AnchorError
        Settings of an anchor, or its key, that can't be used.
    LogError
        The folder of the file of checkpoints is missing.
    """

    def __init__(
        self,
        database_url: str | None = None,
        *,
        waits: Waits | None = None,
        catalog: Catalog | None = None,
        budget: Budget | None = None,
        caps: Caps | None = None,
        anchor: AnchorSettings | None = None,
        uploads: UploadLimits | None = None,
        live: LiveSettings | None = None,
        log_key: Signer | None = None,
        checkpoint_file: Path | None = None,
        witness: str | None = None,
        workers: int = 2,
        unasked: bool = False,
        lease_ms: int = 30_000,
        clock: Callable[[], int] = _now_ms,
        new_id: Callable[[], str] = _new_id,
    ) -> None:
        if checkpoint_file is not None and not checkpoint_file.parent.is_dir():
            raise LogError(f"no folder {str(checkpoint_file.parent)!r} to keep checkpoints in")
        published = Published(checkpoint_file, log_key.verifier if log_key else None)
        self._watch = Watch(published, witness) if witness else None
        self._database = database = Database(database_url, waits, guard=published.guard)
        self._clock = clock
        catalog = catalog or bundled_catalog()
        self._uploads = None if uploads is None else Uploads(database, catalog, uploads, clock)
        packs = Packs(catalog, self._uploads)
        self._hub = hub = Hub()
        database.tell(hub.publish)
        budget, caps = budget or Budget(), caps or Caps()
        anchoring = Anchoring(database, anchorer(anchor or AnchorSettings(), StoredRecords(database)), clock)
        self.live = LiveFeed(live, clock)
        runner = CompetitionRuns(database, packs, anchoring, clock, budget, caps, self.live)
        handlers: dict[str, Handler] = {
            "backtest": BacktestRuns(database, catalog, clock),
            "competition": runner,
            "deploy": DeployRuns(database, packs, anchoring, clock),
            "live-competition": LiveRuns(database, self.live, LiveCompetition(), anchoring, clock),
            "live-deploy": LiveRuns(database, self.live, LiveDeploy(), anchoring, clock),
        }
        if anchoring.anchorer.enabled:
            handlers["anchor"] = anchoring
        self.log = PublicLog(database, log_key, published)
        following = live.runs if live else 0
        self.jobs = Jobs(database, hub, clock, workers, lease_ms, handlers, self.log.require_whole, following, unasked)
        self.runs = StoredRuns(database, anchoring, self.log, clock)
        self.decisions = RunDecisions(database)
        self.results = RunResults(self.decisions)
        self.competitions = Competitions(database, packs, self.jobs, self.runs, runner, clock, new_id, caps)
        self.event_log = EventLog(database)
        self.deploys = Deploys(database, packs, clock, new_id, budget, caps, self.live)
        self.backtests = BacktestReports(database, catalog, self.jobs, self.runs, clock, budget)
        self.leaderboard = Leaderboard(database)
        self.leaderboard.bring_up_to_date()
        self.forest = Forest(self.leaderboard, self.decisions)
        self.packs = ReplayPacks(catalog)
        self.principals = Principals(database)
        self.retention = Retention(database, clock)
        self.demo = Demo(self.competitions, catalog)

    @property
    def place(self) -> str:
        """Where the store is, for people to read; no user and no password."""
        return self._database.place

    @property
    def uploads(self) -> Uploads:
        """Use cases of uploaded packs.

        Raises
        ------
        UploadsOffError
        """
        if self._uploads is None:
            raise UploadsOffError
        return self._uploads

    def start(self) -> None:
        """Start the workers: queued jobs are performed, and those whose worker died are picked up again.

        Raises
        ------
        OSError
            The folder of uploads can't be made.
        """
        if self._uploads is not None:
            self._uploads.start()
        self._database.listen()
        if self._watch is not None:
            self._watch.start()
        try:
            self.log.require_whole()
        except LogBehindError as error:
            logger.error("the run log is behind: %s", error)  # what is wrong is no place in the code
        self.jobs.start()

    def close(self, within_s: float | None = None) -> None:
        """Stop the workers and release the database; idempotent.

        Parameters
        ----------
        within_s
            How long jobs in hand may go on, before other processes get them; null is until they are done.
        """
        if self._watch is not None:
            self._watch.stop()
        self.live.end()
        try:
            self.jobs.stop(within_s)
        finally:
            self._database.close()

    def subscribe(self, subject: str, notify: Callable[[], None]) -> Callable[[], None]:
        """Have ``notify`` called, on any thread, after something about a run or competition was stored.

        Of what other processes store it is called after ``start`` and over PostgreSQL only, and may be missed: look now and
        then besides. The callback carries nothing: read after it. Returns the unsubscription.
        """
        return self._hub.subscribe(subject, notify)

    def measures(self) -> Measures:
        """Measure what an operator watches of the store.

        Raises
        ------
        StoreError
        """
        return measures(self._database, self._clock, self.live.health())

    def ready(self) -> dict[str, Any]:
        """Tell whether the store answers, for a readiness probe: ``{store, schema_version, feed}``.

        Raises
        ------
        StoreUnreachableError, StoreBusyError, StoreError
        """
        self._database.ask()
        return {"store": self._database.kind, "schema_version": self._database.schema_version, "feed": self.live.health()}
