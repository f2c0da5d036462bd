"""Runs and their proofs, the leaderboard, the demo."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from clvlab.answers.decisions import DecisionListResponse
from clvlab.answers.demo import DemoResponse
from clvlab.answers.leaderboard import LeaderboardResponse
from clvlab.answers.runs import InspectorRecord, ProofArtifactResponse, RunListResponse, RunProgress, VerifyResponse
from clvlab.client.asking import Asking


class Proving(Asking):
    """What anybody may see and check of runs."""

    def leaderboard(self, after_rank: int = 0, limit: int | None = None, **filters: Any) -> LeaderboardResponse:
        """Rank agents over all sealed runs; a page of them with a ``limit``.

        ``filters`` are ``causality`` and ``knowledge``; ``grouped=True`` is one row for an owner's that decide alike.
        """
        return self._get(LeaderboardResponse, "leaderboard", after_rank=after_rank, limit=limit, **filters)

    def runs(self, cursor: str | None = None, limit: int = 50, **filters: Any) -> RunListResponse:
        """List runs, newest first; of a ``kind``, ``status``, ``agent_id``, ``pack_id`` or ``owner`` only, if given."""
        return self._get(RunListResponse, "runs", cursor=cursor, limit=limit, **filters)

    def run(self, run_id: str) -> ProofArtifactResponse:
        """Read the proof card of a run."""
        return self._get(ProofArtifactResponse, "runs", run_id)

    def progress(self, run_id: str) -> RunProgress:
        """Read how far a run is."""
        return self._get(RunProgress, "runs", run_id, "progress")

    def follow(self, run_id: str) -> Iterator[RunProgress]:
        """Return how far a run is, whenever that changes, until it is sealed or has failed.

        Raises
        ------
        websockets.exceptions.InvalidStatus
            The run is unknown.
        websockets.exceptions.ConnectionClosedError
            The connection broke off: follow again.
        """
        return self._messages("runs", run_id, "progress")

    def verify(self, run_id: str) -> VerifyResponse:
        """Have the proof of a run recomputed."""
        return self._post(VerifyResponse, "runs", run_id, "verify")

    def decision(self, run_id: str, seq: int) -> InspectorRecord:
        """Inspect one decision."""
        return self._get(InspectorRecord, "runs", run_id, "actions", str(seq))

    def decisions(self, run_id: str, cursor: str | None = None, limit: int = 100, **filters: Any) -> DecisionListResponse:
        """List sealed decisions with their scores, a page of them.

        ``filters`` are ``agent_id``, ``fixture_id``, ``market`` (a prefix), ``side``, ``reason``, ``valid``, and ``sort``
        (``seq``, ``clv`` or ``-clv``).
        """
        return self._get(DecisionListResponse, "runs", run_id, "decisions", cursor=cursor, limit=limit, **filters)

    def decision_frame(self, run_id: str, **filters: Any) -> pl.DataFrame:
        """Return all sealed decisions that match the same filters, with their scores, a row each."""
        return self._frame("runs", run_id, "decisions", **filters)

    def evidence(self, run_id: str) -> bytes:
        """Download ``events.jsonl``, whose SHA-256 is the evidence hash."""
        return self._bytes("runs", run_id, "evidence")

    def scores(self, run_id: str) -> bytes:
        """Download ``scores.jsonl``."""
        return self._bytes("runs", run_id, "scores")

    def manifest(self, run_id: str) -> bytes:
        """Download ``manifest.json``, whose SHA-256 is the manifest hash."""
        return self._bytes("runs", run_id, "manifest")

    def bundle(self, run_id: str) -> bytes:
        """Download the proof bundle: all of the above, with the anchor and log proofs there are."""
        return self._bytes("runs", run_id, "bundle")

    def demo(self) -> DemoResponse:
        """Run the demo competition."""
        return self._post(DemoResponse, "demo", "run")
