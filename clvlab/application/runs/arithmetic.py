"""The law's arithmetic of one decision, written out with its numbers: integers, as they were sealed."""

from __future__ import annotations

from dataclasses import dataclass

from clvlab.answers.runs import InspectorRecord
from clvlab.law.schema import Reason


@dataclass(frozen=True, slots=True)
class Step:
    """A figure and how it comes about.

    Attributes
    ----------
    name
        What it is.
    formula
        In words.
    numbers
        The same with the numbers of the decision.
    bps
        The result, in basis points.
    """

    name: str
    formula: str
    numbers: str
    bps: int


def arithmetic(record: InspectorRecord) -> list[Step]:
    """Write out how CLV and edge of a scored decision come about; nothing of one that is not scored.

    Examples
    --------
    >>> law = {"reason": "scored", "entry_prob_bps": 5000, "close_prob_bps": 5300}
    >>> found = arithmetic({"recompute": law, "market_state": None, "agent_action": {"side": "draw"}})
    >>> [(step.name, step.numbers, step.bps) for step in found]
    [('CLV', '5300 - 5000', 300), ('Edge', 'floor((2 x 5300 x 10000 + 5000) / (2 x 5000)) - 10000', 600)]
    """
    law = record["recompute"]
    entry, close = law["entry_prob_bps"], law["close_prob_bps"]
    if law["reason"] != Reason.SCORED or entry is None or close is None:
        return []
    steps = [Step("CLV", "closing probability less entry probability", f"{close} - {entry}", close - entry)]
    quote = quote_of(record)
    if quote is not None:
        numbers, edge = f"floor((2 x {close} x {quote} + 1000) / 2000) - 10000", (2 * close * quote + 1000) // 2000 - 10_000
        steps.append(Step("Edge", "closing probability times the price taken (decimal odds x 1000), less one", numbers, edge))
    elif entry > 0:
        numbers = f"floor((2 x {close} x 10000 + {entry}) / (2 x {entry})) - 10000"
        edge = (2 * close * 10_000 + entry) // (2 * entry) - 10_000
        steps.append(Step("Edge", "closing over entry probability, a fair price, less one", numbers, edge))
    return steps


def quote_of(record: InspectorRecord) -> int | None:
    """Return the decimal odds, in thousandths, at which the side stood when the decision was made."""
    state, side = record["market_state"], record["agent_action"]["side"]
    return next((own["odds_milli"] for own in state["sides"] if own["side"] == side), None) if state else None
