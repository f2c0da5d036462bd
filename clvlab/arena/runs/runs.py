"""Runs of the store: proof card, verification, one decision, receipts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import orjson

from clvlab.api.answer import pick
from clvlab.api.competitions import Execution
from clvlab.api.runs import (
    CheckDetails,
    Checks,
    InspectorRecord,
    LogStanding,
    ProofArtifactResponse,
    RunChecksResponse,
    RunInfo,
    RunListResponse,
    RunSummary,
    VerifyResponse,
)
from clvlab.arena.anchors import RunAnchors, StoredRecords
from clvlab.arena.log.public import PublicLog
from clvlab.arena.pages import page_of
from clvlab.arena.runs.bundles import anchor_part
from clvlab.arena.runs.in_database import check_records, is_failing
from clvlab.errors import EvidenceError, RunRemovedError, StoreError, UnknownDecisionError, UnknownRunError
from clvlab.law.schema import SAFE_INTEGER
from clvlab.log.note import checkpoint, open_note
from clvlab.log.standing import commitment, standing
from clvlab.proof.anchor import Anchor
from clvlab.proof.bundle import bundle, proof_files
from clvlab.proof.canonical import JsonObject
from clvlab.proof.checks import CHECKS, Check, Verdict, evidence_integrity
from clvlab.proof.manifest import VERIFIER_VERSION
from clvlab.proof.seal import SealedRun
from clvlab.proof.verify import Verification, verify
from clvlab.runs.card import anchor_info, proof_card, verification_answer
from clvlab.runs.inspector import decision_record
from clvlab.store import anchors, runs, seats, standings
from clvlab.store.database import Connection, Database
from clvlab.store.runlog import StoredLogRows
from clvlab.store.runs import Part as Part
from clvlab.store.runs import RunRow, RunStatus, StoredPart
from clvlab.store.tables import runs as run_table

# Reasons why a run is missing: it is unknown, not sealed, or removed; of a removed run the hashes remain.


def require(row: RunRow | None, run_id: str) -> RunRow:
    if row is None:
        raise UnknownRunError(f"unknown run {run_id!r}")
    if row["status"] == RunStatus.REMOVED:
        raise RunRemovedError(run_id, str(row["evidence_hash"]), str(row["manifest_hash"]))  # sealed, so it has both
    return row


def not_sealed(connection: Connection, run_id: str) -> UnknownRunError | RunRemovedError:
    try:
        require(runs.row(connection, run_id), run_id)
    except (UnknownRunError, RunRemovedError) as error:
        return error
    return UnknownRunError(f"run {run_id!r} is not sealed")


logger = logging.getLogger("clvlab.runs")
_RECHECK_MS = 60_000


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Filters of runs; ``agent_id`` selects sealed runs in which this agent was scored."""

    kind: str | None = None
    status: str | None = None
    agent_id: str | None = None
    pack_id: str | None = None
    owner: str | None = None


