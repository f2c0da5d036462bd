"""The seven checks with what each one means, as HTML."""

from __future__ import annotations

from collections.abc import Mapping

from clvlab.drawing import html
from clvlab.proof.checks import CHECKS, Check
from clvlab.proof.verify import Verification

MEANINGS = {
    "evidence_integrity": "The bytes of the evidence have the hash that was sealed.",
    "llm_boundary": "No code that decides a score is seen to import a language model: a maintainer's guard, not a wall.",
    "metrics_recomputed": "Every score follows from the evidence, and none is missing or added.",
    "manifest_bound": "The manifest binds the run, its inputs, its evidence and its scores.",
    "policy_obeyed": "Every execution passed both phases of the policy gate.",
    "receipt_separation": "Nothing that a venue said is part of the evidence.",
    "anchor": "The manifest's hash stands on the chain, in a transaction by a key that is trusted.",
}


def state(verification: Verification) -> str:
    """The verdict on a run in a few words."""
    if verification.passed:
        return "seal intact, no check failed"
    return "seal intact, a check failed" if verification.verified else "seal broken"


def checks_table(checks: Mapping[str, Check]) -> str:
    """The checks in their order: verdict, meaning, and what the verdict rests on."""
    rows = [(name, html.badge(checks[name].verdict.value), MEANINGS[name], checks[name].detail) for name in CHECKS]
    return html.table(["check", "verdict", "means", "rests on"], rows)


def verdicts_html(verification: Verification) -> str:
    """A verification as HTML: state, seven badges, hashes."""
    return html.block(
        f"Verification of {verification.run_id}: {state(verification)}",
        f'<div class="wide">{checks_table(verification.checks)}</div>',
        html.facts(
            {
                "evidence hash, sealed": verification.evidence_hash,
                "evidence hash, recomputed": verification.recomputed_evidence_hash,
                "manifest hash": verification.manifest_hash,
            }
        ),
    )
