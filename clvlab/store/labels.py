"""Names of the leaderboard's rows: unique, and no two that look alike."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import count

from clvlab.law.schema import Causality

# Whether an agent may hold the past: how it decided, and when prices became known against when its code was committed to.
#
# No way of asking an agent shows that its author did not know what came later: a table of closes that is asked message by
# message is a table of closes. So the two are kept apart.


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


ANYBODY = "anonymous"
"""Who commits to a run that was asked for without a token."""

_ANONYMOUS = " (anonymous)"
_SHORT = 12
_INVISIBLE = ("Cf", "Co", "Cn")  # categories of Unicode: format, private use, unassigned


def labels(keys: Sequence[tuple[str, str]]) -> list[str]:
    """Return a unique name for each row, by owner and agent id, in the order in which the rows came into being.

    The first owner of an agent id has the plain name. A later one's, or a name that may look like another, carries the end of
    the owner; rows of runs that were asked for without a token say so, and are nobody's.

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
    """Return the names that a row may have, best first, without an end."""
    if owner == ANYBODY:
        yield f"{agent_id}{_ANONYMOUS}"
        return
    if "@" not in agent_id and not agent_id.endswith(_ANONYMOUS) and _is_plain(agent_id):
        yield agent_id
    for length in range(len(owner.rpartition(":")[2][-_SHORT:]), len(owner) + 1):
        yield f"{agent_id}@{owner[len(owner) - length :]}"
    yield from (f"{agent_id}@{owner}#{number}" for number in count(2))  # owners with an @ can make two of these alike


def _is_plain(agent_id: str) -> bool:
    """Tell whether a name is what it looks like: no invisible or other blanks, no letters that stand for others."""
    letters = unicodedata.normalize("NFKC", agent_id)
    visible = "".join(letter for letter in letters if unicodedata.category(letter) not in _INVISIBLE)
    return " ".join(visible.split()) == agent_id
