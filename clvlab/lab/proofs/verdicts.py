"""The seven checks with what each one means, as HTML."""

from __future__ import annotations

from collections.abc import Mapping

from clvlab.application.sheets.verdict import Tone
from clvlab.drawing import html
from clvlab.proof.checks import CHECKS, Check, Verdict
from clvlab.proof.verify import Verification
from clvlab.words import CHECK_MEANINGS


def state(verification: Verification) -> str:
    """The verdict on a run in a few words."""
    if verification.passed:
        return "seal intact, no check failed"
    return "seal intact, a check failed" if verification.verified else "seal broken"


def sentence(found: Verification) -> str:
    """Say what the checks say, in one sentence."""
    failed = [name.replace("_", " ") for name, check in found.checks.items() if check.verdict is Verdict.FAIL]
    if not found.verified:
        return f"The seal is broken: {', '.join(failed) or 'the evidence has another hash'}."
    if failed:
        return f"The evidence is what was sealed, and a check fails: {', '.join(failed)}."
    verdicts = [check.verdict for check in found.checks.values()]
    others = {
        "passed": verdicts.count(Verdict.PASS),
        "pending": verdicts.count(Verdict.PENDING),
        "not applicable": verdicts.count(Verdict.NOT_APPLICABLE),
    }
    counts = ", ".join(f"{count} {named}" for named, count in others.items() if count)
    return f"The seal is intact and no check fails: {counts}."


def tone(found: Verification) -> Tone:
    """Return the tone of ``sentence``."""
    return Tone.BEATS if found.passed else Tone.LOSES


def checks_table(checks: Mapping[str, Check]) -> str:
    """The checks in their order: verdict, meaning, and what the verdict rests on."""
    own = [name for name in CHECKS if name in checks]
    rows = [(name, html.badge(checks[name].verdict.value), CHECK_MEANINGS[name], checks[name].detail) for name in own]
    return html.table(["check", "verdict", "means", "rests on"], rows)


def verdicts_html(verification: Verification) -> str:
    """A verification as HTML: what it says, seven marks, and folded what each rests on; of a check that fails, unfolded."""
    hashes = {
        "evidence hash, sealed": verification.evidence_hash,
        "evidence hash, recomputed": verification.recomputed_evidence_hash,
        "manifest hash": verification.manifest_hash,
    }
    failed = {name: check for name, check in verification.checks.items() if check.verdict is Verdict.FAIL}
    return html.block(
        f"Verification of {verification.run_id}: {state(verification)}",
        html.verdict(sentence(verification), tone(verification)),
        html.marks({name: check.verdict.value for name, check in verification.checks.items()}),
        html.section("", checks_table(failed)) if failed else "",
        html.details("What each check means and rests on", html.section("", checks_table(verification.checks))),
        html.details("Hashes", html.facts(hashes)),
    )
