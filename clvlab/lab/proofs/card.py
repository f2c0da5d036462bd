"""The proof card as a page: what ran, what is sealed, what the seven checks say, and what they can't."""

from __future__ import annotations

from collections.abc import Mapping

import orjson
import polars as pl

from clvlab.answers.runs import Lineage, Metrics
from clvlab.application.runs.card import proof_card
from clvlab.drawing import html
from clvlab.drawing.showing import Shown
from clvlab.lab.proofs.verdicts import checks_table, state
from clvlab.proof.verify import Verification


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
        card = self.card
        return html.block(
            f"Proof card of {self.source.run_id}: {state(self.source)}",
            html.section("Run", html.facts({"mode": card["run"]["mode_label"], "source": card["run"]["source_mode"]})),
            html.section("Agents", _agents(card["lineage"])),
            html.section("Sealed", html.facts(_words(card["evidence"]) | {"policy hash": card["lineage"]["policy_hash"]})),
            html.section("Checks", checks_table(self.source.checks)),
            html.section("Anchor", html.facts(_words(card["anchor"]))),
            html.section("Metrics: never a check", _metrics(card["metrics"])),
            '<p class="quiet">A seal shows that this run follows from its evidence. '
            "It can't show that nobody tried other agents first.</p>",
        )


def _words(entries: Mapping[str, object]) -> dict[str, object]:
    return {name.replace("_", " "): value for name, value in entries.items()}


def _agents(lineage: Lineage) -> str:
    rows = [
        (agent["agent_id"], f"{agent['strategy']} {agent['strategy_version']}", agent["causality"], agent["proof_mode"])
        for agent in lineage["agents"]
    ]
    return html.table(["agent", "strategy", "look-ahead", "proof mode"], rows)


def _metrics(metrics: Metrics | None) -> str:
    if metrics is None:
        return '<p class="quiet">The evidence can\'t be read.</p>'
    mean = metrics["avg_clv_bps"]
    return html.facts(
        {
            "mean CLV": "no scored action"
            if mean is None
            else f"{mean:+.2f} bps of probability (no interval here: see a tear sheet)",
            "total CLV": f"{metrics['total_clv_bps']:+,} bps",
            "scored actions": metrics["action_count"],
            "law-valid decisions": metrics["valid_count"],
            "confidence": metrics["clv_confidence"] + (" (small sample)" if metrics["low_sample"] else ""),
        }
    )
