"""Names of the leaderboard's rows: unique, and no two that look alike."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from itertools import count

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
    shown = "".join(letter for letter in letters if unicodedata.category(letter) not in _INVISIBLE)
    return " ".join(shown.split()) == agent_id
