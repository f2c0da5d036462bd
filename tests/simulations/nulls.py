"""Exact martingales of the shapes that prices have: whatever is decided on them has no edge.

The judge of every p that is announced: it was written down before the method that it judges, and names no part of it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product

import numpy as np
from scipy.special import expit, logit, ndtr

from clvlab.report.cautions import MAX_SKEWNESS
from clvlab.statistics import MIN_CLUSTERS, BoundedClusters, cluster_errors, estimates, family_of, mean_skewness
from clvlab.statistics.means import normal_score

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

    def clusters(self, by: str = "clv") -> BoundedClusters:
        """Sums by fixture and point, of probability gained or, by ``price_ratio``, of the price gained for each one paid."""
        paid = np.ones_like(self.entry) if by == "clv" else self.entry
        gained, lowest, highest = ((close - self.entry) / paid for close in (self.close, 0, 1))
        made = self.made.astype(float)
        return BoundedClusters(
            *(np.einsum("ft,ftp->fp", self.size * one, made) for one in (gained, gained**0, gained**2, lowest, highest))
        )


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


def p_of_family(clusters: BoundedClusters, seed: int) -> float:
    """The lowest p of all points; 1 where none is judged."""
    return float(np.nanmin(family_of(clusters, resamples=999, seed=seed).p_values, initial=1))


def p_worst(clusters: BoundedClusters, seed: int) -> float:
    """The same if what nobody saw loses its whole price."""
    return float(np.nanmin(family_of(clusters, resamples=999, seed=seed).p_worst, initial=1))


def p_of_best(clusters: BoundedClusters, seed: int) -> float:
    """The p of the point with the highest score, the others on record as so many strangers."""
    scores = family_of(clusters, resamples=99, seed=seed).scores
    if np.isnan(scores).all():
        return 1.0
    best = clusters.columns(np.array([np.nanargmax(scores)]))
    return float(family_of(best, earlier=len(scores) - 1, resamples=999, seed=seed).p_values[0])


def p_by_normals(clusters: BoundedClusters, seed: int) -> float:
    """What it was before: the highest t by normal multipliers, which take each sample for what it shows."""
    found = cluster_errors(clusters)
    own = np.flatnonzero(((clusters.counts > 0).sum(0) >= MIN_CLUSTERS) & (found.errors > 0))
    if not own.size:
        return 1.0
    highest = normal_score(found.degrees[own], found.means[own] / found.errors[own]).max()
    drawn = np.random.default_rng(seed).standard_normal((999, len(clusters.sums))) @ (
        found.residuals[:, own] / found.errors[own]
    )
    return float((1 + (drawn.max(1) >= highest).sum()) / 1_000)


def p_alone(clusters: BoundedClusters, seed: int) -> float:  # noqa: ARG001  it draws nothing
    """The p of the t of the first point."""
    found = estimates(clusters)[0].p_value
    return 1.0 if found is None else found


def p_without_caution(clusters: BoundedClusters, seed: int) -> float:
    """The same, 1 where a tear sheet says that the mean is skewed."""
    return p_alone(clusters, seed) if abs(mean_skewness(clusters)[0]) <= MAX_SKEWNESS else 1.0


JUDGES = {
    "family": p_of_family, "worst": p_worst, "on record": p_of_best, "before": p_by_normals, "alone": p_alone,
    "alone, without caution": p_without_caution,
}  # fmt: skip


def announced(null: Null, rounds: int, seed: int = 1, edge: float = 0.0, *, judge: str = "family", by: str = "clv") -> float:
    """Return in which share of draws an edge is announced at 5 % for any point; every draw has a generator of its own."""
    cell = [null.fixtures, null.points, null.times, SHAPES.index(null.shape), SIZES.index(null.sizes)]
    each = (drawn(null, np.random.default_rng([seed, number, *cell]), edge).clusters(by) for number in range(rounds))
    return sum(JUDGES[judge](clusters, number) <= 0.05 for number, clusters in enumerate(each)) / rounds


def held(null: Null, judge: str = "family", by: str = "clv") -> tuple[float, bool]:
    """Return how often an edge is announced, and whether that is rarely enough.

    Of 1,000 draws at most 64 may announce one; where more do, at most 560 of 10,000 fresh ones.
    """
    share = announced(null, 1_000, judge=judge, by=by)
    if share <= 0.064:
        return share, True
    again = announced(null, 10_000, seed=2, judge=judge, by=by)
    return again, again <= 0.056


STATED = (*(Null(shape, "equal", 120, 20, 1) for shape in SHAPES), *(Null(SHAPES[at], "equal", 120, 1, 1) for at in (0, -1)))
POWER = tuple(
    Null(shape, "equal", fixtures, 20, 1) for shape, fixtures in (("favourites", 120), ("favourites", 300), ("totals", 120))
)


def table(rounds: int) -> str:
    """What is announced in the cells that docs state, and how often a true edge is found."""
    lines = [f"an edge is announced at 5 % where there is none, {rounds:,} draws | before | now | whole price lost"]
    lines += [
        f"{null} | " + " | ".join(f"{announced(null, rounds, judge=judge):.3f}" for judge in ("before", "family", "worst"))
        for null in STATED
    ]
    lines += ["a true edge of 3 pooled standard errors is found | before | now | whole price lost"]
    lines += [
        f"{null} | "
        + " | ".join(f"{announced(null, rounds, edge=3, judge=judge):.3f}" for judge in ("before", "family", "worst"))
        for null in POWER
    ]
    return "\n".join(lines)


def main() -> int:
    """``python -m tests.simulations.nulls``: how often an edge is announced where there is none."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--rounds", type=int, default=1_000, help="For what docs state.")
    parser.add_argument(
        "--whole", action="store_true", help="Hold every cell of the grid to its bounds instead: a night's work."
    )
    parser.add_argument("--part", default="1/1", help="Of the whole grid, as 2/8: every eighth cell, from the second on.")
    parser.add_argument("--judge", choices=JUDGES, default="family")
    parser.add_argument("--by", choices=("clv", "price_ratio"), default="clv")
    asked = parser.parse_args()
    if not asked.whole:
        sys.stdout.write(table(asked.rounds) + "\n")
        return 0
    first, parts = map(int, asked.part.split("/"))
    failed = 0
    for null in islice(grid(), first - 1, None, parts):
        share, passed = held(null, asked.judge, asked.by)
        failed += not passed
        sys.stdout.write(f"{null}: {share:.4f}{'' if passed else ' too often'}\n")
        sys.stdout.flush()
    return min(failed, 1)


if __name__ == "__main__":
    raise SystemExit(main())
