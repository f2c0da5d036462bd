"""Whether one of two sources leads the other, and by how many seconds.

Covariances of Hayashi and Yoshida over lags need no common times: they add the products of all changes whose intervals overlap
when one series is shifted by the lag. A lead shows as an asymmetry, a larger correlation at a lag than at its opposite.

Two feeds of one price are asymmetric as well where one of them is stale, rounded, or recorded only when it changes. So the
null is one common path of which each source shows the current value at each of its updates. The updates of both in one order
then are that path. Its changes get random signs, times and sizes stay, and each source is sampled from the new path at its own
times. Where changes are as likely up as down, such draws are as probable as the data, whatever the times, sizes and rounding:
jumps, bursts and prices that move more near the close need no model. The difference at a lag and its opposite is divided by
its error over blocks of time, and of these ratios at all lags the one farthest from the draws counts.

Two more facts can look like a lead: noise that each source has of its own, and prices that are rounded differently and
recorded only when they change. Against noise, a lead is also beyond draws of two paths, in which each source's own changes get
random signs. A price that is recorded only when it changes may have moved at any time since the update before, or at the
update itself. A lead shows by every combination of these interpretations of both sources. A source that repeats prices records
its polls, and has the first interpretation alone.

Where prices move rarely and only changes are recorded, an update may come late because its source polled late or because it
followed. The records can't separate these, so no lead is shown there.

References
----------
Hayashi and Yoshida (2005), "On covariance estimation of non-synchronously observed diffusion processes", Bernoulli 11(2): the
covariance. Hoffmann, Rosenbaum and Yoshida (2013), "Estimation of the lead-lag parameter from non-synchronous data", Bernoulli
19(2): over lags, and the lag of the largest as the lead. Huth and Abergel (2014), "High frequency lead/lag relationships:
Empirical facts", Journal of Empirical Finance 26: the comparison of a lag with its opposite. Westfall and Young (1993),
"Resampling-Based Multiple Testing": the largest deviation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import numpy.typing as npt

from clvlab.errors import StatisticsError
from clvlab.statistics.clusters import Floats

Ints = npt.NDArray[np.int64]

FEWEST_UPDATES = 5
MOST_LAGS = 600
MOST_WORK = 10_000_000_000
"""Limit of updates times lags times draws, which takes minutes."""
_AT_ONCE = 4_000_000
_TIES = 1e-9
_FLAT = 0.98
_BLOCK, _REPEATED = 5, 0.1


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One source's probabilities of one side.

    Attributes
    ----------
    ts_ms
        Times of its updates, ascending, each once.
    prob_bps
        Probability from each of them on, in bps.
    is_repeat
        Whether an update repeats what the source said before, of this side and of all others in its message.
    """

    ts_ms: Ints
    prob_bps: Ints
    is_repeat: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, ts_ms: Ints, prob_bps: Ints, is_repeat: npt.NDArray[np.bool_] | None = None) -> Series:
        """Return the series of updates in order of time; of several at one time the last counts."""
        prob_bps = prob_bps.astype(np.int64)
        repeats = np.diff(prob_bps, prepend=prob_bps[:1] - 1) == 0 if is_repeat is None else is_repeat
        return cls(ts_ms, prob_bps, repeats).where(np.diff(ts_ms, append=ts_ms[-1:] + 1) != 0)

    def where(self, chosen: npt.NDArray[np.bool_]) -> Series:
        """Return the chosen updates."""
        return Series(self.ts_ms[chosen], self.prob_bps[chosen], self.is_repeat[chosen])

    def within(self, first_ms: int, last_ms: int) -> Series:
        """Return the updates from one time to another, both included."""
        return self.where((self.ts_ms >= first_ms) & (self.ts_ms <= last_ms))


@dataclass(frozen=True, slots=True, eq=False)
class Interpretation:
    """Covariances over lags by one interpretation of prices between updates, and their values without a lead.

    Attributes
    ----------
    covariance
        Covariance of Hayashi and Yoshida at each lag, in squared bps, summed over fixtures.
    correlation
        The same divided by the root of both sources' squared changes.
    asymmetry
        Correlation less that at the opposite lag.
    low, high
        Band of the asymmetry without a lead, simultaneous over lags, of one path and of two.
    p_value
        Share of draws, and the data among them, whose largest deviation is at least as large.
    leader
        1 if the first source leads by this interpretation, -1 if the second does, 0 if none does.
    """

    covariance: Floats
    correlation: Floats
    asymmetry: Floats
    low: Floats
    high: Floats
    p_value: float
    leader: int

    def mirrored(self) -> Interpretation:
        """Return the interpretation with the sources in the other order."""
        mirrored = {name: getattr(self, name)[::-1] for name in ("covariance", "correlation", "asymmetry", "low", "high")}
        return replace(self, **mirrored, leader=-self.leader)


