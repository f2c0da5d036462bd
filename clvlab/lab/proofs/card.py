"""The proof card as a page: what ran, what is sealed, what the seven checks say, and what they can't."""

from __future__ import annotations

from collections.abc import Mapping

import orjson
import polars as pl

from clvlab.api.runs import Lineage, ProofArtifactResponse
from clvlab.drawing import html
from clvlab.drawing.showing import Shown
from clvlab.proof.checks import CHECKS, Check, Verdict
from clvlab.proof.verify import Verification
from clvlab.report.headline import Tone
from clvlab.report.means import means_of, spelt_mean
from clvlab.runs.card import card_causality, proof_card
from clvlab.runs.inspector import at_close
from clvlab.words import CHECK_MEANINGS, sample

# The seven checks with what each one means, as HTML.


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


class ProofCard(Shown):
    """What is published of a run; made by ``Run.proof_card()``.

    ``.card`` is the card as the service answers it: a JSON object.
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

    def _repr_html_(self) -> str:
        card, found = self.card, self.source
        run = {"mode": card["run"]["mode_label"], "source": card["run"]["source_mode"]}
        return html.block(
            f"Proof card of {found.run_id}",
            html.verdict(sentence(found), tone(found)),
            html.marks({name: check.verdict.value for name, check in found.checks.items()}),
            html.strip(_figures(found, card)),
            '<p class="quiet">A seal shows that this run follows from its evidence. '
            "It can't show that nobody tried other agents first. Figures are no check.</p>",
            html.details("What each check means and rests on", html.section("", checks_table(found.checks))),
            html.details(
                "What is sealed: hashes, agents, anchor",
                html.section("Run", html.facts(run)),
                html.section("Agents", _agents(card["lineage"])),
                html.section("Sealed", html.facts(_words(card["evidence"]) | {"policy hash": card["lineage"]["policy_hash"]})),
                html.section("Anchor", html.facts(_words(card["anchor"]))),
            ),
        )


def _words(entries: Mapping[str, object]) -> dict[str, object]:
    return {name.replace("_", " "): value for name, value in entries.items()}


def _agents(lineage: Lineage) -> str:
    rows = [
        (agent["agent_id"], f"{agent['strategy']} {agent['strategy_version']}", card_causality(agent), agent["proof_mode"])
        for agent in lineage["agents"]
    ]
    return html.table(["agent", "strategy", "look-ahead", "proof mode"], rows)


def _figures(found: Verification, card: ProofArtifactResponse) -> dict[str, str]:
    """Return agents, anchor and size of the sample; and the mean of a single agent, with its interval."""
    metrics, agents = card["metrics"], card["lineage"]["agents"]
    anchor = card["anchor"]["status"].replace("_", " ")
    if metrics is None or found.scores is None or found.evidence is None:
        return {"anchor": anchor, "figures": "the evidence can't be read"}
    mean = {}
    if len(agents) == 1:
        scores = found.scores.with_columns(at_close(found.evidence.decisions, found.evidence.closes))
        mean = {"mean CLV, 95 % interval": spelt_mean(means_of(scores)["clv"], "bps")}
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
