"""What moved decisions would have got, draw by draw, beside what they got."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from clvlab.statistics.clusters import Floats


@dataclass(frozen=True, slots=True)
class Moved:
    """Mean CLV of the decisions beside that of the same decisions moved at random, in bps of probability.

    Attributes
    ----------
    observed
        Mean CLV of the decisions.
    n
        Decisions.
    draws
        The mean CLV of each draw.
    """

    observed: float
    n: int
    draws: Floats = field(repr=False)

    @property
    def mean(self) -> float:
        """The mean over all draws."""
        return float(self.draws.mean())

    @property
    def low(self) -> float:
        """The lower end of the band that holds 95 % of the draws."""
        return float(np.quantile(self.draws, 0.025))

    @property
    def high(self) -> float:
        """The upper end of that band."""
        return float(np.quantile(self.draws, 0.975))

    @property
    def gain(self) -> float:
        """``observed - mean``: what is lost by moving."""
        return self.observed - self.mean

    @property
    def p_value(self) -> float:
        """One-sided: how often a draw is at least as good; never 0, as the decisions themselves count as one."""
        return float((1 + np.count_nonzero(self.draws >= self.observed)) / (1 + self.draws.size))