@dataclass(frozen=True)
class StoredRuns:
    database: Database
    anchoring: RunAnchors
    log: PublicLog
    clock: Callable[[], int]

    def card(self, run_id: str) -> ProofArtifactResponse:
        """Return the proof card, which exists once the run is queued.

        Its checks come from the newest verification that reached another verdict; the seal is the first verification. Its
        anchor is the newest recorded one.
        """
        return self.card_and_finality(run_id)[0]

    def card_and_finality(self, run_id: str) -> tuple[ProofArtifactResponse, bool]:
        """Return the proof card, and whether it is final: the run is sealed and sound, and its anchor is settled."""
        with self.database.read() as connection:
            row, anchor = self._row_and_anchor(connection, run_id)
            committed = None if row["commit_index"] is None else commitment(StoredLogRows(connection), row["commit_index"])
            final = row["status"] == RunStatus.SEALED and self.anchoring.is_settled(connection, run_id, anchor)
        checks = self._checks(row, anchor)
        card: ProofArtifactResponse = {
            "verifier_version": VERIFIER_VERSION,
            "run": pick(RunInfo, row),
            "lineage": row["lineage"],
            "evidence": {"evidence_hash": row["evidence_hash"], "manifest_hash": row["manifest_hash"]},
            "checks": checks["checks"],
            "check_details": checks["check_details"],
            "anchor": anchor_info(anchor),
            "log": committed,
            "metrics": row["metrics"],
        }
        return card, final and not _fails(row["checks"] or {})

    def checks(self, run_id: str) -> RunChecksResponse:
        """Return the newest recorded verification of a run."""
        with self.database.read() as connection:
            return self._checks(*self._row_and_anchor(connection, run_id))

    def _checks(self, row: RunRow, anchor: Anchor) -> RunChecksResponse:
        run_id, checks = row["run_id"], row["checks"] or _pending_checks(row["status"])
        if row["checks"]:
            check = self.anchoring.on_record(run_id, anchor, row["manifest_hash"])
            checks = checks | {"anchor": {"verdict": check.verdict.value, "detail": check.detail}}
        return {
            "run_id": run_id,
            "checked_ts_ms": row["checked_ts_ms"],
            "checks": cast("Checks", {name: checks[name]["verdict"] for name in CHECKS}),
            "check_details": cast("CheckDetails", {name: checks[name]["detail"] for name in CHECKS}),
        }

    def log_standing(self, run_id: str) -> LogStanding:
        """Return a commitment's standing in the present log, as this store states it; bundles prove a part of it.

        Raises
        ------
        UnknownRunError
            The run is unknown, or no log committed to it.
        """
        with self.database.read() as connection:
            index = require(runs.row(connection, run_id), run_id)["commit_index"]
            if index is None:
                raise UnknownRunError(f"no log committed to run {run_id!r}")
            return standing(StoredLogRows(connection), index).of_run(run_id)

    def _row_and_anchor(self, connection: Connection, run_id: str) -> tuple[RunRow, Anchor]:
        anchor = anchors.anchor_of(connection, run_id) or Anchor(cluster=self.anchoring.anchorer.cluster)
        return require(runs.row(connection, run_id), run_id), anchor

    def verify(self, run_id: str, *, record: bool = True) -> VerifyResponse:
        """Recompute everything from the stored bytes, and ``record`` the verdicts outside the seal. Blocks.

        A run that is not sealed has ``verified`` false and ``recompute_error:not_sealed``.
        """
        with self.database.read() as connection:
            row, anchor = self._row_and_anchor(connection, run_id)
            run, receipts = runs.sealed_run(connection, run_id), runs.receipt_lines(connection, run_id)
        if run is None:
            return self._unsealed_answer(run_id)
        fresh = verify(run, receipts)
        check = self.anchoring.judge(run_id, anchor, fresh.manifest_hash)
        stored = against_the_record(row, run, fresh)
        if record:
            self._note(row, stored, self.clock())
        fresh = replace(stored, anchor=anchor, checks=stored.checks | {"anchor": check})
        with self.database.read() as connection:
            row = require(runs.row(connection, run_id), run_id)
            committed = None if row["commit_index"] is None else commitment(StoredLogRows(connection), row["commit_index"])
        return verification_answer(fresh, {**proof_card(fresh, committed), "run": pick(RunInfo, row)})

    def _note(self, row: RunRow, found: Verification, now_ms: int) -> None:
        """Record a verification: another verdict at once, others at most once a minute; a read-only store skips this.

        The sentences of equal verdicts stay as recorded, so that another version of clvlab does not change the card.
        """
        checks = check_records(found.checks)
        is_new = checks != row["checks"] and (_fails(checks) or _verdicts(checks) != _verdicts(row["checks"] or {}))
        if not is_new and now_ms - (row["checked_ts_ms"] or 0) < _RECHECK_MS:
            return
        try:
            with self.database.write() as connection:
                runs.record_checks(connection, row["run_id"], checks if is_new else None, now_ms)
                standings.count_failing(connection, row["run_id"], failing=is_failing(found))
        except StoreError as error:
            logger.warning("the verification of %s was not recorded: %s", row["run_id"], error)

    def _unsealed_answer(self, run_id: str) -> VerifyResponse:
        card = self.card(run_id)
        return {
            "run_id": run_id,
            "verified": False,
            "evidence_hash": "",
            "recomputed_evidence_hash": "recompute_error:not_sealed",
            "manifest_hash": "",
            "checks": card["checks"],
            "metrics": None,
            "anchor": card["anchor"],
            "proof_card": card,
        }

    def inspect(self, run_id: str, seq: int) -> InspectorRecord:
        with self.database.read() as connection:
            require(runs.row(connection, run_id), run_id)
            event = runs.line(connection, run_id, Part.EVENTS, seq) if 1 <= seq <= SAFE_INTEGER else None
            score = runs.line(connection, run_id, Part.SCORES, seq - 1) if event else None
        if event is None or score is None:
            raise UnknownDecisionError(f"run {run_id} has no decision at seq {seq}")
        try:
            return decision_record(run_id, seq, event, score)
        except EvidenceError as error:
            raise UnknownDecisionError(str(error)) from error

    def receipts(self, run_id: str, limit: int | None = None) -> Execution | None:
        """Return the first ``limit`` receipts of a run, ``None`` if it has no receipts; ``total`` counts all."""
        with self.database.read() as connection:
            require(runs.row(connection, run_id), run_id)
            total = runs.receipt_count(connection, run_id)
            lines = runs.receipt_lines(connection, run_id, limit)
        listed = [_receipt(line) for line in lines.splitlines()[:limit]]
        return {"non_scoring": True, "receipts": listed, "total": total} if total else None

    def sealed_run(self, run_id: str) -> SealedRun:
        """Return the stored bytes (``events``, ``scores``, ``manifest``)."""
        with self.database.read() as connection:
            run = runs.sealed_run(connection, run_id)
            if run is None:
                raise not_sealed(connection, run_id)
        return run

    def manifest(self, run_id: str) -> bytes:
        """Return the stored manifest of a sealed run."""
        with self.database.read() as connection:
            found = runs.manifest(connection, run_id)
            if found is None:
                raise not_sealed(connection, run_id)
        return found

    def part(self, run_id: str, part: Part, *, gzipped: bool = False) -> StoredPart:
        """Find a part of a sealed run, with ``gzipped`` as the stored gzip file if there is one; it is read in pieces."""
        with self.database.read() as connection:
            found = runs.stored_part(connection, run_id, part, gzipped=gzipped)
            if found is None:
                raise not_sealed(connection, run_id)
        return found

    def piece(self, of: StoredPart, start: int, stop: int) -> bytes:
        """Read a piece of a part, from ``start`` to before ``stop``."""
        with self.database.read() as connection:
            return runs.piece(connection, of, start, stop)

    def bundle(self, run_id: str) -> bytes:
        """Return a sealed run as one proof bundle.

        It has the anchor once the chain has it, log proofs if a key is set, and the chain of a seat.
        """
        run = self.sealed_run(run_id)
        with self.database.read() as connection:
            receipts = runs.receipt_lines(connection, run_id)
        anchor = anchor_part(StoredRecords(self.database).get(run_id))
        log = self.log.proofs(run_id) if run.commit_index is not None else None
        files = None if log is None else proof_files(log)
        return bundle(run, receipts, anchor=anchor, log=log, seat=self._seat_part(run_id, log), files=files)

    def _seat_part(self, run_id: str, log: JsonObject | None) -> JsonObject | None:
        """Return the chain of a seat's run, with its entries proved under the checkpoint of the log proofs, if there is one."""
        size = 0 if log is None else checkpoint(open_note(log["checkpoint"])[0]).size
        with self.database.read() as connection:
            row = seats.of_run(connection, run_id)
            return None if row is None else seats.chain_of(connection, row, size)

    def page(self, cursor: str | None = None, limit: int = 50, wanted: RunFilter | None = None) -> RunListResponse:
        with self.database.read() as connection:
            conditions = runs.which(**asdict(wanted or RunFilter()))
            found, next_cursor = page_of(connection, run_table, RunSummary, "run_id", cursor, limit, *conditions)
        return {"runs": found, "next_cursor": next_cursor}


