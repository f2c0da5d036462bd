"""The composition root: one object with every use case over one store and one catalog."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from clvlab.anchor import anchorer_of
from clvlab.anchor.settings import AnchorSettings
from clvlab.api.leaderboard import Belongings
from clvlab.api.packs import PackFixture, PackFixturesResponse, PackQuality, ReplayPackInfo, ReplayPackListResponse
from clvlab.arena.anchors import RunAnchors, StoredRecords
from clvlab.arena.caps import Budget, Caps
from clvlab.arena.competitions.competitions import Competitions
from clvlab.arena.competitions.demo import Demo
from clvlab.arena.competitions.events import EventLog
from clvlab.arena.competitions.job import CompetitionOrigin, CompetitionStarts, LiveCompetitionOrigin
from clvlab.arena.competitions.story import CompetitionStories
from clvlab.arena.deploys.deploys import Deploys
from clvlab.arena.deploys.job import DeployOrigin, LiveDeployOrigin
from clvlab.arena.events import Hub
from clvlab.arena.fixtures import FixtureFilter, FixtureTable
from clvlab.arena.jobs import UPLOAD, JobHandler, Jobs
from clvlab.arena.laboratory import PracticeLaboratory, PracticeLimits, StoredLaboratory
from clvlab.arena.leaderboard import Forest, GlobalLeaderboard
from clvlab.arena.live import LiveJobs
from clvlab.arena.log.public import PublicLog
from clvlab.arena.log.witnesses import Cosigners, CosignerWatch, WitnessWatch
from clvlab.arena.measures import Measures, Meter
from clvlab.arena.names import NamedRuns
from clvlab.arena.packs import bundled_catalog
from clvlab.arena.reports import BacktestOrigin, BacktestReports
from clvlab.arena.run_jobs import ReplayJobs
from clvlab.arena.runs.binding import open_catalogued
from clvlab.arena.runs.decisions import RunDecisions
from clvlab.arena.runs.results import RunResults
from clvlab.arena.runs.runs import StoredRuns
from clvlab.arena.seats.competitions import SeatCompetitions
from clvlab.arena.seats.held import HeldPacks
from clvlab.arena.seats.job import SeatOrigin
from clvlab.arena.seats.live import LiveSeatOrigin
from clvlab.arena.seats.requests import SeatLimits
from clvlab.arena.seats.seats import Seats, SteadyClock
from clvlab.arena.tables import PAGE, ArrowTable, arrow_stream
from clvlab.arena.uploads.intake import UploadLimits
from clvlab.arena.uploads.packs import Packs
from clvlab.arena.uploads.uploads import UploadJobs, Uploads
from clvlab.base.cache import BoundedCache
from clvlab.base.files import keep_private_in
from clvlab.errors import LogBehindError, LogError, PackError, UnknownPackError, UploadsOffError
from clvlab.log.note import Signer
from clvlab.log.publication import Publication
from clvlab.packs.catalog import Catalog
from clvlab.packs.manifest import KickoffKind, grade_of
from clvlab.packs.reader import Pack
from clvlab.runs.live.feed import LiveFeed
from clvlab.runs.live.feed import LiveSettings as LiveSettings
from clvlab.store import usage
from clvlab.store.database import Connection, Database
from clvlab.store.labels import ANYBODY
from clvlab.store.runlog import RunLog, StoredLogRows
from clvlab.store.waits import Waits as Waits  # exported for configuration

# Principals: the owner of a verified token, and its belongings.


@dataclass(frozen=True)
class Principals:
    database: Database

    def belongings(self, principal: str) -> Belongings:
        with self.database.read() as connection:
            return usage.belongings(connection, principal)


# The published catalog of replay packs.


_FIXTURES_BYTES = 64 << 20


def _fixture_tables() -> BoundedCache[FixtureTable]:
    return BoundedCache(_FIXTURES_BYTES, lambda table: table.size_bytes)


@dataclass(frozen=True)
class ReplayPacks:
    catalog: Catalog
    _genuine: dict[str, bool] = field(default_factory=dict)  # by content hash, which covers the raw capture
    _tables: BoundedCache[FixtureTable] = field(default_factory=_fixture_tables)

    def all(self) -> ReplayPackListResponse:
        return {"packs": [self._info(pack) for pack in self.catalog.packs()]}

    def page(self, cursor: str | None = None, limit: int = PAGE) -> tuple[ReplayPackListResponse, str | None]:
        """Return the packs after the id ``cursor``, and the cursor of the next page or None; other packs are not opened."""
        found: list[Pack] = []
        for pack_id in sorted(name for name in self.catalog.entries() if cursor is None or name > cursor):
            try:
                found.append(self.catalog.open(pack_id))
            except UnknownPackError:  # not verified, so it is not listed
                continue
            if len(found) > limit:
                break
        listed: ReplayPackListResponse = {"packs": [self._info(pack) for pack in found[:limit]]}
        return listed, found[limit - 1].pack_id if len(found) > limit else None

    def info(self, pack_id: str) -> ReplayPackInfo:
        return self._info(open_catalogued(self.catalog, pack_id))

    def fixtures(
        self, pack_id: str, wanted: FixtureFilter, cursor: str | None = None, limit: int = PAGE
    ) -> PackFixturesResponse:
        pack = open_catalogued(self.catalog, pack_id)
        table = self._table(pack)
        page, total, next_cursor = table.page(wanted, cursor, limit)
        capture = pack.manifest.capture
        return {
            "pack_id": pack.pack_id,
            "content_hash": pack.content_hash,
            "kickoff": (pack.manifest.kickoff or KickoffKind.SCHEDULED).value,
            "gaps": [] if capture is None else [{"from_ts_ms": g.from_ts_ms, "to_ts_ms": g.to_ts_ms} for g in capture.gaps],
            "quality": cast("PackQuality | None", table.quality),
            "fixtures": cast("list[PackFixture]", page.to_dicts()),
            "total": total,
            "next_cursor": next_cursor,
        }

    def fixtures_as_arrow(
        self, pack_id: str, wanted: FixtureFilter, cursor: str | None = None, limit: int | None = None
    ) -> ArrowTable:
        """Return the fixtures of ``fixtures`` as ``FIXTURE_ROWS`` in Arrow, all by default."""
        page, _, next_cursor = self._table(open_catalogued(self.catalog, pack_id)).page(wanted, cursor, limit)
        return ArrowTable(arrow_stream(page), next_cursor)

    def leagues(self, pack_id: str) -> dict[int, str]:
        """Return the league of each fixture that has one."""
        listed = open_catalogued(self.catalog, pack_id).manifest.fixtures
        return {one.fixture_id: one.league for one in listed if one.league is not None}

    def _table(self, pack: Pack) -> FixtureTable:
        # The content hash does not cover the quality report.
        key = (pack.content_hash, pack.manifest.quality_sha256)
        try:
            return self._tables.get(key, lambda: FixtureTable.of(pack))
        except PackError as error:  # a damaged pack counts as missing
            raise UnknownPackError(f"unknown or unverified pack {pack.pack_id!r}") from error

    def _info(self, pack: Pack) -> ReplayPackInfo:
        if pack.content_hash not in self._genuine:  # normalising a capture again takes as long as importing it
            self._genuine[pack.content_hash] = pack.is_genuine
        info: ReplayPackInfo = {
            "pack_id": pack.pack_id,
            "content_hash": pack.content_hash,
            "provenance": pack.provenance,
            "is_genuine": self._genuine[pack.content_hash],
            "grade": grade_of(is_genuine=self._genuine[pack.content_hash]).value,
            "fixtures": list(pack.fixture_ids),
        }
        if pack.manifest.capture is not None:
            info["created_ts_ms"] = info["updated_ts_ms"] = pack.manifest.capture.ended_ts_ms
        return info


# Retention of runs that were requested without a token.


_AT_ONCE = 50
_DAY_MS = 86_400_000


@dataclass(frozen=True)
class Retention:
    """Removes the bytes of old runs that were requested without a token.

    Log entries, leaderboard sums, and the run's row with its hashes stay. A new request replays the run under its commitment,
    and the run is sealed only if its bytes equal the removed ones.
    """

    database: Database
    clock: Callable[[], int]

    def apply(self, days: float) -> tuple[int, int]:
        """Remove runs sealed more than ``days`` ago, each in its own transaction; return the number of runs and of bytes."""
        before, removed, freed = self.clock() - round(days * _DAY_MS), 0, 0
        while run_ids := self._old(before):
            for run_id in run_ids:
                with self.database.write() as connection:
                    freed += usage.remove(connection, run_id, self.clock())
                removed += 1
        return removed, freed

    def _old(self, before_ts_ms: int) -> list[str]:
        with self.database.read() as connection:
            found = (usage.sealed_before(connection, ANYBODY, kind, before_ts_ms, _AT_ONCE) for kind in ("backtest", "seat"))
            return [*chain.from_iterable(found)]


logger, files = logging.getLogger("clvlab.log"), logging.getLogger("clvlab.files")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _new_id() -> str:
    return uuid4().hex


class Application:
    """All use cases of a service; thread-safe, and every method blocks.

    By default packs are the bundled ones, and there are no uploads, anchors, live runs or signed checkpoints. ``database_url``
    is a SQLAlchemy URL; without one the database is in memory. ``checkpoint_file`` keeps the newest checkpoint outside the
    database. ``witness`` is the path or URL of a witness's view. A log that lacks entries of the checkpoint or of the view gets
    no new ones. ``workers`` is the number of threads that perform jobs after ``start``; with 0 other processes perform them.
    ``unasked`` is for a process without requests: its workers also take backtests at once. A worker that is silent for
    ``lease_ms`` loses its job. ``backups`` is the folder whose newest file is the newest backup. ``clock`` returns UTC
    milliseconds; ``monotonic`` returns seconds that never jump, for the deadlines of seats. ``new_id`` makes
    unguessable ids of letters and digits.

    Raises
    ------
    StoreUnreachableError, StoreError
        The database can't be reached, or can't be migrated.
    AnchorError
        The settings or the key of the anchor are not valid.
    LogError
        The folder of the checkpoint file is missing.
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
        seats: SeatLimits | None = None,
        practice: PracticeLimits | None = None,
        log_key: Signer | None = None,
        checkpoint_file: Path | None = None,
        witness: str | None = None,
        cosigners: Cosigners | None = None,
        cosign_s: float = 60,
        workers: int = 2,
        unasked: bool = False,
        lease_ms: int = 30_000,
        backups: Path | None = None,
        clock: Callable[[], int] = _now_ms,
        monotonic: Callable[[], float] = time.monotonic,
        new_id: Callable[[], str] = _new_id,
    ) -> None:
        if checkpoint_file is not None and not checkpoint_file.parent.is_dir():
            raise LogError(f"no folder {str(checkpoint_file.parent)!r} to keep checkpoints in")
        published = Publication(checkpoint_file, log_key.verifier if log_key else None)
        self._watch = WitnessWatch(published, witness) if witness else None
        self._database = database = Database(database_url, waits, guard=published.guard)
        self._clock = clock
        catalog = catalog or bundled_catalog()
        self._uploads = None if uploads is None else Uploads(database, catalog, uploads, clock)
        packs = Packs(catalog, self._uploads)
        self._hub = hub = Hub()
        database.tell(hub.publish)
        budget, caps = budget or Budget(), caps or Caps()
        anchoring = RunAnchors(database, anchorer_of(anchor or AnchorSettings(), StoredRecords(database)), clock)
        self.live = LiveFeed(live, clock)
        starts = CompetitionStarts(packs, clock, budget, caps, self.live)
        competitions, deploys = CompetitionOrigin(database, packs, clock), DeployOrigin(database, packs, clock)
        handlers: dict[str, JobHandler] = {
            # Backtests are not anchored: they need no token, and the operator pays the chain's fees.
            "backtest": ReplayJobs(database, clock, None, BacktestOrigin(catalog)),
            "competition": ReplayJobs(database, clock, anchoring, competitions),
            "deploy": ReplayJobs(database, clock, anchoring, deploys),
            "seat": ReplayJobs(database, clock, anchoring, SeatOrigin(database, HeldPacks(database, packs, clock), clock)),
            "live-competition": LiveJobs(database, clock, anchoring, LiveCompetitionOrigin(database), self.live),
            "live-deploy": LiveJobs(database, clock, anchoring, LiveDeployOrigin(database), self.live),
        }
        self.seats = Seats(
            database,
            packs,
            clock,
            new_id,
            budget,
            caps,
            seats or SeatLimits(),
            log_key,
            SteadyClock(clock, monotonic),
            self.live,
            lambda run_id, cause: self.jobs.cancel(run_id, cause),
        )
        handlers["live-seat"] = LiveJobs(database, clock, anchoring, LiveSeatOrigin(database, clock, self.seats.ask), self.live)
        if anchoring.anchorer.enabled:
            handlers["anchor"] = anchoring
        self.log = PublicLog(database, log_key, published, cosigners)
        self._cosigning: CosignerWatch | None = None
        if cosigners is not None and log_key is not None:
            self._cosigning = CosignerWatch(RunLog(database), log_key, published, cosigners, cosign_s)
        following = live.runs if live else 0
        self.jobs = Jobs(database, hub, clock, workers, lease_ms, handlers, self.log.require_whole, following, unasked)
        self._upload_jobs = None if self._uploads is None else UploadJobs(self._uploads, self.jobs, new_id)
        if self._upload_jobs is not None:
            handlers[UPLOAD] = self._upload_jobs
        self.runs = StoredRuns(database, anchoring, self.log, clock)
        self.decisions = RunDecisions(database)
        self.results = RunResults(self.decisions)
        self.competitions = Competitions(database, packs, self.jobs, self.runs, starts, clock, new_id, caps)
        self.event_log = EventLog(database)
        self.stories = CompetitionStories(database, packs, self.decisions)
        self.names = NamedRuns(database, catalog, self.stories)
        self.deploys = Deploys(database, packs, clock, new_id, budget, caps, self.live, self.jobs)
        self.seat_competitions = SeatCompetitions(database, packs, self.seats.held, clock, new_id, caps, seats or SeatLimits())
        self.backtests = BacktestReports(database, catalog, self.jobs, self.runs, clock, budget, caps)
        self.laboratory = StoredLaboratory(database, packs, self.backtests, self.runs, self.seats, clock, budget)
        self.practice = PracticeLaboratory(database, catalog, self.runs, self.seats, monotonic, practice or PracticeLimits())
        self.leaderboard = GlobalLeaderboard(database)
        self.leaderboard.bring_up_to_date()
        self.forest = Forest(self.leaderboard, self.decisions)
        self.packs = ReplayPacks(catalog)
        self.principals = Principals(database)
        self.retention = Retention(database, clock)
        self.demo = Demo(self.competitions, catalog)
        written = {
            "store": database.file and database.file.parent,
            "checkpoints": checkpoint_file and checkpoint_file.parent,
            "uploads": uploads.folder if uploads else None,
            "live": live.folder if live else None,
        }
        folders = {name: folder for name, folder in written.items() if folder is not None}
        self._meter = Meter(published, budget, folders, backups)

    @property
    def place(self) -> str:
        return self._database.place

    @property
    def uploads(self) -> Uploads:
        """Use cases of uploaded packs; ``UploadsOffError`` if uploads are off."""
        if self._uploads is None:
            raise UploadsOffError
        return self._uploads

    @property
    def upload_jobs(self) -> UploadJobs:
        """Use cases of uploads that nobody waits for; ``UploadsOffError`` if uploads are off."""
        if self._upload_jobs is None:
            raise UploadsOffError
        return self._upload_jobs

    def start(self) -> None:
        """Start the workers, which also take the jobs of dead workers.

        Raises
        ------
        OSError
            The folder of uploads can't be made.
        """
        if self._uploads is not None:
            self._uploads.start()
            self.upload_jobs.start()
        self._keep_private()
        self._database.listen()
        if self._watch is not None:
            self._watch.start()
        if self._cosigning is not None:
            self._cosigning.start()
        try:
            self.log.require_whole()
        except LogBehindError as error:
            logger.error("the run log is behind: %s", error)  # without a traceback, as the cause is not in the code
        self.jobs.start()
        self.seats.start()

    def _keep_private(self) -> None:
        """Take the rights of other users from files of older versions, or of a process with another umask."""
        found = [self._database.keep_private()]
        if self._uploads is not None:
            found.append(keep_private_in(self._uploads.limits.folder, "[0-9a-f]" * 64))
        if self.live.settings is not None:
            found.append(keep_private_in(self.live.settings.folder, "run_*"))
        for sentence in chain.from_iterable(found):
            files.warning("%s", sentence)

    def close(self, within_s: float | None = None) -> None:
        """Stop the workers and release the database; idempotent.

        After ``within_s`` running jobs are left to other processes; without a limit the call waits until they are done.
        """
        if self._watch is not None:
            self._watch.stop()
        if self._cosigning is not None:
            self._cosigning.stop()
        self.live.end()
        self.seats.stop()
        try:
            self.jobs.stop(within_s)
        finally:
            self._database.close()

    def subscribe(self, subject: str, notify: Callable[[], None]) -> Callable[[], None]:
        """Call ``notify``, on any thread, after a change of a run or competition is stored; return the unsubscription.

        Changes of other processes are reported only after ``start`` and over PostgreSQL. Some may be missed, so subscribers
        must also poll.
        """
        return self._hub.subscribe(subject, notify)

    def measures(self) -> Measures:
        """Return the figures of the store for an operator, or raise if it can't be read and written."""
        self._database.ask()
        return self._meter.measures(self._database, self._clock, self.live.health())

    def ready(self) -> dict[str, Any]:
        """Return ``{store, schema_version, feed, log}`` for a readiness probe.

        ``log`` is ``ok``, ``behind`` (nothing is appended) or ``unpublished`` (no checkpoint can be stored).

        Raises
        ------
        StoreError
            The store does not answer, or can't be written, or is damaged.
        """
        published, log = self.log.published, "ok"

        def look(connection: Connection) -> None:
            nonlocal log
            if published.is_behind(StoredLogRows(connection)):
                log = "behind"

        self._database.ask(look)
        if log == "ok" and published.is_storable() is False:
            log = "unpublished"
        stored = self._database
        return {"store": stored.kind, "schema_version": stored.schema_version, "feed": self.live.health(), "log": log}
