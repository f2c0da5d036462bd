"""How much was shown of where the messages of a pack come from, and by whom: the grade beside its provenance."""

from __future__ import annotations

from enum import StrEnum


class Grade(StrEnum):
    """What was shown of a pack's messages, from nothing on; a label says more than any of these until it is shown.

    Attributes
    ----------
    NOT_SHOWN
        Nothing: the pack has no messages, or they were not normalised again.
    SELF_CONSISTENT
        Its own messages, normalised again, give its ticks; whoever holds the pack may have written them.
    WITNESSED
        Its segments also stand in a log, since a time that the log's operator states, each within a day of its first message.
    WITNESSED_LATE
        They stand in a log, and some were entered later: who wrote them may have known what came of it.
    """

    NOT_SHOWN = "not shown"
    SELF_CONSISTENT = "self-consistent"
    WITNESSED = "witnessed"
    WITNESSED_LATE = "witnessed late"


def grade_of(*, is_genuine: bool) -> Grade:
    """Return what a pack shows by itself: never that a provider sent anything.

    Examples
    --------
    >>> grade_of(is_genuine=True).value
    'self-consistent'
    """
    return Grade.SELF_CONSISTENT if is_genuine else Grade.NOT_SHOWN
