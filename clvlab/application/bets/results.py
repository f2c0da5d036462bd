"""How bettors write that a bet was settled."""

from __future__ import annotations

from clvlab.packs.results import Settled

_USUAL = {
    Settled.WON: "won win w winner",
    Settled.HALF_WON: "halfwon halfwin hw",
    Settled.VOID: "void voided push pushed refund refunded cancelled canceled",
    Settled.HALF_LOST: "halflost halfloss halflose hl",
    Settled.LOST: "lost lose loss l loser",
}
_RESULTS = {name: settled for settled, names in _USUAL.items() for name in names.split()}


def result_of(cell: str | None) -> Settled | None:
    """Return how a bet was settled; null where that is not told, or can't be read.

    Examples
    --------
    >>> result_of("Won"), result_of("half-lost"), result_of("2-1")
    (<Settled.WON: 'won'>, <Settled.HALF_LOST: 'half_lost'>, None)
    """
    plain = "".join(letter for letter in (cell or "").lower() if letter.isalnum())
    return _RESULTS.get(plain)
