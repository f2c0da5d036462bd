"""Power at the number of fixtures that was announced, where the edge and the shape of fixtures are known.

The judge of `clvlab.statistics.power`: it draws fixtures by itself, and takes from the method only how many are announced, from
clvlab the interval that has to lie above zero.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from itertools import product

import numpy as np

from clvlab.statistics import BoundedClusters, Clusters, cluster_errors, estimates, family_of
from clvlab.statistics.means import two_sided_quantile
from clvlab.statistics.power import MeanErrors, mean_errors, powers

SIZES = ("equal", "gamma", "pareto", "endless")
ERRORS = ("normal", "t3", "lognormal", "autocorrelated")
FIXTURES = (20, 60, 200)
TIMES = (1.5, 4)
_MOST = 60  # decisions of a fixture, but for endless sizes
_KEPT = 0.8  # of the deviation of a decision that the next one of the fixture keeps
_NORMAL = 1.959963984540054  # of two-sided 95 %
_SEASON_ERROR, _EDGE = 18.0, 34.0  # bps: of the points of a season, and the edge


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of fixtures, and how their values are spread."""

    sizes: str
    errors: str

    def drawn(self, rng: np.random.Generator, fixtures: int) -> tuple[np.ndarray, np.ndarray]:
        """Sums and counts of fixtures whose mean is 0: each value is a part that its fixture shares and one of its own."""
        counts = self.counts(rng, fixtures)
        shared = self._errors(rng, (fixtures,))
        if self.sizes == "endless":  # own parts of thousands of decisions: their sum is normal
            return counts * shared + np.sqrt(counts) * rng.normal(0, 1, fixtures), counts
        own = self._errors(rng, (fixtures, int(counts.max())))
        if self.errors == "autocorrelated":
            for at in range(1, own.shape[1]):
                own[:, at] = _KEPT * own[:, at - 1] + np.sqrt(1 - _KEPT**2) * own[:, at]
        own[np.arange(own.shape[1]) >= counts[:, None]] = 0
        return counts * shared + own.sum(1), counts

    def counts(self, rng: np.random.Generator, fixtures: int) -> np.ndarray:
        if self.sizes == "equal":
            return np.full(fixtures, 10.0)
        if self.sizes == "gamma":
            return np.clip(np.ceil(rng.gamma(1.0, 10.0, fixtures)), 1, _MOST)
        if self.sizes == "pareto":
            return np.minimum(np.ceil(rng.pareto(1.5, fixtures) * 3 + 0.01), _MOST)
        return np.ceil(rng.pareto(1.2, fixtures) * 3 + 0.01)

    def _errors(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        if self.errors == "t3":
            return rng.standard_t(3, shape) / np.sqrt(3)
        if self.errors == "lognormal":
            return (rng.lognormal(0, 1, shape) - np.exp(0.5)) / np.sqrt((np.e - 1) * np.e)
        return rng.normal(0, 1, shape)

    def __str__(self) -> str:
        return f"{self.sizes} sizes, {self.errors}"


def known_error(shape: Shape, fixtures: int, rounds: int = 4_000, seed: int = 9) -> tuple[float, float]:
    """The error of a mean over so many fixtures, which is known from many draws, and its degrees of freedom."""
    rng = np.random.default_rng(seed)
    sums, counts = (np.column_stack(part) for part in zip(*(shape.drawn(rng, fixtures) for _ in range(rounds)), strict=True))
    found = cluster_errors(Clusters(sums, counts, sums**2))
    return float(found.means.std()), float(found.degrees.mean())


def announced(error: float, degrees: float, fixtures: int, edge: float) -> int:
    """How many fixtures in all are announced to show an edge."""
    error, degrees, n = (np.array([one]) for one in (error, degrees, float(fixtures)))
    return powers(MeanErrors(error, degrees, degrees, n, _NORMAL), [edge])[0].needed


def shows(parts: list[tuple[np.ndarray, np.ndarray]], edge: float) -> bool:
    """Whether the interval over all fixtures lies above zero where every decision gains an edge more than was drawn."""
    sums, counts = (np.concatenate(part)[:, None] for part in zip(*parts, strict=True))
    found = cluster_errors(Clusters(sums + edge * counts, counts, sums**2))
    return bool(found.means[0] > two_sided_quantile(found.degrees, 0.95)[0] * found.errors[0])


def at_known_error(shape: Shape, fixtures: int, times: float, rounds: int, seed: int = 1) -> tuple[float, int]:
    """Power at what is announced where the error of some fixtures is known: share of fresh draws, and the fixtures of them."""
    error, degrees = known_error(shape, fixtures)
    edge = 2.8 * error / np.sqrt(times)
    needed = announced(error, degrees, fixtures, edge)
    rng = np.random.default_rng(seed)
    return float(np.mean([shows([shape.drawn(rng, needed)], edge) for _ in range(rounds)])), needed


def after_pilot(shape: Shape, fixtures: int, times: float, rounds: int, seed: int = 2) -> tuple[float, float]:
    """Power where each draw announces from the error of its own fixtures, and adds as many: share of draws, and by the range.

    The second figure says how often the number that the known error announces lies in the range of a draw.
    """
    error, degrees = known_error(shape, fixtures)
    edge = 2.8 * error / np.sqrt(times)
    truth = announced(error, degrees, fixtures, edge)
    rng, found, held = np.random.default_rng(seed), 0, 0
    for _ in range(rounds):
        first = shape.drawn(rng, fixtures)
        sums, counts = (part[:, None] for part in first)
        (one,) = powers(mean_errors(Clusters(sums, counts, sums**2), _NORMAL), [edge])
        held += one.more_low <= max(0, truth - fixtures) <= one.more_high
        found += shows([first, shape.drawn(rng, one.more)] if one.more else [first], edge)
    return found / rounds, held / rounds


def season(
    rng: np.random.Generator, points: int, correlation: float, fixtures: int = 300, error: float = _SEASON_ERROR
) -> BoundedClusters:
    """Points of a search with the error of a season, correlated by fixtures; the first one has the edge of 34 bps."""
    shared = rng.normal(0, 1, (fixtures, 1))
    sums = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * rng.normal(0, 1, (fixtures, points))
    sums *= error * np.sqrt(fixtures)
    sums[:, 0] += _EDGE
    ones = np.ones_like(sums)
    return BoundedClusters(sums, ones, sums**2, -5_000 * ones, 5_000 * ones)


def found_in_season(points: int, correlation: float, rounds: int, seed: int = 1) -> tuple[float, float]:
    """How often the point with an edge is announced, by `p_family` at 5 % and by its own two-sided interval."""
    rng, family, own = np.random.default_rng(seed), 0, 0
    for number in range(rounds):
        drawn = season(rng, points, correlation)
        family += family_of(drawn, resamples=999, seed=number).p_values[0] < 0.05
        own += estimates(drawn)[0].low > 0
    return family / rounds, own / rounds


def family_at_announced(
    points: int, correlation: float, rounds: int, *, fixtures: int = 60, seed: int = 1
) -> tuple[float, int]:
    """Power of `p_family` at the fixtures that a search announces for its first point, whose error is known."""
    rng, n = np.random.default_rng(seed), np.array([float(fixtures)])
    family = family_of(season(rng, points, correlation, fixtures), resamples=4_999)
    error, degrees = np.array([_SEASON_ERROR]), n - 1
    known = MeanErrors(error, degrees, degrees, n, family.threshold(0.05), 1 / n, -family.losses[:1] / n)
    needed = powers(known, [_EDGE])[0].needed
    fresh = (season(rng, points, correlation, needed, _SEASON_ERROR * np.sqrt(fixtures / needed)) for _ in range(rounds))
    found = [family_of(one, resamples=999, seed=number).p_values[0] < 0.05 for number, one in enumerate(fresh)]
    return float(np.mean(found)), needed


def season_table(rounds: int) -> str:
    """How often 34 bps are found at the error of a season, by points and their correlation."""
    lines = [f"{_EDGE:g} bps at an error of {_SEASON_ERROR:g}, {rounds:,} draws: points, correlation | p_family | own interval"]
    cells = [(1, 0.0), *product((9, 50), (0.95, 0.5, 0.0))]
    for points, correlation in cells:
        family, own = found_in_season(points, correlation, rounds)
        lines.append(f"{points}, {correlation:g} | {family:.2f} | {own:.2f}")
    return "\n".join(lines)


def family_table(rounds: int) -> str:
    """Power of `p_family` at the fixtures that a search of 60 announces."""
    lines = [f"{rounds:,} draws: points, correlation | power of p_family at what is announced | fixtures announced"]
    for points, correlation in ((1, 0.0), (9, 0.95), (9, 0.0), (50, 0.95), (50, 0.5), (50, 0.0)):
        found, needed = family_at_announced(points, correlation, rounds)
        lines.append(f"{points}, {correlation:g} | {found:.2f} | {needed}")
    return "\n".join(lines)


def table(rounds: int) -> str:
    """Power at what is announced in all cells."""
    lines = [
        f"{rounds:,} draws: sizes, errors | power at the known error, {', '.join(map(str, FIXTURES))} fixtures "
        "| from own error | range holds the known number"
    ]
    for sizes, errors in product(SIZES, ERRORS):
        shape = Shape(sizes, errors)
        known = [at_known_error(shape, fixtures, 4, rounds)[0] for fixtures in FIXTURES]
        own = [after_pilot(shape, fixtures, 4, rounds) for fixtures in FIXTURES]
        texts = (" ".join(f"{value:.2f}" for value in part) for part in (known, *zip(*own, strict=True)))
        lines.append(f"{shape} | " + " | ".join(texts))
    return "\n".join(lines)


def main() -> int:
    """``python -m tests.simulations.powers``: power at the number of fixtures that is announced."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--rounds", type=int, default=2_000)
    rounds = parser.parse_args().rounds
    sys.stdout.write(f"{season_table(rounds)}\n\n{family_table(rounds)}\n\n{table(rounds)}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
