"""Hidden numbers of synthetic fixtures: walks of integers, and what a market that forgets how it got here expects of them.

A hidden number is the sum of a start, of noise, and of news that is taken in over several messages, so that its steps are a
trend while news arrives. At each message only its present level is quoted: the forecast of where it ends is the conditional
expectation given that level, and given which messages bring news, but not given the levels before. So the forecast, and every
probability made of it, is right on average for whoever looks at the present alone, and too slow for whoever looks back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clvlab.odds.logit import MICRO
from clvlab.odds.probit import Ints, normal_bps

Flags = npt.NDArray[np.bool_]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)

PLAY_NOISE = 5
"""Noise of a message in play, in times of that before."""


class Dice:
    """SplitMix64: integers that depend on seed and stream alone.

    Both are mixed before they become the state: added to it, they would make neighbouring seeds run the same course, a step
    apart.

    References
    ----------
    Steele, Lea and Flood (2014), "Fast Splittable Pseudorandom Number Generators", OOPSLA; the mixing is Stafford's variant 13.
    """

    def __init__(self, seed: int, stream: int) -> None:
        root = _mixed(np.array([seed], dtype=np.uint64))
        self._state = int(_mixed(root + np.uint64(stream))[0])

    def below(self, bound: int, n: int) -> Ints:
        """Draw ``n`` integers of 0 .. bound - 1."""
        steps = np.arange(1, n + 1, dtype=np.uint64) * _GOLDEN + np.uint64(self._state)
        self._state = int(steps[-1]) if n else self._state
        return np.asarray(_mixed(steps) >> np.uint64(11), dtype=np.int64) % bound

    def bell(self, scale: int, n: int) -> Ints:
        """Draw ``n`` integers, as often below 0 as above, with a standard deviation of ``scale``: sums of twelve uniforms."""
        total = (self.below(2 * scale + 1, 12 * n) - scale).reshape(n, 12).sum(axis=1)
        return np.asarray(np.sign(total) * (np.abs(total) // 2))  # not total // 2: rounding down would be a drift


def _mixed(z: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@dataclass(frozen=True, slots=True)
class Hidden:
    """A hidden number and its forecast, in millionths of the standard deviation that play still adds at kickoff.

    Attributes
    ----------
    forecast
        Expectation of ``end``, given the level at each message.
    error
        Standard deviation of ``end`` about it.
    end
        Where the number ends; it settles the markets.
    """

    forecast: Ints
    error: Ints
    end: int

    def chance_bps(self, offset: int, at: Ints) -> Ints:
        """Return the chance, in basis points, that the number ends above ``-offset``, at some messages."""
        return normal_bps((self.forecast[at] + offset) * MICRO // self.error[at])


@dataclass(frozen=True, slots=True)
class News:
    """When news comes, and how it is taken in.

    Attributes
    ----------
    arrives
        Which messages bring a piece.
    takes
        Messages over which a piece is taken in, in equal parts, the one that brings it included.
    step
        Standard deviation of such a part.
    """

    arrives: Flags
    takes: int
    step: int


def hidden_number(start: int, noise: int, news: News, played: int, dice: Dice) -> Hidden:
    """Draw a hidden number.

    Parameters
    ----------
    start, noise
        Standard deviation of the start, and of the noise of a message before kickoff.
    news
        One flag per message.
    played
        How many of the messages are in play, where noise is ``PLAY_NOISE`` times as large. From kickoff to its end the number
        moves by a standard deviation of ``MICRO`` in all.
    dice
        Where chance comes from.

    References
    ----------
    The forecast is the regression of jointly normal variables: with V the variance of the level and C its covariance with the
    end, E = level x C / V, and the error's variance is Var(end) - C x C / V. The sums of twelve uniforms are normal enough.
    """
    pieces = news.arrives.astype(np.int64)
    parts = np.zeros_like(pieces)
    parts[news.arrives] = dice.bell(news.step, int(pieces.sum()))
    times = np.ones_like(pieces)
    times[len(times) - played :] = PLAY_NOISE
    level = dice.bell(start, 1)[0] + np.cumsum(dice.bell(noise, len(times)) * times + _over_next(parts, news.takes))
    # Variances in millionths. Of a piece of news k of ``takes`` parts are in: k x k count in V, k x takes in C.
    at_once = start * start + noise * noise * np.cumsum(times * times)
    arriving = _over_next(pieces, news.takes)
    taken_in = np.cumsum(arriving - news.takes * _later(pieces, news.takes))  # k, over the pieces that are arriving
    own = (at_once + news.step**2 * np.cumsum(2 * taken_in - arriving)) // MICRO  # k x k is the sum of 2 k - 1
    shared = (at_once + news.step**2 * news.takes * np.cumsum(arriving)) // MICRO
    rest = MICRO - played * (PLAY_NOISE * noise) ** 2 // MICRO
    forecast = level + level * (shared - own) // own
    error = (int(shared[-1]) + rest - shared - shared * (shared - own) // own) * MICRO
    # A square root is rounded alike on every machine: IEEE 754.
    return Hidden(forecast, np.sqrt(error).astype(np.int64), int(level[-1]) + int(dice.bell(int(np.sqrt(rest * MICRO)), 1)[0]))


def _over_next(values: Ints, messages: int) -> Ints:
    """Let each value count in its own message and those after it, so many in all."""
    return np.cumsum(values - _later(values, messages))


def _later(values: Ints, messages: int) -> Ints:
    return np.concatenate([np.zeros(messages, dtype=np.int64), values])[: len(values)]
