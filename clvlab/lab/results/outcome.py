"""A sealed run of one agent or several, as its bytes have it: wherever it was made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import polars as pl

from clvlab.application.runs.perform import reopened
from clvlab.errors import EvidenceError, UnknownAgentError, UnknownPackError
from clvlab.lab.drawing import html
from clvlab.lab.drawing.showing import Shown
from clvlab.lab.results.comparison import Comparison, Leaderboard
from clvlab.lab.results.contender import Contender, agent_part, contenders
from clvlab.lab.results.report import Scores
from clvlab.lab.results.run import Run, VerificationResult
from clvlab.lab.results.tearsheet import TearSheet
from clvlab.packs import reader
from clvlab.proof.anchor import Anchor
from clvlab.proof.checks import Check, Verdict
from clvlab.proof.verify import Verification

__all__ = ["Outcome", "verification_of"]


class Outcome(Shown):
    """What a sealed run says of its agents; given by ``Lab.compete`` and ``Lab.open_run``.

    Everything is read from the sealed bytes, and its proof is recomputed on the way: ``verify()`` shows it.
    """

    def __init__(self, run: Run, packs: Iterable[reader.Pack] = ()) -> None:
        self.run = run
        self._packs = packs

    @cached_property
    def pack(self) -> reader.Pack:
        """The pack that was replayed, if it is at hand; found by its content hash.

        Raises
        ------
        UnknownPackError
        """
        first = self.contenders[0]
        found = next((pack for pack in self._packs if pack.content_hash == first.content_hash), None)
        if found is None:
            raise UnknownPackError(f"pack {first.pack_id!r} of {self.run_id} is not here: no pack has {first.content_hash}")
        return found

    @cached_property
    def _verified(self) -> VerificationResult:
        return self.run.verify()

    @cached_property
    def contenders(self) -> list[Contender]:
        """The agents with their scores, as comparisons take them.

        Raises
        ------
        EvidenceError
            The bytes can't be read.
        """
        found = self._verified.source
        if found.scores is None or found.outcomes is None or found.started is None:
            raise EvidenceError(f"run {self.run.run_id} can't be read: {found.recomputed_evidence_hash}")
        return contenders(found.scores, found.outcomes, found.started)

    @property
    def run_id(self) -> str:
        return self.run.run_id

    @property
    def agent_ids(self) -> list[str]:
        """The agents, in order of their ids."""
        return [one.agent_id for one in self.contenders]

    @property
    def scores(self) -> Scores:
        """``SCORES`` of all agents: one row per decision, re-derived from the evidence."""
        return Scores(pl.concat([one.scores for one in self.contenders]).sort("seq"))

    @cached_property
    def leaderboard(self) -> Leaderboard:
        """The agents by mean CLV; intervals over fixtures stand beside it."""
        return Leaderboard(tuple(self.contenders))

    @property
    def frame(self) -> pl.DataFrame:
        """The leaderboard: one row per agent."""
        return self.leaderboard.frame

    def compare(self, *, level: float = 0.95, resamples: int = 5_000, seed: int = 0) -> Comparison:
        """Compare the agents with the first of them, paired by fixture; see ``clvlab.compare``."""
        return Comparison(tuple(self.contenders), level, resamples, seed)

    def tear_sheet(
        self, agent_id: str | None = None, *, level: float = 0.95, resamples: int = 5_000, draws: int = 200, seed: int = 0
    ) -> TearSheet:
        """Return the statistics of one agent; see ``Backtest.tear_sheet``.

        Parameters
        ----------
        agent_id
            May be left out if there is only one.
        level, resamples, draws, seed
            As for ``Backtest.tear_sheet``.

        Raises
        ------
        UnknownAgentError
            The run has no such agent, or several and none was named.
        UnknownPackError
            The pack of the run, whose ticks a tear sheet reads, is not at hand.
        StatisticsError
            A setting makes no sense.
        """
        own = self.agent_ids
        if agent_id not in own and not (agent_id is None and len(own) == 1):
            raise UnknownAgentError(f"run {self.run_id} has no agent {agent_id!r}: name one of {', '.join(own)}")
        whole = reopened(self.pack, self.run.source, self.run.receipts)
        return TearSheet(agent_part(whole, agent_id or own[0]), level, resamples, draws, seed)

    def verify(self) -> VerificationResult:
        """Recompute the proof from the sealed bytes."""
        return self._verified

    @property
    def _title(self) -> str:
        own = self.contenders
        named = f"Run of {own[0].agent_id}" if len(own) == 1 else f"Competition of {len(own)} agents"
        return f"{named} on {own[0].pack_id!r}"

    def __repr__(self) -> str:
        first = self.frame.row(0, named=True)
        mean = (
            "no scored action" if first["mean_clv_bps"] is None else f"mean CLV {first['mean_clv_bps']:+.2f} bps of probability"
        )
        if len(self.contenders) == 1:
            return f"{self._title}: {mean}; next: .frame, .scores, .tear_sheet(), .verify()"
        steps = ".frame, .compare(), .tear_sheet(agent_id), .verify()"
        return f"{self._title}: {first['agent_id']} first, {mean}; next: {steps}"

    def _repr_html_(self) -> str:
        shown = _columns(self.frame)
        return html.block(
            self._title,
            f'<div class="wide">{html.table(shown.columns, shown.rows())}</div>',
            '<p class="quiet">mean_clv_bps, low and high in bps of probability; intervals hold 95 %, over fixtures.</p>',
            html.facts({"run": self.run_id, "evidence hash": self.run.evidence_hash}),
            html.table(["check", "verdict"], [(name, html.badge(verdict)) for name, verdict in self._verified.checks.items()]),
        )


def _columns(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select("rank", "agent_id", "mean_clv_bps", "low", "high", "t", "action_count", "fixtures", "sim_pnl")


def verification_of(answer: Mapping[str, Any]) -> VerificationResult:
    """Show a VerifyResponse: what the store or service recomputed, with the anchor that it knows of."""
    card = answer["proof_card"]
    checks = {name: Check(Verdict(verdict), card["check_details"][name]) for name, verdict in answer["checks"].items()}
    return VerificationResult(
        Verification(
            run_id=answer["run_id"],
            verified=answer["verified"],
            evidence_hash=answer["evidence_hash"],
            recomputed_evidence_hash=answer["recomputed_evidence_hash"],
            manifest_hash=answer["manifest_hash"],
            checks=checks,
            anchor=Anchor(**answer["anchor"]),
        )
    )
