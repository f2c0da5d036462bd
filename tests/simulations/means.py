"""Means whose truth is 0, over fixtures that differ in size and in how their values are spread."""

from __future__ import annotations

import math

import numpy as np

from clvlab.statistics import Clusters, estimates, sign_flip_p_values

SIZES = ("equal", "pareto")
ERRORS = ("normal", "t3", "lognormal")
FIXTURES = (5, 10, 30, 100)
SKEWNESS = (-0.3, -0.12, -0.05, 0.05, 0.12, 0.3)
_LARGEST = 2_000


def fixtures_of(rng: np.random.Generator, fixtures: int, sizes: str, errors: str) -> tuple[np.ndarray, np.ndarray]:
    """Sums and counts of some fixtures: each value is a part that its fixture shares and one of its own, of equal variance."""
    pareto = np.maximum(1, np.round(rng.pareto(1.2, fixtures) * 3 + 1)).astype(int)
    counts = np.full(fixtures, 10) if sizes == "equal" else np.minimum(pareto, _LARGEST)
    shared, own = _errors(rng, errors, fixtures), _errors(rng, errors, int(counts.sum()))
    return counts * shared + np.add.reduceat(own, np.append(0, counts.cumsum()[:-1])), counts.astype(float)


def _errors(rng: np.random.Generator, errors: str, count: int) -> np.ndarray:
    if errors == "normal":
        return rng.normal(0, 1, count)
    if errors == "t3":
        return rng.standard_t(3, count) / math.sqrt(3)
    return (rng.lognormal(0, 1, count) - math.exp(0.5)) / math.sqrt((math.e - 1) * math.e)


def drawn(rounds: int, fixtures: int, sizes: str, errors: str, seed: int = 1) -> Clusters:
    """A column a round."""
    rng = np.random.default_rng(seed)
    sums, counts = (
        np.column_stack(part) for part in zip(*(fixtures_of(rng, fixtures, sizes, errors) for _ in range(rounds)), strict=True)
    )
    return Clusters(sums, counts, sums**2)


def coverage(clusters: Clusters) -> float:
    """How often the interval of 95 % holds 0."""
    return float(np.mean([one.low <= 0 <= one.high for one in estimates(clusters)]))


def flip_size(clusters: Clusters, resamples: int = 999) -> float:
    """How often the sign flips reject at 5 %."""
    return float(np.mean(sign_flip_p_values(clusters, resamples=resamples) <= 0.05))


def one_sided(rounds: int, skewness: float, fixtures: int = 100, seed: int = 1) -> tuple[float, float]:
    """How often a mean of 0, as skewed as is said, is told above zero at 5 %, one-sided, and how often below."""
    shape = 4 / (skewness**2 * fixtures)  # of the gamma values of fixtures
    values = np.sign(skewness) * (np.random.default_rng(seed).gamma(shape, 1, (fixtures, rounds)) - shape)
    p_values = np.array([one.p_value for one in estimates(Clusters(values, np.ones_like(values), values**2))])
    return float(np.mean(p_values <= 0.05)), float(np.mean(p_values >= 0.95))


def skewed_table(rounds: int) -> str:
    """The errors to both sides by skewness of the mean."""
    lines = [f"{rounds:,} rounds, 100 fixtures: skewness of the mean | told above zero at 5 %, one-sided | below"]
    each = ((skewness, *one_sided(rounds, skewness)) for skewness in SKEWNESS)
    return "\n".join([*lines, *(f"{skewness:+.2f} | {above:.3f} | {below:.3f}" for skewness, above, below in each)])


def table(rounds: int) -> str:
    """Coverage and size in all cells."""
    lines = [f"{rounds:,} rounds a cell | coverage of 95 % with {', '.join(map(str, FIXTURES))} fixtures | sign flips at 5 %"]
    for sizes in SIZES:
        for errors in ERRORS:
            cells = [drawn(rounds, fixtures, sizes, errors) for fixtures in FIXTURES]
            held, size = (" ".join(f"{of(cell):.3f}" for cell in cells) for of in (coverage, flip_size))
            lines.append(f"{sizes} sizes, {errors} | {held} | {size}")
    return "\n".join(lines)
