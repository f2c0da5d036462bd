"""A sealed run in a notebook, and its verification."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from clvlab.base.progress import report
from clvlab.errors import EvidenceError, FileError
from clvlab.proof.seal import SealedRun
from clvlab.report.bars import display_progress
from clvlab.report.export import Exportable, for_marimo
from clvlab.report.html import Html, card

if TYPE_CHECKING:  # imported where it is used, so that a first backtest waits for nothing else
    from clvlab.api.runs import InspectorRecord, ProofArtifactResponse, VerifyResponse
    from clvlab.lab.widgets.proofs import EvidenceBrowser, MerklePath, Playground
    from clvlab.proof.anchor import Anchor
    from clvlab.proof.verify import Verification
    from clvlab.report.proofs.verification import ProofCard


class VerificationResult(Exportable):
    """The seven checks of one run."""

    def __init__(self, verification: Verification) -> None:
        self.source = verification

    @property
    def verified(self) -> bool:
        """Whether the recomputed evidence hash equals the sealed one."""
        return self.source.verified

    @property
    def passed(self) -> bool:
        """Whether the seal is intact and no check failed."""
        return self.source.passed

    @property
    def checks(self) -> dict[str, str]:
        return {name: check.verdict.value for name, check in self.source.checks.items()}

    @property
    def frame(self) -> pl.DataFrame:
        """One row per check: name, verdict, basis."""
        rows = [(name, check.verdict.value, check.detail) for name, check in self.source.checks.items()]
        return pl.DataFrame(rows, schema=dict.fromkeys(("check", "verdict", "detail"), pl.String), orient="row")

    @property
    def proof_card(self) -> ProofArtifactResponse:
        from clvlab.runs.card import proof_card

        return proof_card(self.source)

    def __repr__(self) -> str:
        from clvlab.report.proofs.verification import state

        failed = ", ".join(name for name, verdict in self.checks.items() if verdict == "fail")
        named = f" ({failed})" if failed else ""
        return f"Verification of {self.source.run_id}: {state(self.source)}{named}; next: .frame shows the basis of each check"

    def _repr_html_(self) -> Html:
        from clvlab.report.proofs.verification import verification_card

        return verification_card(self.source)


class Run:
    """A sealed run; ``view`` is the view file of its pack if the pack is derived, and ``keep`` records its verifications."""

    def __init__(
        self,
        run: SealedRun,
        receipts: bytes = b"",
        anchor: Anchor | None = None,
        view: bytes = b"",
        keep: Callable[[Verification], object] | None = None,
    ) -> None:
        self.source = run
        self.view = view
        self.receipts = receipts
        self.anchor = anchor
        self._keep = keep

    @property
    def run_id(self) -> str:
        return self.source.run_id

    @property
    def evidence_hash(self) -> str:
        return self.source.evidence_hash

    @property
    def manifest_hash(self) -> str:
        return self.source.manifest_hash

    def verify(self) -> VerificationResult:
        """Recompute the proof from the sealed bytes; an anchor stays pending, because no chain is read.

        The verdict on a run of a folder is recorded next to it for the command `runs`, if that place is writable.
        """
        from clvlab.proof.verify import verify

        with display_progress(f"Verification of {self.source.run_id}"):
            report("recomputing the proof")
            found = verify(self.source, self.receipts, anchor=self.anchor)
        if self._keep is not None:
            self._keep(found)
        return VerificationResult(found)

    def decision(self, seq: int) -> InspectorRecord:
        """Return one sealed decision with its score by the law; ``seq`` is its number in the scores.

        Raises
        ------
        EvidenceError
            No decision has that number.
        """
        from clvlab.runs.inspector import inspect_decision

        _check_seq(seq)
        return inspect_decision(self.source, seq)

    def proof_card(self) -> ProofCard:
        """Verify the run and return its proof card: the run, its seal, and the seven checks."""
        from clvlab.report.proofs.verification import ProofCard

        return ProofCard(self.verify().source)

    def browse(self) -> EvidenceBrowser:
        """Read the evidence line by line, with running hashes; a widget in JupyterLab."""
        from clvlab.lab.widgets.proofs import EvidenceBrowser

        return EvidenceBrowser(self.source)

    def merkle_path(self, seq: int) -> MerklePath:
        """Return the inclusion proof of line ``seq``, up to the root in the manifest.

        Raises
        ------
        EvidenceError
            The evidence does not have the line.
        """
        from clvlab.lab.widgets.proofs import MerklePath

        _check_seq(seq)
        return MerklePath(self.source, seq)

    def tamper(self) -> Playground:
        """Return a copy to tamper with, and its checks; a widget in JupyterLab."""
        from clvlab.lab.widgets.proofs import Playground

        return Playground(self.source, self.receipts, self.anchor)

    def save(self, folder: str | Path = "runs") -> Path:
        """Store the run under ``folder/<run_id>`` and return that path.

        Raises
        ------
        FileError
            The path does not name a folder.
        RunConflictError
            The folder has other bytes under the same id.
        """
        from clvlab.runs import run_folder

        if not isinstance(folder, str | Path):
            raise FileError(f"a run is saved in a folder, named by its path, not in {folder!r:.80}")
        if Path(folder).is_file():
            raise FileError(f"{str(folder)!r:.300} is a file: name the folder for the runs")
        return run_folder.keep(self.source, folder, self.receipts, self.view)

    def push(self, url: str) -> str:
        """Upload the run to a bucket as ``url/<run_id>/``, and return its URL; different bytes there are never overwritten.

        Raises
        ------
        BundleError
            The run does not verify.
        RemoteConflictError
            The bucket has other bytes under its id.
        RemoteError
            The bucket can't be written.
        """
        from clvlab.arena.runs.bundles import push_run

        with display_progress(f"Upload of {self.source.run_id}"):
            return push_run(self.source, url, self.receipts, self.view)

    def share(self, path: str | Path, *, page: str | None = None, agent_id: str | None = None) -> Path:
        """Write one picture of 1200 x 630 to send, and return its path.

        The picture has the verdict, the interval, the power, the curve, the label of causality, and the open checks.

        It is drawn from the sealed bytes alone, so the same run has the same SVG on every machine.

        Parameters
        ----------
        path
            A file that ends in ``.png`` or ``.svg``; PNG needs matplotlib.
        page
            Address of a page of the run at a service, for a QR code; without it the picture has the evidence hash.
        agent_id
            Agent to show of a run of several; by default all of them are shown, without a curve.

        Raises
        ------
        ArgumentError
            The address is neither http nor https, or too long.
        EvidenceError
            The bytes can't be read.
        FileError
            The file has another ending, or its folder does not exist.
        MissingLibraryError
            matplotlib is not installed.
        UnknownAgentError
            The run does not have the agent.
        """
        from clvlab.report.share import SharedPicture

        return SharedPicture(self.source, page, agent_id).write(path)

    def __repr__(self) -> str:
        steps = ".verify(), .proof_card(), .browse(), .tamper(), .save(), .share(path)"
        return f"Run {self.run_id} ({self._events:,} events); next: {steps}"

    @property
    def _events(self) -> int:
        return self.source.events.count(b"\n")

    def _repr_html_(self) -> Html:
        facts = {"events": self._events, "evidence hash": self.evidence_hash, "manifest hash": self.manifest_hash}
        return card("facts.html", f"Run {self.run_id}", facts=facts)

    def _display_(self) -> Any:
        """Return the card for marimo."""
        return for_marimo(self._repr_html_())


def _check_seq(seq: object) -> None:
    if type(seq) is not int or seq < 0:
        raise EvidenceError(f"a line of the evidence is named by its number, a whole one from 0 on, not {seq!r:.80}")


def verification_of(answer: VerifyResponse) -> VerificationResult:
    """Return the verification of a store or service, with its anchor."""
    from clvlab.proof.anchor import Anchor
    from clvlab.proof.checks import Check, Verdict
    from clvlab.proof.verify import Verification

    verdicts: Mapping[str, Any] = answer["checks"]
    details: Mapping[str, Any] = answer["proof_card"]["check_details"]
    checks = {name: Check(Verdict(verdict), details[name]) for name, verdict in verdicts.items()}
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
