"""Runs of the store: proof card, verification, one decision, receipts."""

from __future__ import annotations

from typing import Any

from clvlab.proof.seal import SealedRun

__all__ = ["StoredRuns"]


class StoredRuns:
    """Use cases of runs, whoever asked for them."""

    def card(self, run_id: str) -> dict[str, Any]:
        """Give ProofArtifactResponse, from the moment that the run is queued.

        Besides the interface's fields: ``run.status`` (queued, running, sealed, failed), ``run.cause``, ``run.created_ts_ms``,
        ``run.sealed_ts_ms``, ``run.mode_label``.

        Raises
        ------
        UnknownRunError
        """
        raise NotImplementedError

    def verify(self, run_id: str) -> dict[str, Any]:
        """Recompute everything from the stored bytes; gives VerifyResponse. Blocks.

        A run that is not sealed has ``verified`` false and ``recompute_error:not_sealed``.

        Raises
        ------
        UnknownRunError
        BusyError
            The pool of public work is full.
        """
        raise NotImplementedError

    def inspect(self, run_id: str, seq: int) -> dict[str, Any]:
        """Give the InspectorRecord of one decision, in a time that does not grow with the run.

        Raises
        ------
        UnknownRunError, UnknownDecisionError
        """
        raise NotImplementedError

    def receipts(self, run_id: str) -> dict[str, Any] | None:
        """Give ``{non_scoring: true, receipts: [...]}``, or None for a run without venue receipts.

        Raises
        ------
        UnknownRunError
        """
        raise NotImplementedError

    def sealed(self, run_id: str) -> SealedRun:
        """Give the stored bytes (``events``, ``scores``, ``manifest``).

        Raises
        ------
        UnknownRunError
            Unknown, or not sealed.
        """
        raise NotImplementedError

    def page(self, cursor: str | None = None, limit: int = 50) -> dict[str, Any]:
        """Give ``{runs: [...], next_cursor}``, newest first.

        A run is listed as ``{run_id, kind, status, source_mode, mode_label, created_ts_ms, sealed_ts_ms, evidence_hash}``.

        Raises
        ------
        PageError
        """
        raise NotImplementedError
