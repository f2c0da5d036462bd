"""Results that show themselves: one line in a console, a small table in a notebook, data under ``.frame``."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from clvlab.answers.runs import InspectorRecord, ProofArtifactResponse
from clvlab.application.runs import in_folder
from clvlab.application.runs.card import proof_card
from clvlab.application.runs.inspector import inspect_decision
from clvlab.engine.lookahead import LookaheadReport
from clvlab.lab.drawing import html
from clvlab.lab.drawing.showing import Shown
from clvlab.lab.proofs.browser import EvidenceBrowser
from clvlab.lab.proofs.card import ProofCard
from clvlab.lab.proofs.merkle import MerklePath
from clvlab.lab.proofs.playground import Playground
from clvlab.lab.proofs.verdicts import state, verdicts_html
from clvlab.packs import reader
from clvlab.packs.quality import Quality
from clvlab.proof.anchor import Anchor
from clvlab.proof.seal import SealedRun
from clvlab.proof.verify import Verification, verify

__all__ = ["AuditReport", "Pack", "Run", "VerificationResult"]
_SHOWN_ROWS = 20


class Pack(Shown):
    """A hash-verified pack."""

    def __init__(self, pack: reader.Pack) -> None:
        self.source = pack

    @property
    def pack_id(self) -> str:
        return self.source.pack_id

    @property
    def content_hash(self) -> str:
        return self.source.content_hash

    @property
    def provenance(self) -> str:
        return self.source.provenance

    @property
    def is_genuine(self) -> bool:
        return self.source.is_genuine

    @property
    def fixture_ids(self) -> tuple[int, ...]:
        return self.source.fixture_ids

    @property
    def frame(self) -> pl.DataFrame:
        """One row per fixture."""
        return self.source.fixtures

    @property
    def quality(self) -> Quality | None:
        """What the import that made the pack found; null for a pack that was not imported."""
        return self.source.quality

    @property
    def results(self) -> pl.DataFrame | None:
        """One row per side of a settled market, where the source had results; agents never see them."""
        return self.source.results

    def ticks(self, fixture_ids: list[int] | None = None) -> pl.DataFrame:
        """Return the ticks, one row per (fixture_id, tick_seq, market_key, side)."""
        return self.source.tape(fixture_ids).ticks().collect(engine="in-memory")

    def __repr__(self) -> str:
        rows = sum(fixture.rows for fixture in self.source.manifest.fixtures)
        return (
            f"Pack {self.pack_id!r} ({self.provenance}): {len(self.fixture_ids)} fixtures, {rows:,} rows; "
            "next: clvlab.backtest(pack)"
        )

    def _repr_html_(self) -> str:
        shown = self.frame.head(8)
        more = len(self.fixture_ids) - shown.height
        return html.block(
            f"Pack {self.pack_id}",
            html.facts(
                {
                    "provenance": self.provenance,
                    "genuine capture": self.is_genuine,
                    "fixtures": len(self.fixture_ids),
                    "content hash": self.content_hash,
                    "closing policy": self.source.closing,
                }
                | ({"kickoffs": self.source.kickoffs} if self.source.kickoffs else {})
                | ({} if self.quality is None else _shown_quality(self.quality))
            ),
            html.table(
                ["fixture", "names", "kickoff (UTC)", "rows"],
                shown.select(
                    pl.col("fixture_id").cast(pl.String),
                    "names",
                    pl.from_epoch("kickoff_ts_ms", time_unit="ms").dt.strftime("%Y-%m-%d %H:%M"),
                    "rows",
                ).rows(),
            ),
            f'<p class="quiet">and {more} more, in .frame</p>' if more else "",
        )


def _shown_quality(quality: Quality) -> dict[str, object]:
    age, overround = quality.closing_age_s, quality.book_overround_bps
    return {
        "ticks": f"{quality.ticks:,}, {quality.suspended_share:.1%} suspended",
        "refused rows": f"{quality.refused_rows:,} of {quality.messages:,}",
        "overround of books": "none" if overround is None else f"median {overround.median:,} bps",
        "age of the close": "none" if age is None else f"median {age.median:,} s, at most {age.max:,} s",
    }


class VerificationResult(Shown):
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
        """One row per check: name, verdict, what it rests on."""
        rows = [(name, check.verdict.value, check.detail) for name, check in self.source.checks.items()]
        return pl.DataFrame(rows, schema=dict.fromkeys(("check", "verdict", "detail"), pl.String), orient="row")

    @property
    def proof_card(self) -> ProofArtifactResponse:
        return proof_card(self.source)

    def __repr__(self) -> str:
        failed = ", ".join(name for name, verdict in self.checks.items() if verdict == "fail")
        named = f" ({failed})" if failed else ""
        return f"Verification of {self.source.run_id}: {state(self.source)}{named}; next: .frame shows what each check rests on"

    def _repr_html_(self) -> str:
        return verdicts_html(self.source)


class Run:
    """A sealed run."""

    def __init__(self, run: SealedRun, receipts: bytes = b"", anchor: Anchor | None = None) -> None:
        self.source = run
        self.receipts = receipts
        self.anchor = anchor

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
        """Recompute the proof from the sealed bytes; no chain is asked about an anchor, which is then pending."""
        return VerificationResult(verify(self.source, self.receipts, anchor=self.anchor))

    def decision(self, seq: int) -> InspectorRecord:
        """Return one sealed decision with the law's reading of it."""
        return inspect_decision(self.source, seq)

    def proof_card(self) -> ProofCard:
        """Verify the run and give its proof card: what ran, what is sealed, the seven checks."""
        return ProofCard(self.verify().source)

    def browse(self) -> EvidenceBrowser:
        """Read the evidence line by line, with the hash of everything up to each line; a widget in JupyterLab."""
        return EvidenceBrowser(self.source)

    def merkle_path(self, seq: int) -> MerklePath:
        """Return the proof that line ``seq`` stands in the evidence, drawn up to the root that the manifest states.

        Raises
        ------
        EvidenceError
            No such line.
        """
        return MerklePath(self.source, seq)

    def tamper(self) -> Playground:
        """Return a copy to tamper with, and see which checks turn red; a widget in JupyterLab."""
        return Playground(self.source, self.receipts, self.anchor)

    def save(self, folder: str | Path = "runs") -> Path:
        """Store the run under ``folder/<run_id>`` and give that path."""
        return in_folder.keep(self.source, folder, self.receipts)

    def __repr__(self) -> str:
        return f"Run {self.run_id} ({self._events:,} events); next: .verify(), .proof_card(), .browse(), .tamper(), .save()"

    @property
    def _events(self) -> int:
        return self.source.events.count(b"\n")

    def _repr_html_(self) -> str:
        return html.block(
            f"Run {self.run_id}",
            html.facts(
                {
                    "events": self._events,
                    "evidence hash": self.evidence_hash,
                    "manifest hash": self.manifest_hash,
                }
            ),
        )


