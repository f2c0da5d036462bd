"""Whether an agent may hold the past: how it decided, and when prices became known against when its code was committed to.

No way of asking an agent shows that its author did not know what came later: a table of closes that is asked message by message
is a table of closes. So the two are kept apart.
"""

from __future__ import annotations

from enum import StrEnum

from clvlab.law.schema import Causality

MIXED = "mixed"
CAUSALITIES = (*(label.value for label in Causality), MIXED)
"""How a row's agent may be shown to decide."""


class Knowledge(StrEnum):
    """When prices became known, against when the agent's code was committed to; the weakest last."""

    LIVE = "live"
    COMMITTED_BEFORE = "committed-before"
    HISTORY = "history"


def weakest(first: str, second: str) -> Knowledge:
    """Return what holds of two records together."""
    order = list(Knowledge)
    return max(Knowledge(first), Knowledge(second), key=order.index)


def is_hindsight_possible(causality: str, knowledge: str, config_hash: str | None) -> bool:
    """Tell whether the answers were public when an agent was run, and nothing shows that it does not hold them.

    A template of the registry that computes holds nothing but its configuration. One that is another for every fixture,
    so that ``config_hash`` is null, picks sides as a transcript does.

    Examples
    --------
    >>> is_hindsight_possible("audited-sandbox", "history", "sha256:1"), is_hindsight_possible("transcript", "live", "sha256:1")
    (True, False)
    """
    computes = causality == Causality.TEMPLATE and config_hash is not None
    return knowledge == Knowledge.HISTORY and not computes
