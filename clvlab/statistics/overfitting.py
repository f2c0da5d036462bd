"""Probability of backtest overfitting: whether the best of many configurations is still good on other fixtures.

Fixtures are cut into blocks in order of time. Every half of the blocks chooses the best configuration once, and the other half
ranks it among all. This is combinatorially symmetric cross-validation. If the choice is worthless, the chosen configuration
ranks below the median as often as above.

References
----------
Bailey, Borwein, Lopez de Prado and Zhu (2017), "The Probability of Backtest Overfitting", Journal of Computational Finance
20(4). Cameron and Miller (2015), "A Practitioner's Guide to Cluster-Robust Inference", Journal of Human Resources 50(2): the
error CR1 of the t.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

import numpy as np
import numpy.typing as npt

from clvlab.errors import StatisticsError
from clvlab.statistics.clusters import Clusters, Floats

Ints = npt.NDArray[np.int64]
Statistic = Literal["mean", "t"]

MIN_CONFIGURATIONS = 10  # with an odd number n, one rank is the median itself, and PBO by chance is 1/2 + 1/(2 n)
MIN_FIXTURES = 4  # in each block
MOST_BLOCKS = 20  # 184,756 splits
_MIN_BLOCKS = 4
_CELLS = 2_000_000  # splits times configurations in memory at once
_ROUNDING = 1e-12  # relative to the sum of squares: a smaller variance counts as zero


@dataclass(frozen=True, slots=True)
class Overfitting:
    """Out-of-sample results of the configurations that each half of the fixtures chose, over all splits.

    Attributes
    ----------
    pbo
        Share of the splits, 0..1, whose choice is at or below the median of all configurations out of sample.
    loss
        Share of the splits whose choice is below zero out of sample.
    slope, intercept
        Least squares of ``out_of_sample`` on ``in_sample``; nan if all choices are equally good in sample.
    statistic
        Figure by which configurations are chosen and ranked: ``mean`` over decisions, or cluster ``t``.
    blocks, fixtures, left_out
        Number of blocks, of fixtures in each block, and of fixtures at the end outside all blocks.
    configurations, unjudged
        Number of ranked configurations, and of those without a figure in some half.
    chosen
        Column that each split chose.
    in_sample, out_of_sample
        Figure of the chosen column in the half that chose it, and in the other half.
    ranks
        Relative rank of the chosen column out of sample, above 0 and below 1: its rank divided by the number of
        configurations plus one.
    """

    pbo: float
    loss: float
    slope: float
    intercept: float
    statistic: Statistic
    blocks: int
    fixtures: int
    left_out: int
    configurations: int
    unjudged: int
    chosen: Ints = field(repr=False)
    in_sample: Floats = field(repr=False)
    out_of_sample: Floats = field(repr=False)
    ranks: Floats = field(repr=False)

    @property
    def splits(self) -> int:
        return len(self.ranks)

    @property
    def logits(self) -> Floats:
        """Log-odds of each relative rank: 0 at the median, and negative if the choice is worse than half of all."""
        return np.asarray(np.log(self.ranks / (1 - self.ranks)), dtype=np.float64)


def overfitting(clusters: Clusters, *, blocks: int = 16, statistic: Statistic = "mean") -> Overfitting:
    """Choose the best configuration in every half of the blocks, and rank it in the other half.

    Parameters
    ----------
    clusters
        One column per configuration, one row per fixture in order of time.
    blocks
        Even number of blocks from 4 to ``MOST_BLOCKS``. They have equal size; the remaining fixtures at the end are left out.
    statistic
        ``mean`` is the sum divided by the count of all decisions of a half. ``t`` is that mean divided by its cluster-robust
        error CR1, which equals CR2 if fixtures hold equally many decisions.

    Returns
    -------
    Overfitting
        One entry per split, in lexicographic order of the blocks in sample. The first of equal configurations is chosen; equal
        ones share their average rank out of sample. A configuration without a figure in some half is left out and counted.

    Raises
    ------
    StatisticsError
        The number of blocks is not even or is out of range, fewer than ``MIN_CONFIGURATIONS`` can be ranked, or a block has
        fewer than ``MIN_FIXTURES``.

    Examples
    --------
    >>> clv_bps = np.random.default_rng(0).normal(0, 100, (160, 20))
    >>> noise, better = clv_bps.copy(), clv_bps + 40 * (np.arange(20) == 7)
    >>> [round(overfitting(Clusters(one, np.ones_like(one), one**2)).pbo, 2) for one in (noise, better)]
    [0.37, 0.0]
    """
    _check(clusters, blocks, statistic)
    fixtures = len(clusters.sums) // blocks
    parts = _parts(clusters, blocks, fixtures, statistic)
    halves = _halves(blocks)
    judged = _judged(parts, halves, statistic)
    if judged.size < MIN_CONFIGURATIONS:
        raise StatisticsError(
            f"{judged.size} of {clusters.sums.shape[1]} configurations have decisions in every half of the blocks, and fewer "
            f"than {MIN_CONFIGURATIONS} have too few ranks to tell chance from choice: try more, or fewer blocks"
        )
    chosen, in_sample, out_of_sample, ranks = _choices([part[:, judged] for part in parts], halves, statistic)
    slope, intercept = _line(in_sample, out_of_sample)
    return Overfitting(
        # rank and median are multiples of a half, so this comparison is exact; one of logits with zero may not be
        pbo=float(np.mean(2 * ranks <= judged.size + 1)),
        loss=float(np.mean(out_of_sample < 0)),
        slope=slope,
        intercept=intercept,
        statistic=statistic,
        blocks=blocks,
        fixtures=fixtures,
        left_out=len(clusters.sums) - blocks * fixtures,
        configurations=judged.size,
        unjudged=clusters.sums.shape[1] - judged.size,
        chosen=judged[chosen],
        in_sample=in_sample,
        out_of_sample=out_of_sample,
        ranks=ranks / (judged.size + 1),
    )


def _check(clusters: Clusters, blocks: int, statistic: str) -> None:
    if type(blocks) is not int or blocks % 2 or not _MIN_BLOCKS <= blocks <= MOST_BLOCKS:
        raise StatisticsError(f"blocks must be an even number from {_MIN_BLOCKS} to {MOST_BLOCKS}, not {blocks!r:.80}")
    if statistic not in ("mean", "t"):
        raise StatisticsError(f"configurations are chosen by mean or t, not by {statistic!r:.80}")
    if not all(np.isfinite(part).all() for part in (clusters.sums, clusters.counts)):
        raise StatisticsError("the sums and counts of configurations must be finite numbers")
    if len(clusters.sums) < blocks * MIN_FIXTURES:
        raise StatisticsError(
            f"{len(clusters.sums)} fixtures make {blocks} blocks of {len(clusters.sums) // blocks}: with fewer than "
            f"{MIN_FIXTURES} fixtures a block one match decides a block; ask for fewer blocks, or bring more fixtures"
        )


def _parts(clusters: Clusters, blocks: int, fixtures: int, statistic: str) -> list[Floats]:
    """Return, per block (row) and configuration, the additive sums from which the figure of a half is computed."""
    sums, counts = (part[: blocks * fixtures] for part in (clusters.sums, clusters.counts))
    each = [sums, counts]
    if statistic == "t":
        each += [sums**2, sums * counts, counts**2, (counts > 0).astype(np.float64)]
    return [part.reshape(blocks, fixtures, -1).sum(1) for part in each]


def _halves(blocks: int) -> Ints:
    """Return every half of the blocks as bits, in lexicographic order: the complement of the first is the last, and so on."""
    chosen = np.array(list(combinations(range(blocks), blocks // 2)), dtype=np.int64)
    return np.asarray((1 << chosen).sum(1), dtype=np.int64)


def _judged(parts: list[Floats], halves: Ints, statistic: str) -> Ints:
    blocks = len(parts[1])
    known = (parts[1] > 0).sum(0) > blocks // 2  # otherwise some half has no decision
    if statistic == "t":
        columns = np.flatnonzero(known)
        tables = _tables([part[:, columns] for part in parts])
        step = max(1, _CELLS // max(columns.size, 1))
        for start in range(0, len(halves), step):
            known[columns] &= np.isfinite(_figures(tables, halves[start : start + step], statistic)).all(0)
    return np.flatnonzero(known)


def _tables(parts: list[Floats]) -> list[tuple[Floats, Floats]]:
    """Return the sums of every subset of the first and of the second half of the blocks; any half is then one addition."""
    tables = []
    for part in parts:
        middle = len(part) // 2
        pair = []
        for own in (part[:middle], part[middle:]):
            table = np.zeros((1, part.shape[1]))
            for row in own:
                table = np.concatenate([table, table + row])
            pair.append(table)
        tables.append((pair[0], pair[1]))
    return tables


def _figures(tables: list[tuple[Floats, Floats]], halves: Ints, statistic: str) -> Floats:
    """Return the figure of every configuration (column) in each half (row); a missing figure is not finite."""
    size = len(tables[0][0])
    sums, counts, *others = (low[halves % size] + high[halves // size] for low, high in tables)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = sums / counts
        if statistic == "mean":
            return np.asarray(means, dtype=np.float64)
        squares, crossed, sizes, used = others
        spread = squares - 2 * means * crossed + means**2 * sizes
        spread = np.where(spread > _ROUNDING * squares, spread * used / (used - 1), np.nan)
        return np.asarray(means * counts / np.sqrt(spread), dtype=np.float64)


def _choices(parts: list[Floats], halves: Ints, statistic: str) -> tuple[Ints, Floats, Floats, Floats]:
    """Return the choice of each half, its figure in that half and in the other, and its rank in the other, from 1."""
    tables, whole = _tables(parts), (1 << len(parts[0])) - 1
    splits = len(halves)
    chosen, found = np.empty(splits, dtype=np.int64), np.empty((3, splits))
    step = max(1, _CELLS // parts[0].shape[1])
    for start in range(0, splits // 2, step):
        places = np.arange(start, min(start + step, splits // 2))
        one, other = (_figures(tables, bits, statistic) for bits in (halves[places], whole ^ halves[places]))
        for ins, outs, to in ((one, other, places), (other, one, splits - 1 - places)):
            best = ins.argmax(1)
            row = np.arange(len(to))
            reached = outs[row, best]
            below, level = (outs < reached[:, None]).sum(1), (outs == reached[:, None]).sum(1)
            chosen[to], found[:, to] = best, (ins[row, best], reached, below + (level + 1) / 2)
    return chosen, found[0], found[1], found[2]


def _line(x: Floats, y: Floats) -> tuple[float, float]:
    apart = x - x.mean()
    size = float(apart @ apart)
    if size <= _ROUNDING * float(x @ x):
        return float("nan"), float("nan")
    slope = float(apart @ (y - y.mean())) / size
    return slope, float(y.mean() - slope * x.mean())