def against_the_record(row: RunRow, run: SealedRun, fresh: Verification) -> Verification:
    """Judge by the hashes that were recorded at the seal, not by those in the stored manifest."""
    sealed, bound = row["evidence_hash"] or "", row["manifest_hash"]
    checks = dict(fresh.checks)
    if fresh.scores is not None:  # otherwise a check states why the evidence can't be read
        checks["evidence_integrity"] = evidence_integrity(sealed, fresh.recomputed_evidence_hash)
    if bound != run.manifest_hash:
        detail = f"the manifest has {run.manifest_hash}, but the seal recorded {bound or 'nothing'}"
        checks["manifest_bound"] = Check(Verdict.FAIL, detail)
    return replace(fresh, evidence_hash=sealed, verified=fresh.recomputed_evidence_hash == sealed, checks=checks)


def _receipt(line: bytes) -> dict[str, Any]:
    try:
        receipt = orjson.loads(line)
    except orjson.JSONDecodeError:  # receipts are not evidence, so damage must not hide the rest; policy_obeyed reports it
        receipt = None
    return receipt if isinstance(receipt, dict) else {"unreadable": line.decode("utf-8", "replace")}


def _verdicts(checks: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    return {name: check["verdict"] for name, check in checks.items()}


def _fails(checks: Mapping[str, Mapping[str, str]]) -> bool:
    return Verdict.FAIL in _verdicts(checks).values()


def _pending_checks(status: str) -> dict[str, dict[str, str]]:
    return {name: {"verdict": "pending", "detail": f"the run is {status}, not sealed"} for name in CHECKS}
