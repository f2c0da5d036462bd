"""Runs in folders: store, read, show, anchor, verify."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clvlab.anchor import anchorer_of
from clvlab.anchor.records import AnchorRecord, FolderRecords
from clvlab.errors import AnchorError, LogConflictError
from clvlab.proof.anchor import Anchor
from clvlab.proof.seal import SealedRun
from clvlab.proof.verify import Verification, verify
from clvlab.store.folder import held_of, read_receipts, read_run, read_view, write_run

if TYPE_CHECKING:  # imported where it is used, so that a first verification waits for nothing else
    from clvlab.anchor.settings import AnchorSettings
    from clvlab.log.log import LogStore
    from clvlab.runs.execute import Commitment
    from clvlab.runs.run import Run
    from clvlab.runs.spec import RunSpec

LOCAL = "local"
"""Default owner of a commitment."""


@dataclass(frozen=True)
class FolderRecorder:
    """Keeps each run in a folder named by its run id. With a log, it also commits to each run there.

    The commitments name ``owner``. ``clock`` returns UTC milliseconds, which enter the log but no run.
    """

    folder: Path
    clock: Callable[[], int]
    log: LogStore | None = None
    owner: str = LOCAL

    def commit(self, spec: RunSpec) -> Commitment:
        """Commit to a run; ``HeldOutError`` if a plan of the log's laboratory holds out some of its fixtures."""
        from clvlab.runs.execute import Commitment, drawing_of

        if self.log is None:
            return Commitment(spec.run_id)

        from clvlab.log.log import commit
        from clvlab.packs.matches import check_open, held_matches, quotes_of_fixtures, without_held
        from clvlab.proof.manifest import inputs_hash
        from clvlab.runs.run import audited
        from clvlab.runs.spec import ReplaySpec

        with self.log.write() as rows:
            if isinstance(spec, ReplaySpec):  # a live capture has no pack yet
                quotes = quotes_of_fixtures(spec.pack, spec.fixture_ids)
                check_open(without_held(spec.pack, held_matches(rows.held_out()), quotes), spec.fixture_ids)
            inputs, content_hash = inputs_hash(spec.started), spec.started["binding"]["content_hash"]
            sources = [agent["source_sha256"] for agent in spec.started["agents"]]
            audits, now_ms = len(audited(spec.started)), self.clock()
            index = commit(rows, spec.run_id, self.owner, inputs, content_hash, now_ms, sources=sources, audited=audits)
            return Commitment(spec.run_id, index, drawing_of(self.log, spec.run_id, self.clock))

    def keep(self, done: Run) -> None:
        """Store a run, then conclude its commitment. The folder keeps the run even if the log has another result."""
        from clvlab.packs.views.view_file import view_file

        folder = keep(done.sealed, self.folder, done.receipts, view_file(done.pack))
        if self.log is not None:
            from clvlab.log.log import conclude

            with self.log.write() as rows:
                run, failed = done.sealed, done.failed_audits
                try:
                    conclude(rows, run.run_id, run.manifest_hash, run.content_hash, self.clock(), failed_audits=failed)
                except LogConflictError as error:
                    held = held_of(run.events)
                    raise LogConflictError(
                        f"{error}, and this one is kept in {str(folder)!r}. Here the system restricted {held} of its agents' "
                        "processes: with other restrictions, the same run has other evidence"
                    ) from error

    def abandon(self, run_id: str, cause: str) -> None:  # noqa: ARG002  a folder keeps no cause
        """Abandon the commitment if it has no result yet. A failed repetition leaves a result as it is."""
        if self.log is not None:
            from clvlab.log.log import abandon, is_concluded
            from clvlab.runs.execute import ABANDONED

            with self.log.write() as rows:
                if not is_concluded(rows, run_id):
                    abandon(rows, run_id, ABANDONED, self.clock())


def keep(run: SealedRun, runs: str | Path = "runs", receipts: bytes = b"", view: bytes = b"") -> Path:
    """Store a sealed run, its receipts and its pack's view under ``runs/<run_id>``, and return the folder."""
    return write_run(run, Path(runs), receipts, view)


def load(path: str | Path) -> SealedRun:
    return read_run(Path(path))


def verify_folder(path: str | Path) -> Verification:
    """Verify a stored run without asking a chain. An anchor is then pending."""
    return verify_with_chain(Path(path))


def receipts(path: str | Path) -> bytes:
    return read_receipts(Path(path))


def view(path: str | Path) -> bytes:
    """Read the sources of a stored run's pack; empty if the pack is not derived from others."""
    return read_view(Path(path))


def anchor(path: str | Path) -> Anchor | None:
    record = record_of(Path(path), load(path).run_id)
    return record.anchor() if record else None


def anchor_run(path: Path, settings: AnchorSettings) -> Anchor:
    """Anchor a stored run once, and keep the record in its folder; ``AnchorUnavailableError`` if a later retry is safe."""
    from clvlab.base.invocation import command

    run = read_run(path)
    if not verify(run, read_receipts(path)).passed:
        raise AnchorError(f"run {run.run_id} does not verify: only runs that verify are anchored")
    chosen = anchorer_of(settings, FolderRecords(path))
    if not chosen.enabled:
        raise AnchorError(f"anchoring needs CLVLAB_ANCHOR_KEYPAIR and CLVLAB_ANCHOR_RPC_URL ({command('devchain')} shows how)")
    return chosen.commit(run.run_id, run.manifest_hash)


def record_of(path: Path, run_id: str) -> AnchorRecord | None:
    return FolderRecords(path).get(run_id)


def verify_with_chain(path: Path, settings: AnchorSettings | None = None) -> Verification:
    """Verify a stored run. If the settings name a chain, ask that chain about the anchor."""
    run = read_run(path)
    chosen = anchorer_of(settings, FolderRecords(path)) if settings else None
    record = record_of(path, run.run_id)
    if chosen is None:
        return verify(run, read_receipts(path), anchor=record.anchor() if record else None)
    anchor = record.anchor() if record else Anchor(cluster=chosen.cluster)
    return verify(run, read_receipts(path), anchor=anchor, seen=chosen.seen(anchor), trust=chosen.trust)