class AuditReport(Shown):
    """What a look-ahead audit found."""

    def __init__(self, report: LookaheadReport) -> None:
        self.source = report

    @property
    def agent_id(self) -> str:
        return self.source.agent_id

    @property
    def passed(self) -> bool:
        """Whether no decision depended on later ticks."""
        return self.source.passed

    @property
    def cuts(self) -> int:
        """Number of prefixes that were compared with the whole."""
        return len(self.source.cuts)

    @property
    def seed(self) -> int:
        """What the cuts were chosen by."""
        return self.source.seed

    @property
    def moved(self) -> pl.DataFrame:
        """One row per decision that depends on later ticks; see ``clvlab.engine.lookahead.LookaheadReport``."""
        return self.source.moved

    @property
    def frame(self) -> pl.DataFrame:
        return self.moved

    def __repr__(self) -> str:
        return repr(self.source)

    def _repr_html_(self) -> str:
        columns = ["change", "fixture_id", "tick_seq", "action", "market_key", "side", "cut_fixture_id", "cut_tick_seq"]
        shown = self.moved.select(columns).head(_SHOWN_ROWS)
        more = self.moved.height - shown.height
        return html.block(
            f"Look-ahead audit of {self.agent_id}: {'passed' if self.passed else 'FAILED'}",
            html.facts(
                {
                    "prefixes compared with the whole": self.cuts,
                    "seed of the cuts": self.seed,
                    "decisions that depend on later ticks": self.moved.height,
                }
            ),
            html.section("They depend on what came after the cut", html.table(columns, shown.rows())) if shown.height else "",
            f'<p class="quiet">and {more} more, in .moved</p>' if more else "",
        )
