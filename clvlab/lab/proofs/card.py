"""The proof card as a page: what ran, what is sealed, what the seven checks say, and what they can't."""

from __future__ import annotations

from collections.abc import Mapping

import orjson
import polars as pl

from clvlab.answers.runs import Lineage, ProofArtifactResponse
from clvlab.application.runs.card import proof_card, shown_causality
from clvlab.application.runs.entries import at_close
from clvlab.application.sheets.means import means_of, spelt_mean
from clvlab.drawing import html
from clvlab.drawing.showing import Shown
from clvlab.lab.proofs.verdicts import checks_table, sentence, state, tone
from clvlab.proof.verify import Verification
from clvlab.words import sample


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
        (agent["agent_id"], f"{agent['strategy']} {agent['strategy_version']}", shown_causality(agent), agent["proof_mode"])
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
