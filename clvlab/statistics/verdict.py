"""A mean with its interval in one careful sentence: above zero, below, or not distinguishable from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from clvlab.statistics.clusters import MIN_CLUSTERS
from clvlab.statistics.means import Estimate
from clvlab.words import counted, estimate

FEW_FIXTURES = 10
SEARCH = "what a search cost is not counted here"


class Tone(StrEnum):
    BEATS = "beats"
    LOSES = "loses"
    UNCLEAR = "unclear"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Phrases:
    """Beginnings of a sentence, for an interval above zero, below it, around it, and for a missing value."""

    above: str = "Beats the closing line"
    below: str = "Loses to the closing line"
    around: str = "Not distinguishable from zero"
    nothing: str = "Nothing to judge: no decision was scored"


CLOSE = Phrases()


@dataclass(frozen=True, slots=True)
class Verdict:
    """A careful sentence about a mean.

    Attributes
    ----------
    sentence
        Plain text with a capital and a full stop.
    tone
        Whether the interval is above, below or around zero; ``nothing`` without a value.
    """

    sentence: str
    tone: Tone

    def __str__(self) -> str:
        return self.sentence


def verdict(
    mean: float | None,
    low: float | None = None,
    high: float | None = None,
    *,
    fixtures: int,
    unit: str = "bps",
    wording: Phrases = CLOSE,
    caveat: str = SEARCH,
) -> Verdict:
    """Return the strongest sentence that a mean with its interval (``None`` with too few fixtures) supports.

    ``caveat`` is added unless the interval is below zero; an empty one adds nothing.

    Examples
    --------
    >>> verdict(34.2, -6.1, 76.8, fixtures=300, caveat="").sentence
    'Not distinguishable from zero: +34 bps [-6, +77] over 300 fixtures.'
    >>> verdict(2.44, 0.61, 4.27, fixtures=60).sentence
    'Beats the closing line: +2.4 bps [+0.6, +4.3] over 60 fixtures; what a search cost is not counted here.'
    >>> verdict(7.0, fixtures=3).tone
    <Tone.UNCLEAR: 'unclear'>
    """
    if mean is None:
        return Verdict(f"{wording.nothing}.", Tone.NOTHING)
    text, over = estimate(mean, low, high, unit), f"over {counted(fixtures, 'fixture')}"
    if low is None or high is None:
        few = f"too few for an interval ({MIN_CLUSTERS} at least)"
        return Verdict(f"{wording.around}: {text} {over}, {few}.", Tone.UNCLEAR)
    tone = Tone.BEATS if low > 0 else Tone.LOSES if high < 0 else Tone.UNCLEAR
    opening = {Tone.BEATS: wording.above, Tone.LOSES: wording.below, Tone.UNCLEAR: wording.around}[tone]
    few = ", which are few" if fixtures < FEW_FIXTURES else ""
    added = f"; {caveat}" if caveat and tone is not Tone.LOSES else ""
    return Verdict(f"{opening}: {text} {over}{few}{added}.", tone)


def verdict_of(mean: Estimate, *, wording: Phrases = CLOSE, caveat: str = SEARCH) -> Verdict:
    """Return the verdict of a mean in bps.

    Examples
    --------
    >>> import polars as pl
    >>> from clvlab.statistics import cluster_mean
    >>> verdict_of(cluster_mean(pl.Series([], dtype=pl.Int64), pl.Series([], dtype=pl.Int64))).sentence
    'Nothing to judge: no decision was scored.'
    """
    return verdict(mean.mean, mean.low, mean.high, fixtures=mean.n_clusters, wording=wording, caveat=caveat)
