"""Verifications and proof cards: the run, its seal, and the seven checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import orjson
import polars as pl

from clvlab.api.runs import ProofArtifactResponse
from clvlab.proof.checks import CHECKS
from clvlab.proof.checks import Verdict as CheckVerdict
from clvlab.proof.verify import Verification
from clvlab.report.export import Exportable
from clvlab.report.headline import means_of, spelt_mean
from clvlab.report.html import Html, card
from clvlab.runs.card import card_causality, proof_card
from clvlab.runs.inspector import at_close
from clvlab.statistics.verdict import Tone, Verdict
from clvlab.words import CHECK_MEANINGS, sample

# The seven checks with their meaning, as HTML.


def state(verification: Verification) -> str:
    """The verdict on a run in a few words."""
    if verification.passed:
        return "seal intact, no check failed"
    return "seal intact, a check failed" if verification.verified else "seal broken"


def sentence(found: Verification) -> str:
    """Return the result of the checks in one sentence."""
    failed = [name.replace("_", " ") for name, check in found.checks.items() if check.verdict is CheckVerdict.FAIL]
    if not found.verified:
        return f"The seal is broken: {', '.join(failed) or 'the evidence has another hash'}."
    if failed:
        return f"The evidence is what was sealed, and a check fails: {', '.join(failed)}."
    verdicts = [check.verdict for check in found.checks.values()]
    others = {
        "passed": verdicts.count(CheckVerdict.PASS),
        "pending": verdicts.count(CheckVerdict.PENDING),
        "not applicable": verdicts.count(CheckVerdict.NOT_APPLICABLE),
    }
    counts = ", ".join(f"{count} {named}" for named, count in others.items() if count)
    return f"The seal is intact and no check fails: {counts}."


def verdict_on(found: Verification) -> Verdict:
    """Return the result of the checks as a sentence with its tone."""
    return Verdict(sentence(found), Tone.BEATS if found.passed else Tone.LOSES)


@dataclass(frozen=True, slots=True)
class CheckRow:
    """A row of the checks: verdict, meaning, and basis."""

    name: str
    verdict: str
    means: str
    detail: str


def check_rows(verification: Verification) -> list[CheckRow]:
    """Return the checks in their order."""
    own = verification.checks
    return [CheckRow(name, own[name].verdict.value, CHECK_MEANINGS[name], own[name].detail) for name in CHECKS if name in own]


def verification_card(verification: Verification) -> Html:
    """Show a verification: a sentence, seven marks, and the basis of each, collapsed unless a check fails."""
    return card(
        "verification.html",
        f"Verification of {verification.run_id}: {state(verification)}",
        verdict=verdict_on(verification),
        checks=check_rows(verification),
        marks=verdicts(verification),
        hashes={
            "evidence hash, sealed": verification.evidence_hash,
            "evidence hash, recomputed": verification.recomputed_evidence_hash,
            "manifest hash": verification.manifest_hash,
        },
    )


def verdicts(verification: Verification) -> dict[str, str]:
    """Return the verdict of each check by its name."""
    return {name: check.verdict.value for name, check in verification.checks.items()}


class ProofCard(Exportable):
    """The public summary of a run; made by ``Run.proof_card()``.

    ``.card`` is the JSON object that a service returns.
    """

    def __init__(self, verification: Verification) -> None:
        self.source = verification
        self.card = proof_card(verification)

    @property
    def frame(self) -> pl.DataFrame:
        """One row per entry of the card: (part, name, value), values as JSON text."""
        rows = [
            (part, name, orjson.dumps(value).decode())
            for part, entries in self.card.items()
            for name, value in (entries.items() if isinstance(entries, dict) else {"": entries}.items())
        ]
        return pl.DataFrame(rows, schema=dict.fromkeys(("part", "name", "value"), pl.String), orient="row")

    def __repr__(self) -> str:
        return f"Proof card of {self.source.run_id}: {state(self.source)}; next: .card, .frame, .to_html(path)"

    def _repr_html_(self) -> Html:
        card_, found = self.card, self.source
        lineage = card_["lineage"]
        return card(
            "proof_card.html",
            f"Proof card of {found.run_id}",
            verdict=verdict_on(found),
            marks=verdicts(found),
            figures=_figures(found, card_),
            checks=check_rows(found),
            run={"mode": card_["run"]["mode_label"], "source": card_["run"]["source_mode"]},
            agents=[
                (
                    agent["agent_id"],
                    f"{agent['strategy']} {agent['strategy_version']}",
                    card_causality(agent),
                    agent["proof_mode"],
                )
                for agent in lineage["agents"]
            ],
            sealed=_words(card_["evidence"]) | {"policy hash": lineage["policy_hash"]},
            anchor=_words(card_["anchor"]),
        )


def _words(entries: Mapping[str, object]) -> dict[str, object]:
    return {name.replace("_", " "): value for name, value in entries.items()}


def _figures(found: Verification, card: ProofArtifactResponse) -> dict[str, str]:
    metrics, agents = card["metrics"], card["lineage"]["agents"]
    anchor = card["anchor"]["status"].replace("_", " ")
    if metrics is None or found.scores is None or found.evidence is None:
        return {"anchor": anchor, "figures": "the evidence can't be read"}
    mean = {}
    if len(agents) == 1:
        scores = found.scores.with_columns(at_close(found.evidence.decisions, found.evidence.closes))
        mean = {"mean CLV, 95 % interval": spelt_mean(means_of(scores, "clv")["clv"], "bps")}
    named = agents[0]["agent_id"] if len(agents) == 1 else f"{len(agents)} agents"
    return {
        "agent": named,
        **mean,
        **(
            {"sample": sample(metrics["clv_confidence"], metrics["valid_count"])}
            if mean
            else {"scored decisions": f"{metrics['action_count']:,}"}
        ),
        "anchor": anchor,
    }
