"""The state of a market, as some message leaves it."""

from __future__ import annotations

from typing import NamedTuple


class State(NamedTuple):
    """A market as a message leaves it.

    Attributes
    ----------
    fixture_id, market_key
        The market.
    ts_ms
        The provider's time of it.
    in_running
        Whether its fixture is in play.
    sides
        In byte order: the same ones in every state of the market.
    prob_bps, odds_milli
        Of each side; null where unpriced. Probabilities of a market that is wholly priced sum to 10000.
    """

    fixture_id: int
    market_key: str
    ts_ms: int
    in_running: bool
    sides: tuple[str, ...]
    prob_bps: tuple[int | None, ...]
    odds_milli: tuple[int | None, ...]

    @property
    def suspended(self) -> bool:
        return all(prob is None for prob in self.prob_bps)