@dataclass(frozen=True, slots=True, eq=False)
class LeadLag:
    """Covariances over lags, and the lead that all interpretations show.

    Attributes
    ----------
    lag_s
        Lags in seconds, ascending, with the opposite of each; at a lag above 0 the first source's changes come before.
    interpretations
        All interpretations; by the first one, both sources' prices moved at any time since the update before.
    lead_s
        Lag of the largest correlation on the side of the lead; below 0 the second source leads; ``None`` where no lead is
        shown.
    fixtures, draws
        Numbers of fixtures and draws.
    """

    lag_s: Floats
    interpretations: tuple[Interpretation, ...]
    lead_s: float | None
    fixtures: int
    draws: int

    @property
    def p_value(self) -> float:
        """The largest p-value of all interpretations."""
        return max(one.p_value for one in self.interpretations)


def overlapping(first: Series, second: Series) -> tuple[Series, Series]:
    """Return both series in the span that both cover; empty without such a span."""
    if not len(first.ts_ms) or not len(second.ts_ms):
        return first.within(1, 0), second.within(1, 0)
    span = max(first.ts_ms[0], second.ts_ms[0]), min(first.ts_ms[-1], second.ts_ms[-1])
    return first.within(*span), second.within(*span)


def check_lags(max_lag_s: float, step_s: float) -> Ints:
    """Return lags of both signs in milliseconds, in steps; raise ``StatisticsError`` for wrong or too many ones."""
    for name, value in (("max_lag_s", max_lag_s), ("step_s", step_s)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.001 <= value <= 86_400:
            raise StatisticsError(f"{name} is a number of seconds from 0.001 to 86,400, not {value!r:.80}")
    if step_s > max_lag_s:
        raise StatisticsError(f"a step of {step_s:g} s goes beyond the largest lag, {max_lag_s:g} s")
    count = int(max_lag_s / step_s + _TIES)
    if count > MOST_LAGS:
        raise StatisticsError(
            f"{count:,} lags of {step_s:g} s up to {max_lag_s:g} s are more than {MOST_LAGS}: give a larger step_s"
        )
    lags_ms: Ints = np.rint(np.arange(-count, count + 1) * (1000 * step_s)).astype(np.int64)
    return lags_ms


def lead_lag(
    pairs: Sequence[tuple[Series, Series]], lags_ms: Ints, *, draws: int = 499, level: float = 0.95, seed: int = 0
) -> LeadLag:
    """Compare two sources over lags, against draws of one common path.

    Parameters
    ----------
    pairs
        Both sources' series of one side of each fixture, in the span that both cover, see ``overlapping``. Fixtures are
        independent: their covariances are added.
    lags_ms
        Lags from ``check_lags``.
    draws
        Number of draws of random signs, of one path and as many of two.
    level
        Level of the band, over all lags.
    seed
        Seed of the draws, which are the same in any order of the sources and of the fixtures.

    Raises
    ------
    StatisticsError
        There is no fixture, one has fewer than five updates of a source, a source never moves, or the work is too much.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> path = np.cumsum(rng.integers(-9, 10, 2_000))
    >>> times = np.arange(2_000) * 1_000
    >>> found = lead_lag([(Series.of(times, path), Series.of(times + 4_000, path))], check_lags(20, 1), draws=99)
    >>> found.lead_s, found.p_value
    (4.0, 0.01)
    """
    _check(pairs, len(lags_ms), draws)
    is_mirrored, ordered = _in_order(pairs)
    rng = np.random.default_rng(seed)
    looks = [_records_looks([pair[place] for pair in ordered]) for place in range(2)]
    kinds = list(product(*([_updates] if one else [_updates, _middles] for one in looks)))
    sums = [_Sums.empty(len(lags_ms), 1 + 2 * draws) for _ in kinds]
    block_ms = _BLOCK * int(lags_ms[-1])
    for first, second in ordered:
        for chosen, ours, theirs in _drawn(first, second, draws, rng):
            for one, (own, other) in zip(sums, kinds, strict=True):
                one.add(chosen, covariances(own(first), ours, other(second), theirs, lags_ms, block_ms))
    size = float(np.prod([np.sqrt(_squared_changes(ordered, place)) for place in range(2)]))
    interpretations = tuple(one.interpretation(size, level) for one in sums)
    if is_mirrored:
        interpretations = tuple(one.mirrored() for one in interpretations)
    leaders = {one.leader for one in interpretations}
    leader = leaders.pop() if len(leaders) == 1 else 0
    lead_s = leader * _largest_s(leader * lags_ms, interpretations[0].correlation) if leader else None
    return LeadLag(lags_ms / 1000, interpretations, lead_s, len(pairs), draws)


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """Covariances and their squared errors: a row for each lag; columns for the data, draws of one path, and draws of two."""

    covariance: Floats
    square: Floats

    @classmethod
    def empty(cls, lags: int, columns: int) -> _Sums:
        return cls(np.zeros((lags, columns)), np.zeros((lags, columns)))

    def add(self, chosen: slice, parts: Floats) -> None:
        """Add a fixture's blocks; those of one draw are its independent parts."""
        self.covariance[:, chosen] += parts.sum(axis=1)
        self.square[:, chosen] += ((parts - parts[::-1]) ** 2).sum(axis=1)

    def interpretation(self, size: float, level: float) -> Interpretation:
        difference, error = self.covariance - self.covariance[::-1], np.sqrt(self.square)
        ratio = np.divide(difference, error, out=np.zeros_like(error), where=error > _TIES)
        data, draws = ratio[:, 0], ratio.shape[1] // 2
        # The data are one of the draws here, so that each has the same chance of the largest deviation.
        common = _Null.of(ratio[:, : 1 + draws], ratio[:, : 1 + draws].mean(axis=1), level)
        apart = _Null.of(np.column_stack([data, ratio[:, 1 + draws :]]), np.zeros(len(data)), level)
        high = np.maximum(common.high, apart.high)
        low, scale, correlation = -high[::-1], error[:, 0] / size, self.covariance[:, 0] / size
        is_beyond = (data > high + _TIES) & (correlation > 0)
        asymmetry = difference[:, 0] / size
        place = int(np.argmax(np.where(is_beyond, asymmetry, -np.inf) if is_beyond.any() else data - high))
        return Interpretation(
            self.covariance[:, 0],
            correlation,
            asymmetry,
            low * scale,
            high * scale,
            max(common.p_value(place, data[place]), apart.p_value(place, data[place])),
            (1 if place > len(data) // 2 else -1) if is_beyond.any() else 0,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Null:
    """The ratios that draws give at each lag, and how far the farthest of each draw is from their middle."""

    middle: Floats
    width: Floats
    largest: Floats
    reach: float

    @classmethod
    def of(cls, ratio: Floats, middle: Floats, level: float) -> _Null:
        width = np.maximum(np.sqrt(((ratio - middle[:, None]) ** 2).mean(axis=1)), _TIES)
        largest = (np.abs(ratio - middle[:, None]) / width[:, None]).max(axis=0)
        return cls(middle, width, largest, np.sort(largest)[-1 - int((1 - level) * largest.size + _TIES)])

    @property
    def high(self) -> Floats:
        return self.middle + self.reach * self.width

    def p_value(self, place: int, ratio: float) -> float:
        deviation = (ratio - self.middle[place]) / self.width[place]
        return float(np.mean(self.largest >= deviation - _TIES))


def _records_looks(found: Sequence[Series]) -> bool:
    """Return whether a source repeats prices, so that its updates are all its looks."""
    return bool(np.concatenate([one.is_repeat for one in found]).mean() >= _REPEATED)


def _updates(found: Series) -> Ints:
    return found.ts_ms


def _middles(found: Series) -> Ints:
    """Return the middle of each time in which a price stood; the last one has no end."""
    return np.append((found.ts_ms[1:] + found.ts_ms[:-1]) // 2, found.ts_ms[-1:])


def _largest_s(lags_ms: Ints, correlation: Floats) -> float:
    """Return the middle of the lags above 0 with about the largest correlation, in seconds."""
    side, own = lags_ms[lags_ms > 0], correlation[lags_ms > 0]
    return float(side[own >= _FLAT * own.max()].mean()) / 1000


def covariances(first_ms: Ints, first: Floats, second_ms: Ints, second: Floats, lags_ms: Ints, block_ms: int) -> Floats:
    """Return covariances of Hayashi and Yoshida by lag, block of time and pair of paths.

    Parameters
    ----------
    first_ms, second_ms
        Times of the updates of each source, ascending, each once.
    first, second
        Values: a row for each update, a column for each path.
    lags_ms
        Lags; at one above 0 the first source's changes come before the second's.
    block_ms
        Length of the blocks; a product belongs to the block in which the change of the source with fewer updates ends.

    Examples
    --------
    >>> path = np.array([[0.0], [3.0], [1.0]])
    >>> covariances(np.array([0, 10, 20]), path, np.array([2, 12, 22]), path, np.array([-2, 2]), 99).ravel().tolist()
    [7.0, 13.0]
    """
    if len(first_ms) > len(second_ms):  # the sum runs over the changes of the source with fewer of them
        return covariances(second_ms, second, first_ms, first, -lags_ms, block_ms)
    changes, block = np.diff(first, axis=0), first_ms[1:] // block_ms
    starts = np.flatnonzero(np.diff(block, prepend=-1))
    found = np.empty((len(lags_ms), len(starts), first.shape[1]))
    for row, lag in enumerate(lags_ms):
        # the changes that overlap an interval sum to the value after its end less the value before its start
        after = np.minimum(np.searchsorted(second_ms, first_ms[1:] + lag), len(second_ms) - 1)
        before = np.maximum(np.searchsorted(second_ms, first_ms[:-1] + lag, side="right") - 1, 0)
        np.add.reduceat(changes * (second[after] - second[before]), starts, axis=0, out=found[row])
    return found


def _check(pairs: Sequence[tuple[Series, Series]], lags: int, draws: int) -> None:
    if not pairs:
        raise StatisticsError("no fixture has prices of both sources over one span")
    fewest = min(min(len(first.ts_ms), len(second.ts_ms)) for first, second in pairs)
    if fewest < FEWEST_UPDATES:
        raise StatisticsError(f"{fewest} updates of a source in a fixture are too few for a lag: {FEWEST_UPDATES} at least")
    updates = sum(len(first.ts_ms) + len(second.ts_ms) for first, second in pairs)
    if updates * lags * draws > MOST_WORK:
        raise StatisticsError(
            f"{updates:,} updates x {lags:,} lags x {draws:,} draws are more than {MOST_WORK:,}: "
            "name fewer fixtures, or choose larger steps or fewer draws"
        )
    for place, name in enumerate(("first", "second")):
        if not _squared_changes(pairs, place):
            raise StatisticsError(f"the price of the {name} source never changes while both have one, so it has no lag")


def _squared_changes(pairs: Sequence[tuple[Series, Series]], place: int) -> float:
    return sum(float((np.diff(pair[place].prob_bps) ** 2).sum()) for pair in pairs)


def _in_order(pairs: Sequence[tuple[Series, Series]]) -> tuple[bool, list[tuple[Series, Series]]]:
    """Return whether the sources are swapped, and the pairs in an order that their updates alone decide.

    So the sources in the other order have the same draws, and their figures are exactly the mirror image.
    """

    def key(one: Series) -> tuple[int, bytes, bytes, bytes]:
        return len(one.ts_ms), one.ts_ms.tobytes(), one.prob_bps.tobytes(), one.is_repeat.tobytes()

    own, other = (sorted(key(pair[place]) for pair in pairs) for place in range(2))
    is_mirrored = other < own
    ordered = [(second, first) if is_mirrored else (first, second) for first, second in pairs]
    return is_mirrored, sorted(ordered, key=lambda pair: (key(pair[0]), key(pair[1])))


def _drawn(first: Series, second: Series, draws: int, rng: np.random.Generator) -> Iterator[tuple[slice, Floats, Floats]]:
    """Yield both sources' values, a column for each path: the data in the first one, then draws in parts."""
    ours, theirs = first.prob_bps.astype(np.float64), second.prob_bps.astype(np.float64)
    yield slice(0, 1), ours[:, None], theirs[:, None]
    times = np.union1d(first.ts_ms, second.ts_ms)
    own, other = np.searchsorted(times, first.ts_ms), np.searchsorted(times, second.ts_ms)
    common = _common(times, own, ours, other, theirs - _offset(first, second))
    step = max(_AT_ONCE // len(times), 1)
    for start in range(1, draws + 1, step):
        count = min(start + step, draws + 1) - start
        path = _signed(common, count, rng)
        yield slice(start, start + count), path[own], path[other]
        apart = slice(draws + start, draws + start + count)
        yield apart, _signed(ours, count, rng), _signed(theirs, count, rng)


def _signed(values: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Return paths whose changes have the sizes of these and random signs, a column for each."""
    signs = 2 * rng.integers(0, 2, (len(values) - 1, count), dtype=np.int8) - 1
    paths = np.zeros((len(values), count))
    np.cumsum(np.diff(values)[:, None] * signs, axis=0, out=paths[1:])
    return paths


def _common(times: Ints, own: Ints, ours: Floats, other: Ints, theirs: Floats) -> Floats:
    """Return the path of all updates of both sources in one order; at a common time the mean of both."""
    total, count = np.zeros(len(times)), np.zeros(len(times))
    for places, values in ((own, ours), (other, theirs)):
        total[places] += values
        count[places] += 1
    return total / count


def _offset(first: Series, second: Series) -> float:
    """Return by how much the second source stands above the first: the median at updates of the one that has fewer."""
    if len(first.ts_ms) < len(second.ts_ms):
        return -_offset(second, first)
    place = np.searchsorted(first.ts_ms, second.ts_ms, side="right") - 1
    known = place >= 0
    return float(np.median(second.prob_bps[known] - first.prob_bps[place[known]])) if known.any() else 0.0
