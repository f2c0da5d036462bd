"""Markets of synthetic fixtures: each price is the chance of an event of the hidden numbers, and its odds carry a margin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clvlab.law.markets import HANDICAP_GOALS, RESULT_1X2, TOTAL_GOALS, spelled_key
from clvlab.law.schema import ODDS_MILLI
from clvlab.odds.probit import Ints
from clvlab.odds.rounding import WHOLE_BPS
from clvlab.packs.synthetic_walk import Hidden

_HOME = 250_000  # what playing at home is worth
_DRAW = 345_000  # part1 wins above it, part2 below its negative, and between them nobody does


@dataclass(frozen=True, slots=True)
class SyntheticMarket:
    """A market of every fixture.

    Attributes
    ----------
    key, sides
        As they stand in the ticks; sides in byte order.
    share
        Of the messages, in parts of 100.
    overround_bps
        The mean over messages.
    offset
        The first side wins where the hidden number ends above its negative. Of three sides, ``part1`` wins there, and
        ``part2`` where the mirrored number does.
    of_goals
        Whether the hidden number is goals, and not strength.
    """

    key: str
    sides: tuple[str, ...]
    share: int
    overround_bps: int
    offset: int = 0
    of_goals: bool = True

    def probs_bps(self, hidden: Hidden, at: Ints) -> tuple[Ints, ...]:
        """Return the probability of each side at some messages; they sum to the whole."""
        first = np.clip(hidden.chance_bps(self.offset, at), 1, WHOLE_BPS - 2)
        if len(self.sides) == 2:
            return first, WHOLE_BPS - first
        not_second = np.clip(hidden.chance_bps(self._other, at), first + 1, WHOLE_BPS - 1)
        return not_second - first, first, WHOLE_BPS - not_second

    def winner(self, hidden: Hidden) -> str:
        """Return the side that won."""
        if len(self.sides) == 2:
            return self.sides[0] if hidden.end > -self.offset else self.sides[1]
        draw, part1, part2 = self.sides
        if hidden.end > -self.offset:
            return part1
        return draw if hidden.end > -self._other else part2

    @property
    def _other(self) -> int:
        """The offset above whose negative ``part2`` does not win."""
        return 2 * _HOME - self.offset

    def odds_milli(self, prob_bps: Ints, spread_bps: Ints) -> Ints:
        """Return the odds on offer for probabilities: each side bears the overround, and a message's spread, in proportion."""
        parts = prob_bps * (WHOLE_BPS + self.overround_bps + spread_bps)
        return np.clip((2_000 * WHOLE_BPS * WHOLE_BPS + parts) // (2 * parts), *ODDS_MILLI)


MARKETS = (
    SyntheticMarket(spelled_key(RESULT_1X2), ("draw", "part1", "part2"), 18, 520, offset=_HOME - _DRAW, of_goals=False),
    SyntheticMarket(spelled_key(HANDICAP_GOALS, line=-0.5), ("part1", "part2"), 17, 260, offset=_HOME - _DRAW, of_goals=False),
    SyntheticMarket(spelled_key(TOTAL_GOALS, line=1.5), ("over", "under"), 16, 430, offset=610_000),
    SyntheticMarket(spelled_key(TOTAL_GOALS, line=2.5), ("over", "under"), 17, 330),
    SyntheticMarket(spelled_key(TOTAL_GOALS, line=3.5), ("over", "under"), 16, 470, offset=-580_000),
    SyntheticMarket(spelled_key(TOTAL_GOALS, "half=1", line=1.5), ("over", "under"), 16, 620, offset=-370_000),
)
