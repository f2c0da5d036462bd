"""Two means with their intervals in one careful sentence: CLV, and the edge at the prices taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from clvlab.statistics.beat_rate import Difference
from clvlab.statistics.clusters import MIN_CLUSTERS
from clvlab.statistics.means import Estimate
from clvlab.words import counted, estimate

FEW_FIXTURES = 10
SEARCH = "not corrected for how many strategies were tried"


class Tone(StrEnum):
    BEATS = "beats"
    LOSES = "loses"
    UNCLEAR = "unclear"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Figure:
    """A mean with its interval over fixtures, if any, and the number of decisions behind it, if known."""

    mean: float | None
    low: float | None
    high: float | None
    fixtures: int
    n: int | None = None

    @classmethod
    def of(cls, found: Estimate | Difference) -> Self:
        if isinstance(found, Difference):
            return cls(found.difference, found.low, found.high, found.n_clusters)
        return cls(found.mean, found.low, found.high, found.n_clusters, found.n)

    @property
    def tone(self) -> Tone:
        """Whether the interval is above, below or around zero; ``unclear`` without an interval, ``nothing`` without a mean."""
        if self.mean is None:
            return Tone.NOTHING
        if self.low is None or self.high is None:
            return Tone.UNCLEAR
        return Tone.BEATS if self.low > 0 else Tone.LOSES if self.high < 0 else Tone.UNCLEAR


_ABOVE, _AROUND, _BELOW = Tone.BEATS, Tone.UNCLEAR, Tone.LOSES


@dataclass(frozen=True, slots=True)
class Phrases:
    """Beginnings of a sentence.

    Attributes
    ----------
    above, below, around, nothing
        For the line alone: its interval is above zero, below it or around it, or it has no value.
    both
        For each pair of tones of line and price.
    unpriced
        Said of evidence without prices.
    """

    above: str
    below: str
    around: str
    nothing: str
    both: Mapping[tuple[Tone, Tone], str]
    unpriced: str = "no price is in the evidence"

    def after(self, words: str, nothing: str | None = None) -> Phrases:
        """Return the phrases after other words.

        Examples
        --------
        >>> RUN.after("Out of sample,").above
        'Out of sample, beats the closing line'
        """
        above, below, around, *rest = (
            f"{words} {text[0].lower()}{text[1:]}" for text in (self.above, self.below, self.around, *self.both.values())
        )
        both = dict(zip(self.both, rest, strict=True))
        return Phrases(above, below, around, self.nothing if nothing is None else nothing, both, self.unpriced)


# What an interval does not show is not said: around zero, nothing "breaks even". A price pays if the close is right.
RUN = Phrases(
    above="Beats the closing line",
    below="Loses to the closing line",
    around="Not distinguishable from zero",
    nothing="Nothing to judge: no decision was scored",
    both={
        (_ABOVE, _ABOVE): "Beats the closing line, and pays at its prices",
        (_ABOVE, _AROUND): "Beats the closing line, but may not pay at its prices",
        (_ABOVE, _BELOW): "Moves with the market, but loses at its prices",
        (_AROUND, _ABOVE): "Pays at its prices, though its CLV may be luck",
        (_AROUND, _AROUND): "Not distinguishable from zero, by the line or at its prices",
        (_AROUND, _BELOW): "Loses at its prices, and its CLV may be luck",
        (_BELOW, _ABOVE): "Loses to the closing line, yet pays at its prices",
        (_BELOW, _AROUND): "Loses to the closing line, and may not pay at its prices",
        (_BELOW, _BELOW): "Loses to the closing line, and at its prices",
    },
)


def difference_phrases(other: str, first: str) -> Phrases:
    """Return the phrases for one agent's means less another's.

    Examples
    --------
    >>> difference_phrases("b", "a").both[Tone.BEATS, Tone.LOSES]
    'b is ahead of a by the line, but behind at its prices'
    """
    ahead, behind = f"{other} is ahead of {first}", f"{other} is behind {first}"
    around, luck = f"{other} and {first} can't be told apart", "the difference may be luck"
    return Phrases(
        above=ahead,
        below=behind,
        around=around,
        nothing=f"{other} and {first} have no scored fixture in common",
        both={
            (_ABOVE, _ABOVE): f"{ahead}, by the line and at its prices",
            (_ABOVE, _AROUND): f"{ahead} by the line; at the prices {luck}",
            (_ABOVE, _BELOW): f"{ahead} by the line, but behind at its prices",
            (_AROUND, _ABOVE): f"{ahead} at its prices; by the line {luck}",
            (_AROUND, _AROUND): f"{around}, by the line or at the prices",
            (_AROUND, _BELOW): f"{behind} at its prices; by the line {luck}",
            (_BELOW, _ABOVE): f"{behind} by the line, but ahead at its prices",
            (_BELOW, _AROUND): f"{behind} by the line; at the prices {luck}",
            (_BELOW, _BELOW): f"{behind}, by the line and at its prices",
        },
        unpriced="not both have prices",
    )


@dataclass(frozen=True, slots=True)
class Verdict:
    """A careful sentence about a mean, or about two.

    Attributes
    ----------
    sentence
        Plain text with a capital and a full stop.
    tone
        ``beats`` where nothing in it is below zero and all of it above; ``loses`` where the price loses, or the line does and
        the price does not pay; ``nothing`` without a value; otherwise ``unclear``.
    """

    sentence: str
    tone: Tone

    def __str__(self) -> str:
        return self.sentence


def tone_of(line: Tone, price: Tone) -> Tone:
    """Return the tone of both: never ``beats`` unless the price pays too, if there is one.

    Examples
    --------
    >>> tone_of(Tone.BEATS, Tone.LOSES), tone_of(Tone.BEATS, Tone.UNCLEAR), tone_of(Tone.BEATS, Tone.NOTHING)
    (<Tone.LOSES: 'loses'>, <Tone.UNCLEAR: 'unclear'>, <Tone.BEATS: 'beats'>)
    """
    if Tone.NOTHING in (line, price):
        return line
    if line is price or price is Tone.LOSES:
        return price
    return Tone.LOSES if line is Tone.LOSES and price is Tone.UNCLEAR else Tone.UNCLEAR


def verdict(
    line: Estimate | Difference | Figure,
    price: Estimate | Difference | Figure,
    *,
    wording: Phrases = RUN,
    caveat: str = SEARCH,
    unit: str = "bps",
    of: str = "CLV",
) -> Verdict:
    """Return the strongest sentence that two means with their intervals support.

    Parameters
    ----------
    line
        Mean CLV, in ``unit``, called ``of``.
    price
        Mean edge at the prices taken, valued at the closing probability, in percent; without a mean if nothing was priced.
    wording
        Beginnings of the sentence.
    caveat
        Added, unless something is below zero and nothing above it; an empty one adds nothing.
    unit, of
        Unit of the line, and its name.

    Examples
    --------
    >>> line, none = Figure(34.2, -6.1, 76.8, 300), Figure(None, None, None, 0)
    >>> verdict(line, none, caveat="").sentence
    'Not distinguishable from zero: +34 bps [-6, +77] over 300 fixtures; no price is in the evidence.'
    >>> verdict(line, Figure(-3.56, -4.27, -2.85, 300)).sentence.partition(":")[0]
    'Loses at its prices, and its CLV may be luck'
    """
    line, price = (one if isinstance(one, Figure) else Figure.of(one) for one in (line, price))
    if line.mean is None:
        return Verdict(f"{wording.nothing}.", Tone.NOTHING)
    tones = line.tone, price.tone
    text, over = estimate(line.mean, line.low, line.high, unit), f"over {counted(line.fixtures, 'fixture')}"
    if line.low is None:
        few = f"too few for an interval ({MIN_CLUSTERS} at least)"
        over += f", {few if line.fixtures < MIN_CLUSTERS else 'without an interval: one of the means is of a single fixture'}"
    elif line.fixtures < FEW_FIXTURES:
        over += ", which are few"
    added = f"; {caveat}" if caveat and line.low is not None and (Tone.BEATS in tones or Tone.LOSES not in tones) else ""
    if price.mean is None:
        alone = {Tone.BEATS: wording.above, Tone.LOSES: wording.below, Tone.UNCLEAR: wording.around}[line.tone]
        return Verdict(f"{alone}: {text} {over}; {wording.unpriced}{added}.", line.tone)
    at = "at the prices taken"
    if price.n is not None and line.n is not None and price.n < line.n:
        at = f"at the prices of {price.n:,} of {counted(line.n, 'decision')}"
    lone = " (too few fixtures for an interval)" if price.low is None and line.low is not None else ""
    paid = f"{estimate(price.mean, price.low, price.high, '%')} {at}{lone}"
    return Verdict(f"{wording.both[tones]}: {text} of {of}, and {paid}, if the close is right, {over}{added}.", tone_of(*tones))
