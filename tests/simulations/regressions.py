"""Regressions whose coefficients are known, over fixtures of designs that the method did not choose.

The judge of `clvlab.statistics.regression`: coverage of each interval, and how often any coefficient of 0 is announced by Holm.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from itertools import product

import numpy as np
import polars as pl

from clvlab.statistics.regression import coefficients

DESIGNS = ("within", "between", "few", "leverage")
SIZES = ("equal", "pareto")
ERRORS = ("normal", "t3", "uneven")
FIXTURES = (6, 12, 30, 100)
NAMES = ("intercept", "x", "group")
_MOST = 60


@dataclass(frozen=True, slots=True)
class Cell:
    """Where a number `x` and a group vary, sizes of fixtures, and errors.

    Attributes
    ----------
    design
        `within`: both vary in each fixture; `between`: one value a fixture; `few`: a sixth of the fixtures are of the group;
        `leverage`: `x` is lognormal and one value a fixture.
    errors
        A part that a fixture shares and one of its own: normal, Student's t with 3, or `uneven`: normal, larger where `x` is.
    """

    design: str
    sizes: str
    errors: str
    fixtures: int

    def drawn(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Response, columns and fixture of each row; all coefficients are 0."""
        sizes = np.full(self.fixtures, 8)
        if self.sizes == "pareto":
            sizes = np.minimum(np.ceil(rng.pareto(1.5, self.fixtures) * 3 + 0.01), _MOST).astype(int)
        ids = np.repeat(np.arange(self.fixtures), sizes)
        x = rng.normal(0, 1, ids.size) if self.design == "within" else rng.normal(0, 1, self.fixtures)[ids]
        if self.design == "leverage":
            x = rng.lognormal(0, 1, self.fixtures)[ids]
        share = 6 if self.design == "few" else 2
        group = (np.arange(ids.size) % 2 == 0) if self.design == "within" else ids % share == 0
        own, shared = (self._errors(rng, size) for size in (ids.size, self.fixtures))
        errors = own + shared[ids]
        if self.errors == "uneven":
            errors *= np.exp(0.5 * np.clip(x, -3, 3))
        return errors, np.column_stack([np.ones(ids.size), x, group]).astype(float), ids

    def _errors(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return rng.standard_t(3, size) / np.sqrt(3) if self.errors == "t3" else rng.normal(0, 1, size)

    def __str__(self) -> str:
        return f"{self.design}, {self.sizes} sizes, {self.errors}"


@dataclass(frozen=True, slots=True)
class Held:
    """How often intervals hold 0, by coefficient, among those that there are; their share; and how often Holm announces any."""

    coverage: tuple[float, ...]
    known: tuple[float, ...]
    announced: float


def held(cell: Cell, rounds: int, seed: int = 1) -> Held:
    """Judge a cell; every round has a generator of its own."""
    inside, known, announced = np.zeros(len(NAMES)), np.zeros(len(NAMES)), 0
    for number in range(rounds):
        y, x, ids = cell.drawn(np.random.default_rng([seed, number, cell.fixtures]))
        if np.linalg.matrix_rank(x) < len(NAMES):
            continue
        found = coefficients(y, x, pl.Series(ids))
        low, high = (found[name].to_numpy().astype(float) for name in ("low", "high"))
        known += np.isfinite(low)
        inside += (low <= 0) & (high >= 0)
        announced += bool((found["p_holm"] < 0.05).any())
    with np.errstate(invalid="ignore"):
        return Held(tuple(inside / known), tuple(known / rounds), announced / rounds)


def table(rounds: int) -> str:
    """Coverage and size in all cells."""
    counts = ", ".join(map(str, FIXTURES))
    lines = [
        f"{rounds:,} draws, {counts} fixtures | coverage of 95 %: x | group | any announced by Holm at 5 % | group is known"
    ]
    for design, sizes, errors in product(DESIGNS, SIZES, ERRORS):
        cells = [held(Cell(design, sizes, errors, fixtures), rounds) for fixtures in FIXTURES]
        parts = [[one.coverage[1] for one in cells], [one.coverage[2] for one in cells], [one.announced for one in cells]]
        parts.append([one.known[2] for one in cells])
        lines.append(
            f"{Cell(design, sizes, errors, 0)} | " + " | ".join(" ".join(f"{one:.3f}" for one in part) for part in parts)
        )
    return "\n".join(lines)


def main() -> int:
    """``python -m tests.simulations.regressions``: coverage and size where all coefficients are 0."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--rounds", type=int, default=2_000)
    sys.stdout.write(f"{table(parser.parse_args().rounds)}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
