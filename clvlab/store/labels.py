"""Names of the leaderboard's rows: unique, and visibly different from each other."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import count

from clvlab.law.schema import Causality

# An agent may contain past prices. Whether that is possible depends on how it decided, and on whether there was a commitment
# to its code before prices became known. No way of running an agent shows that its author did not know later prices: an agent
# that decides message by message may read its decisions from a table of closes. So such agents are ranked separately.


MIXED = "mixed"
CAUSALITIES = (*(label.value for label in Causality), MIXED)
"""Labels for how the agent of a row decided."""


class Knowledge(StrEnum):
    """When prices became known, relative to the commitment to the agent's code; the weakest last."""

    LIVE = "live"
    COMMITTED_BEFORE = "committed-before"
    HELD_BACK = "held-back"  # the operator alone had them
    HISTORY = "history"


def weakest(first: str, second: str) -> Knowledge:
    order = list(Knowledge)
    return max(Knowledge(first), Knowledge(second), key=order.index)


def is_hindsight_possible(causality: str, knowledge: str, config_hash: str | None) -> bool:
    """Whether an agent may contain the prices of its run: they were public then, and no evidence speaks against it.

    A template that computes contains only its configuration. A configuration that differs by fixture, so that ``config_hash``
    is ``None``, can pick sides like a transcript.

    Examples
    --------
    >>> is_hindsight_possible("audited-sandbox", "history", "sha256:1"), is_hindsight_possible("transcript", "live", "sha256:1")
    (True, False)
    """
    computes = causality == Causality.TEMPLATE and config_hash is not None
    return knowledge == Knowledge.HISTORY and not computes


ANYBODY = "anonymous"
"""The owner of runs that were requested without a token."""

_ANONYMOUS = " (anonymous)"
_SHORT = 12
_INVISIBLE = ("Cf", "Co", "Cn")  # categories of Unicode: format, private use, unassigned


def labels(keys: Sequence[tuple[str, str]]) -> list[str]:
    """Return a unique name for each row, by owner and agent id, in order of creation.

    The first owner of an agent id has the plain name. A later name, or one that may look like another, ends with the owner;
    rows of runs without a token say so, and have no owner.

    Examples
    --------
    >>> labels([("did:web:a.example", "drift"), ("did:web:b.example", "drift"), ("anonymous", "drift")])
    ['drift', 'drift@b.example', 'drift (anonymous)']
    """
    taken: set[str] = set()
    found = []
    for owner, agent_id in keys:
        label = next(label for label in candidates(owner, agent_id) if label not in taken)
        taken.add(label)
        found.append(label)
    return found


def candidates(owner: str, agent_id: str) -> Iterator[str]:
    """Yield possible names of a row, best first, without end."""
    if owner == ANYBODY:
        yield f"{agent_id}{_ANONYMOUS}"
        return
    if "@" not in agent_id and not agent_id.endswith(_ANONYMOUS) and _is_plain(agent_id):
        yield agent_id
    for length in range(len(owner.rpartition(":")[2][-_SHORT:]), len(owner) + 1):
        yield f"{agent_id}@{owner[len(owner) - length :]}"
    yield from (f"{agent_id}@{owner}#{number}" for number in count(2))  # two owners with an @ may have the same name so far


def _is_plain(agent_id: str) -> bool:
    """Whether a name has no invisible characters, unusual blanks or letters that look like others."""
    letters = unicodedata.normalize("NFKC", agent_id)
    visible = "".join(letter for letter in letters if unicodedata.category(letter) not in _INVISIBLE)
    return " ".join(visible.split()) == agent_id
