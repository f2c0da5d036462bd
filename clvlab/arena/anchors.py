"""Anchors of a store's runs: each is recorded at the seal, made by a job, and made again if the chain drops it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from clvlab.anchor.anchorer import Anchorer
from clvlab.anchor.records import AnchorRecord
from clvlab.arena.events import anchor_event
from clvlab.arena.jobs import PostponedError, fenced
from clvlab.errors import AnchorConflictError, AnchorUnavailableError, UnknownRunError
from clvlab.proof.anchor import Anchor, AnchorStatus
from clvlab.proof.checks import Check, Verdict, anchor_check
from clvlab.runs.progress import OnProgress
from clvlab.store import anchors, competitions, jobs, runs
from clvlab.store.database import Connection, Database
from clvlab.store.jobs import Job, JobStatus

_FINAL_MS = 3_600_000


@dataclass(frozen=True)
class StoredRecords:
    database: Database

    def get(self, run_id: str) -> AnchorRecord | None:
        with self.database.read() as connection:
            return _record(connection, run_id)

    def put(self, record: AnchorRecord, *, replaces: AnchorRecord | None) -> None:
        """Store a record in place of ``replaces``; ``AnchorConflictError`` if another one is stored."""
        with self.database.write() as connection:
            anchors.hold(connection, record.run_id)
            if _record(connection, record.run_id) != replaces:
                raise AnchorConflictError(f"the anchor of {record.run_id} was changed by another worker")
            anchors.set_record(connection, record.run_id, record.payload())


def _record(connection: Connection, run_id: str) -> AnchorRecord | None:
    stored = anchors.record(connection, run_id)
    return None if stored is None else AnchorRecord.from_payload(stored)


@dataclass(frozen=True)
class RunAnchors:
    """Anchors of runs; starting one never waits for the chain."""

    database: Database
    anchorer: Anchorer
    clock: Callable[[], int]

    def begin(self, connection: Connection, run_id: str, now_ms: int) -> Anchor:
        status = AnchorStatus.PENDING if self.anchorer.enabled else AnchorStatus.NOT_ANCHORED
        anchor = Anchor(status.value, cluster=self.anchorer.cluster)
        anchors.set_anchor(connection, run_id, anchor, now_ms)
        if self.anchorer.enabled:
            jobs.add(connection, "anchor", run_id, {"origin_id": run_id}, now_ms)
        return anchor

    def perform(self, job: Job, tell: OnProgress) -> None:  # noqa: ARG002  # one step
        """Commit the manifest hash of a sealed run, and record the outcome.

        Raises
        ------
        PostponedError
            The chain can't be reached, or did not accept the transaction in time; the anchor stays pending.
        """
        with self.database.read() as connection:
            row = runs.row(connection, job.run_id)
        if row is None or row["manifest_hash"] is None:
            raise UnknownRunError(f"run {job.run_id} is not sealed and can't be anchored")
        try:
            anchor = self.anchorer.commit(job.run_id, row["manifest_hash"])
        except (AnchorUnavailableError, AnchorConflictError) as error:
            raise PostponedError(str(error)) from error
        with fenced(self.database, job) as connection:
            self._note(connection, job.run_id, anchor)
            jobs.finish(connection, job, JobStatus.DONE)

    def record_failure(self, connection: Connection, job: Job, cause: str) -> None:  # noqa: ARG002
        self._note(connection, job.run_id, Anchor(AnchorStatus.FAILED.value, cluster=self.anchorer.cluster))

    def is_settled(self, connection: Connection, run_id: str, anchor: Anchor) -> bool:
        """Whether the recorded anchor of a sealed run can no longer change."""
        if anchor.status == AnchorStatus.PENDING:
            return False
        return anchor.status != AnchorStatus.ANCHORED or not self._is_fresh(connection, run_id)

    def _is_fresh(self, connection: Connection, run_id: str) -> bool:
        return self.clock() - anchors.changed_ts_ms(connection, run_id) < _FINAL_MS

    def on_record(self, run_id: str, anchor: Anchor, manifest_hash: str | None) -> Check:
        """Judge an anchor by the transaction read back when it was made; proof cards are read too often to ask the chain."""
        seen = self.anchorer.recorded(run_id) if anchor.status == AnchorStatus.ANCHORED else None
        check = anchor_check(anchor, manifest_hash or "", seen, self.anchorer.trust)
        if check.verdict != Verdict.PASS:
            return check
        return Check(Verdict.PASS, f"read back from {anchor.cluster} when it was anchored; a verification asks again")

    def judge(self, run_id: str, anchor: Anchor, manifest_hash: str) -> Check:
        """Judge an anchor by the chain as it is now; a recent anchor that the chain has dropped is made again.

        Blocks are final within minutes, so a node that lacks an older transaction has only pruned it.
        """
        seen = self.anchorer.seen(anchor)
        check = anchor_check(anchor, manifest_hash, seen, self.anchorer.trust)
        dropped = seen is not None and seen.signature is None and check.verdict == Verdict.PENDING
        if dropped and anchor.status == AnchorStatus.ANCHORED and self.anchorer.enabled:
            with self.database.write() as connection:
                fresh = self._is_fresh(connection, run_id)
                if anchors.hold(connection, run_id) == AnchorStatus.ANCHORED and fresh:  # only for the first that notices
                    self._note(connection, run_id, Anchor(AnchorStatus.PENDING.value, cluster=anchor.cluster))
                    jobs.add(connection, "anchor", run_id, {"origin_id": run_id}, self.clock())
        return check

    def _note(self, connection: Connection, run_id: str, anchor: Anchor) -> None:
        now = self.clock()
        anchors.set_anchor(connection, run_id, anchor, now)
        row = runs.row(connection, run_id)
        if row is not None and row["kind"] == "competition":
            competitions.append(connection, str(row["origin_id"]), now, [anchor_event(run_id, anchor, row["manifest_hash"])])
