"""What the use cases ask of an anchor, the anchor that does nothing, and the job that anchors a sealed run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from clvlab.application.competition_log import anchor_event
from clvlab.errors import UnknownRunError
from clvlab.proof.checks import Check, Verdict
from clvlab.proof.verify import Anchor
from clvlab.store import competitions, jobs, runs, standings
from clvlab.store.database import Connection, Database
from clvlab.store.jobs import Job, JobStatus

__all__ = ["Anchorer", "Anchoring", "NullAnchorer"]


class Anchorer(Protocol):
    """Commits manifest hashes somewhere public."""

    @property
    def cluster(self) -> str:
        """Name of the network, never null."""
        ...

    @property
    def enabled(self) -> bool:
        """Whether sealed runs are to be anchored at all."""
        ...

    def commit(self, manifest_hash: str) -> Anchor:
        """Anchor a hash; gives the outcome with status ``anchored`` or ``failed``. May take seconds, and be asked twice."""
        ...

    def check(self, anchor: Anchor, manifest_hash: str) -> Check:
        """Judge a recorded anchor against what the network says."""
        ...


@dataclass(frozen=True, slots=True)
class NullAnchorer:
    """Anchors nothing."""

    cluster: str = "devnet"
    enabled: bool = False

    def commit(self, manifest_hash: str) -> Anchor:  # noqa: ARG002
        return Anchor(cluster=self.cluster)

    def check(self, anchor: Anchor, manifest_hash: str) -> Check:  # noqa: ARG002
        """Pass nothing: a record alone, of a chain that can't be asked, proves no anchor."""
        if anchor.status == "anchored":
            return Check(
                Verdict.PENDING, f"recorded as anchored on {anchor.cluster}, which can't be asked: no chain is configured"
            )
        return recorded_check(anchor)


def recorded_check(anchor: Anchor) -> Check:
    """Judge an anchor by what is on record, without asking the network."""
    match anchor.status:
        case "anchored":
            return Check(Verdict.PASS, f"the manifest hash was committed on {anchor.cluster}")
        case "pending":
            return Check(Verdict.PENDING, f"the manifest hash waits to be committed on {anchor.cluster}")
        case "failed":
            return Check(Verdict.FAIL, f"committing the manifest hash on {anchor.cluster} failed")
        case _:
            return Check(Verdict.NOT_APPLICABLE, "the run is not anchored")


@dataclass(frozen=True)
class Anchoring:
    """Keeps the anchor records of runs; a start never waits for the network."""

    database: Database
    anchorer: Anchorer
    clock: Callable[[], int]

    def begin(self, connection: Connection, run_id: str, now_ms: int) -> Anchor:
        """Record a new run's anchor: pending with a job to come, or not anchored."""
        anchor = Anchor(status="pending" if self.anchorer.enabled else "not_anchored", cluster=self.anchorer.cluster)
        standings.set_anchor(connection, run_id, anchor, now_ms)
        if self.anchorer.enabled:
            jobs.add(connection, "anchor", run_id, {"origin_id": run_id}, now_ms)
        return anchor

    def perform(self, job: Job) -> None:
        """Commit the manifest hash of a sealed run, and record the outcome."""
        with self.database.read() as connection:
            row = runs.row(connection, job.run_id)
        if row is None or row["manifest_hash"] is None:
            raise UnknownRunError(f"run {job.run_id} is not sealed and can't be anchored")
        anchor = self.anchorer.commit(row["manifest_hash"])
        with self.database.write() as connection:
            jobs.fence(connection, job)
            self._record(connection, job.run_id, anchor)
            jobs.finish(connection, job, JobStatus.DONE)

    def failed(self, connection: Connection, job: Job, cause: str) -> None:  # noqa: ARG002
        """Record that the anchor could not be made; the job keeps the cause."""
        self._record(connection, job.run_id, Anchor(status="failed", cluster=self.anchorer.cluster))

    def _record(self, connection: Connection, run_id: str, anchor: Anchor) -> None:
        now = self.clock()
        standings.set_anchor(connection, run_id, anchor, now)
        row = runs.row(connection, run_id)
        if row is not None and row["kind"] == "competition":
            competitions.append(connection, row["origin_id"], now, [anchor_event(run_id, anchor, row["manifest_hash"])])
