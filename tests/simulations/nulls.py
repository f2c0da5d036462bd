"""Exact martingales of the shapes that prices have: whatever is decided on them has no edge.

The judge of every p that is announced: it was written down before the method that it judges, and names no part of it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import expit, logit, ndtr

from clvlab.statistics import Clusters, family_of

SHAPES = ("favourites", "longshots", "totals", "handicaps", "news", "creeping")
SIZES = ("equal", "pareto")
FIXTURES = (60, 120, 300, 1_000)
POINTS = (1, 20, 100)
TIMES = (1, 4)  # decisions of a fixture, at different prices of one side
_SPREAD = {"totals": 0.3, "handicaps": 0.15}  # of latent strengths, whose share of 1 is known at first
_STRENGTH, _KNOWN, _QUIET, _NEWS, _NEWS_SHARE = 1.4, 0.5, 0.12, 0.8, 0.1
_FALL_SHARE, _FALL, _STEP = 1 / 30, 0.4, 0.2
_LARGEST = 60
Floats = np.ndarray


@dataclass(frozen=True, slots=True)
class Null:
    """A cell of the grid.

    Attributes
    ----------
    shape
        Of prices.
    sizes
        Whether each time a fixture is decided on counts once, or as often as a Pareto draw says.
    fixtures, points, times
        How many; ``times`` is at how many prices a fixture may be decided on.
    """

    shape: str
    sizes: str
    fixtures: int
    points: int
    times: int

    def __str__(self) -> str:
        return f"{self.shape} {self.sizes} {self.fixtures} x {self.points} x {self.times}"


def grid() -> Iterator[Null]:
    """Yield every cell."""
    for shape, sizes, fixtures, points, times in product(SHAPES, SIZES, FIXTURES, POINTS, TIMES):
        yield Null(shape, sizes, fixtures, points, times)


@dataclass(frozen=True, slots=True)
class Decided:
    """What several agents decided on one draw of prices.

    Attributes
    ----------
    entry, close
        Probability of the side that is backed when it can be decided on, and at the close: float64, 0..1, (fixtures, times).
    size
        How many decisions are made there, by whoever makes one: float64, (fixtures, 1).
    made
        Who makes one: bool, (fixtures, times, points).
    """

    entry: Floats
    close: Floats
    size: Floats
    made: Floats

    @property
    def counts(self) -> Floats:
        """Decisions by fixture and point."""
        return np.einsum("ft,ftp->fp", self.size * np.ones_like(self.entry), self.made.astype(float))

    @property
    def sums(self) -> Floats:
        """Gained by fixture and point."""
        return np.einsum("ft,ftp->fp", self.size * (self.close - self.entry), self.made.astype(float))

    @property
    def squares(self) -> Floats:
        return np.einsum("ft,ftp->fp", self.size * (self.close - self.entry) ** 2, self.made.astype(float))


def drawn(null: Null, rng: np.random.Generator, edge: float = 0.0) -> Decided:
    """Draw prices, and what is decided on them.

    ``edge`` is how much more every decision gains, in pooled standard errors: of the mean of all that the first point decides,
    were they independent.
    """
    path = paths(null.shape, null.fixtures, null.times, rng)  # of the first side, the close last
    first = path[:, :1] >= 0.5
    path = np.where(first == (null.shape != "longshots"), path, 1 - path)
    entry, close = path[:, :-1], np.repeat(path[:, -1:], null.times, axis=1)
    low, high = (0.5, 0.6) if null.shape in _SPREAD else (0.6, 0.97)
    strength = 1 - entry if null.shape == "longshots" else entry
    thresholds = np.linspace(low, high, min(null.points, 20)) if null.points > 1 else np.array([low if low == 0.5 else 0.8])
    made = np.repeat(strength[:, :, None] >= thresholds, max(1, null.points // 20), axis=2)
    if null.points > 20:  # each threshold on halves of the fixtures, too
        halves = rng.random((null.fixtures, 1, null.points)) < 0.5
        halves[:, :, :: null.points // 20] = True
        made = made & halves
    pareto = np.minimum(np.ceil(rng.pareto(1.5, (null.fixtures, 1)) + 0.01), _LARGEST)
    size = pareto if null.sizes == "pareto" else np.ones((null.fixtures, 1))
    if edge:
        moves = (close - entry)[made[:, :, 0]]
        close = close + edge * moves.std() / np.sqrt(max(1, made[:, 0, 0].sum()))
    return Decided(entry, close, size, made)


def paths(shape: str, fixtures: int, times: int, rng: np.random.Generator) -> Floats:
    """Probability of one side at each time, and at the close last: float64, (fixtures, times + 1), each row a martingale."""
    if shape == "handicaps":
        return _stepping(fixtures, times, rng)
    strength = rng.normal(0, _SPREAD.get(shape, _STRENGTH), (fixtures, 1))
    if shape == "creeping":
        return _creeping(ndtr(strength), times, rng)
    news = np.full((fixtures, 1), _KNOWN)
    if shape == "news":  # most fixtures are quiet
        news = np.where(rng.random((fixtures, 1)) < _NEWS_SHARE, _NEWS, _QUIET)
    steps = rng.standard_normal((fixtures, times)) * news / np.sqrt(times)
    known = np.arange(times + 1) * news**2 / times  # variance of what was learnt, of 1 in all
    learnt = np.concatenate([np.zeros((fixtures, 1)), steps.cumsum(1)], axis=1)
    return ndtr((strength + learnt) / np.sqrt(1 - known))


def _stepping(fixtures: int, times: int, rng: np.random.Generator) -> Floats:
    """Prices near one half that go up and down by a step on the scale of log-odds, with the chance that makes it fair."""
    path = [expit(logit(np.clip(ndtr(rng.normal(0, _SPREAD["handicaps"], fixtures)), 0.3, 0.7)))]
    for _ in range(times):
        now = path[-1]
        moves = rng.random(fixtures) < 0.4
        up, down = expit(logit(now) + _STEP), expit(logit(now) - _STEP)
        rises = rng.random(fixtures) < (now - down) / (up - down)
        path.append(np.where(moves, np.where(rises, up, down), now))
    return np.column_stack(path)


def _creeping(first: Floats, times: int, rng: np.random.Generator) -> Floats:
    """One favourite in thirty loses 20 to 40 % of its price, the others rise by as much in all."""
    path = [np.maximum(first, 1 - first)[:, 0]]
    share = _FALL_SHARE / times
    for _ in range(times):
        now = path[-1]
        scale = rng.uniform(0.5, 1, len(now))
        rise = np.clip(1 - 1e-6 - now, 0, _FALL * now * share / (1 - share))
        falls = rng.random(len(now)) < share
        path.append(now + scale * np.where(falls, -rise * (1 - share) / share, rise))
    favourite = np.column_stack(path)
    return np.where(first >= 0.5, favourite, 1 - favourite)


def announced(null: Null, rounds: int, seed: int = 1, edge: float = 0.0) -> float:
    """Return in which share of draws an edge is announced at 5 % for any point; every draw has a generator of its own."""
    cell = [null.fixtures, null.points, null.times, SHAPES.index(null.shape), SIZES.index(null.sizes)]
    found = 0
    for number in range(rounds):
        made = drawn(null, np.random.default_rng([seed, number, *cell]), edge)
        p_values = family_of(Clusters(made.sums, made.counts, made.squares), resamples=999, seed=number).p_values
        found += bool((p_values <= 0.05).any())  # a point that is not judged has none
    return found / rounds


STATED = (*(Null(shape, "equal", 120, 20, 1) for shape in SHAPES), *(Null(SHAPES[at], "equal", 120, 1, 1) for at in (0, -1)))


def main() -> None:
    """``python -m tests.simulations.nulls``: how often an edge is announced where there is none."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--rounds", type=int, default=1_000)
    parser.add_argument("--whole", action="store_true", help="The whole grid, not the cells that docs state: a night's work.")
    parser.add_argument("--edge", type=float, default=0.0, help="A true edge, in pooled standard errors.")
    asked = parser.parse_args()
    for null in grid() if asked.whole else STATED:
        sys.stdout.write(f"{null}: {announced(null, asked.rounds, edge=asked.edge):.3f}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
