"""Permutation over fixtures: the gain from the choice of fixture and side, compared with other fixtures.

If favourites shorten all season, anyone who backs favourites has a positive CLV. So all decisions of a fixture are moved
together to another one, drawn from all fixtures. They keep the market, the time to the close, and the rank of the side by
probability (the favourite, the second, and so on). There, knowledge of the original fixture is useless; the choice of time,
market and number of bets still counts.

References
----------
Phipson and Smyth (2010), "Permutation P-values Should Never Be Zero", Statistical Applications in Genetics and Molecular
Biology 9(1): the p-value. Besag and Clifford (1991), "Sequential Monte Carlo p-values", Biometrika 78(2): when draws stop, and
the p-value then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from clvlab.law.closing import Window, fixture_closes, market_closes
from clvlab.law.tape import Tape, last_row_at
from clvlab.statistics.clusters import MIN_CLUSTERS, RESAMPLES, ROUNDING, Clusters, Floats

# Sign flips: whether random signs of the fixtures give as good a mean.
#
# References
# ----------
# Fisher (1935), "The Design of Experiments", section 21. Canay, Romano and Shaikh (2017), "Randomization Tests under an
# Approximate Symmetry Assumption", Econometrica 85(3): signs of whole clusters, few clusters. Janssen (1997), "Studentized
# Permutation Tests for Non-i.i.d. Hypotheses", Statistics and Probability Letters 36: why the statistic is studentised.


ENUMERATED_BELOW = 15  # clusters: below this number all signs are tried, otherwise a random sample
_CELLS = 500_000  # signs drawn at once, to fit the cache
_TIE = 1e-9  # relative: sums in another order are equal up to this rounding


def sign_flip_p_values(clusters: Clusters, *, resamples: int = RESAMPLES, seed: int = 0) -> Floats:
    """Return the two-sided p-value of each column's mean: how often random signs of whole clusters give a ``t`` as large.

    The p-value is valid if the sum of a cluster is distributed symmetrically around zero. ``t`` is studentised, so unequal
    sizes and spreads of clusters matter little, and skewness somewhat.

    Parameters
    ----------
    clusters
        Sums and counts.
    resamples, seed
        Number of sign draws and their seed, with ``ENUMERATED_BELOW`` clusters or more; with fewer, all signs are tried.

    Returns
    -------
    numpy.ndarray
        One p-value per column; nan with fewer than ``MIN_CLUSTERS`` clusters, or if all sums are zero.

    Examples
    --------
    >>> five = np.array([[3.0], [4.0], [2.0], [5.0], [1.0]])  # all above zero: 2 of the 32 ways to set signs are as extreme
    >>> float(sign_flip_p_values(Clusters(five, np.ones_like(five), five**2))[0])
    0.0625
    """
    found, sizes = np.full(clusters.sums.shape[1], np.nan), dict[int, list[int]]()
    for column in range(len(found)):
        used = clusters.counts[:, column] > 0
        if used.sum() >= MIN_CLUSTERS and clusters.sums[used, column].any():
            sizes.setdefault(int(used.sum()), []).append(column)
    for columns in sizes.values():  # columns of one size have the same signs, which take longer to draw than to use
        sums, counts = (
            np.stack([part[clusters.counts[:, one] > 0, one] for one in columns], axis=1)
            for part in (clusters.sums, clusters.counts)
        )
        found[columns] = _p_values(sums, counts, resamples, seed)
    return found


def _p_values(sums: Floats, counts: Floats, resamples: int, seed: int) -> Floats:
    observed = _extremes(np.ones((1, len(sums))), sums, counts) * (1 - _TIE)
    if len(sums) < ENUMERATED_BELOW:
        return np.asarray((_extremes(_all_signs(len(sums)), sums, counts) >= observed).mean(axis=0))
    as_large = np.zeros(sums.shape[1])
    for signs in _drawn(len(sums), resamples, seed):
        as_large += np.count_nonzero(_extremes(signs, sums, counts) >= observed, axis=0)
    return (1 + as_large) / (1 + resamples)


def _extremes(signs: Floats, sums: Floats, counts: Floats) -> Floats:
    """Return t squared, with CR2 errors, of each column under each row of signs; infinite if the error is zero."""
    total = counts.sum(0)
    weights = 1 / (1 - counts / total)
    means, crossed = np.split(signs @ np.hstack([sums, weights * sums * counts]), 2, axis=1)
    means = means / total
    whole = (weights * sums**2).sum(0)
    squares = whole - 2 * means * crossed + means**2 * (weights * counts**2).sum(0)
    # The order of summing changes the rounding error, which would break the tie of a row of signs with itself.
    squares = np.where(squares > ROUNDING * whole, squares, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(means == 0, 0.0, means**2 / squares), dtype=np.float64)


def _all_signs(size: int) -> Floats:
    """Return every row of signs; of two opposite rows only one, because they have the same square."""
    numbers = np.arange(2 ** (size - 1))[:, None]
    return np.where(numbers >> np.arange(size) & 1, -1.0, 1.0)


def _drawn(size: int, resamples: int, seed: int) -> Iterator[Floats]:
    rng = np.random.default_rng(seed)
    step = max(1, _CELLS // size)
    for start in range(0, resamples, step):
        yield 1.0 - 2.0 * rng.integers(0, 2, (min(step, resamples - start), size)).astype(np.float64)


# The CLV of moved decisions in each draw, and the CLV of the decisions themselves.


@dataclass(frozen=True, slots=True)
class PermutationResult:
    """Mean CLV of the decisions, and of the same decisions moved at random in each draw, in bps of probability."""

    observed: float
    n: int
    draws: Floats = field(repr=False)

    @property
    def mean(self) -> float:
        return float(self.draws.mean())

    @property
    def low(self) -> float:
        """Lower end of the band that holds 95 % of the draws."""
        return float(np.quantile(self.draws, 0.025))

    @property
    def high(self) -> float:
        """Upper end of that band."""
        return float(np.quantile(self.draws, 0.975))

    @property
    def gain(self) -> float:
        """``observed - mean``: the CLV lost by the move."""
        return self.observed - self.mean

    @property
    def p_value(self) -> float:
        """One-sided share of draws at least as good; it is above 0, because the decisions themselves count as a draw."""
        return float((1 + np.count_nonzero(self.draws >= self.observed)) / (1 + self.draws.size))


Ints = npt.NDArray[np.int64]
_MARKET = ["fixture_id", "market_key"]
STOP_AT = 50  # draws at least as good as the decisions: with so many, the p-value is settled
_THREADS = 2
_NO_PRICE = np.iinfo(np.int16).min


@dataclass(frozen=True, slots=True)
class Permutation(PermutationResult):
    """The same decisions in other fixtures; ``gain`` is the value of choosing fixture and side.

    Mean and band are of ``draws``, whose number does not depend on their values.

    Attributes
    ----------
    judged
        Draws of the p-value: all of them, or up to the one that is the ``STOP_AT``-th at least as good as the decisions.
    matched
        Share of the decisions, 0..1, with a price in the other fixture; the others are left out of the draw.
    """

    judged: Floats = field(repr=False)
    matched: float

    @property
    def p_value(self) -> float:
        """One-sided p-value: the share of draws at least as good after a stop, else that share with the decisions as a draw."""
        as_good = int(np.count_nonzero(self.judged >= self.observed))
        return as_good / self.judged.size if as_good >= STOP_AT else (1 + as_good) / (1 + self.judged.size)


@dataclass(frozen=True, slots=True)
class _MarketRows:
    """Markets that could be backed, and the time and probability of each row of the tape.

    ``number`` is the number of a market by fixture and key. Each market has the first row of its first side, the number of rows
    and of sides, and the row of its closing message, or -1. The last market, whose number is -1, has no row.
    """

    number: Ints
    first: Ints
    rows: Ints
    n_sides: Ints
    close_row: Ints
    ts_ms: Ints
    prob_bps: npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class _Moments:
    """Markets and times of decisions, each once and in order, so that neighbours are neighbours in the memory of any fixture.

    ``cell`` is the place of each decision in a table of moments by the rank of the side.
    """

    fixture: Ints
    key: Ints
    age_ms: Ints
    cell: Ints


def permute_fixtures(
    tape: Tape, scored: pl.DataFrame, window: Window, *, draws: int = 200, seed: int = 0
) -> Permutation | None:
    """Score the decisions of each fixture in other fixtures; ``None`` without a scored decision, or without a price for any.

    Draws stop after the ``STOP_AT``-th that is at least as good as the decisions, but never before half of them. A draw
    depends on ``seed`` and its number only.

    Parameters
    ----------
    tape
        Ticks of all fixtures that could have been entered.
    scored
        Scored decisions: ``fixture_id, tick_seq, market_key, side, to_close_s, clv_bps``.
    window
        Window that closes fixtures.
    draws
        Largest number of permutations of all fixtures.
    seed
        Seed of the permutations.

    Examples
    --------
    >>> import clvlab as cl
    >>> found = cl.backtest("starter", "cumulative-drift").tear_sheet().permutation
    >>> found.low < found.mean < found.high
    True
    """
    if scored.is_empty():
        return None
    ends, tape = fixture_closes(tape, window), tape.at_source(window.close_source)
    keys = scored["market_key"].unique().sort()
    markets = _markets(tape, ends, keys)
    moments = _moments(tape, scored, ends, keys, int(markets.n_sides.max()))
    close_ms, observed = ends["close_ts_ms"].to_numpy(), float(scored["clv_bps"].to_numpy().mean())

    def draw(number: int) -> tuple[float, int]:
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,)))
        total, n = _clv_there(markets, moments, rng.permutation(ends.height), close_ms)
        return total / n if n else np.nan, n

    always = min(draws, max(STOP_AT, draws // 2))  # a band of as many draws as chance decides would not hold its share
    made, settled = _sequential(draw, draws, always, observed)
    means, sizes = np.array(made).T
    band = means[:always]
    if np.isnan(band).all():
        return None
    judged = means[:settled]
    matched = float(sizes[:always].sum()) / (always * scored.height)
    return Permutation(observed, scored.height, band[~np.isnan(band)], judged[~np.isnan(judged)], matched)


def _sequential(
    draw: Callable[[int], tuple[float, int]], draws: int, always: int, observed: float
) -> tuple[list[tuple[float, int]], int]:
    """Return draws in order of their numbers, and how many of them the p-value takes.

    Threads draw ahead, and what they drew after the stop is dropped: their number changes nothing.
    """
    made, settled, as_good = list[tuple[float, int]](), draws, 0
    with ThreadPoolExecutor(_THREADS) as pool:
        pending = [pool.submit(draw, number) for number in range(draws)]
        try:
            for one in pending:
                made.append(one.result())
                as_good += made[-1][0] >= observed
                if as_good == STOP_AT:
                    settled = min(settled, len(made))
                if settled <= len(made) >= always:
                    break
        finally:
            pool.shutdown(cancel_futures=True)
    return made, settled


def _moments(tape: Tape, scored: pl.DataFrame, ends: pl.DataFrame, keys: pl.Series, ranks: int) -> _Moments:
    fixture = ends["fixture_id"].search_sorted(scored["fixture_id"]).to_numpy().astype(np.int64)
    key = keys.search_sorted(scored["market_key"]).to_numpy().astype(np.int64)
    age_ms = (scored["to_close_s"] * 1000).round().cast(pl.Int64).to_numpy()
    order = np.lexsort((-age_ms, key, fixture))
    columns = fixture, key, age_ms = fixture[order], key[order], age_ms[order]
    new = np.append(True, np.any([column[1:] != column[:-1] for column in columns], axis=0))
    return _Moments(fixture[new], key[new], age_ms[new], (new.cumsum() - 1) * ranks + _ranks(tape, scored)[order])


def _markets(tape: Tape, ends: pl.DataFrame, keys: pl.Series) -> _MarketRows:
    own = tape.series.filter(pl.col("side_no") == 0, pl.col("market_key").is_in(keys.implode()))
    closes = market_closes(tape, own.select(_MARKET), ends)
    if tape.max_close_age_s is not None:  # a close that is too old scores no decision and receives none
        closing_ts_ms = tape.rows["ts_ms"].gather(closes["close_row"])
        young = closes["close_ts_ms"] - closing_ts_ms <= 1000 * tape.max_close_age_s
        closes = closes.with_columns(close_row=pl.when(young).then("close_row"))
    closes = closes.select(*_MARKET, "close_row")
    own = own.join(closes, on=_MARKET, how="left", maintain_order="left")
    number = np.full((ends.height, keys.len()), -1, dtype=np.int64)
    places = (ends["fixture_id"].search_sorted(own["fixture_id"]), keys.search_sorted(own["market_key"]))
    number[places[0].to_numpy(), places[1].to_numpy()] = np.arange(own.height)
    first, rows, n_sides, close_row = (
        np.append(own[name].fill_null(-1).to_numpy(), 0) for name in ("start", "rows", "n_sides", "close_row")
    )
    prob_bps = tape.rows["prob_bps"].fill_null(-1).cast(pl.Int16).to_numpy()
    return _MarketRows(number, first, rows, n_sides, close_row, tape.rows["ts_ms"].to_numpy(), prob_bps)


def _ranks(tape: Tape, scored: pl.DataFrame) -> Ints:
    numbered = tape.series.with_row_index("series")
    priced = scored.join(numbered, on=["fixture_id", "market_key", "side"], how="left", maintain_order="left")
    row = last_row_at(tape.key, priced["start"], priced["series"], priced["tick_seq"]).to_numpy()
    place, side = row - priced["start"].to_numpy(), priced["side_no"].to_numpy()
    prob_bps = tape.rows["prob_bps"].fill_null(-1).cast(pl.Int64).to_numpy()
    rank = np.zeros(scored.height, dtype=np.int64)
    for n_sides in np.unique(priced["n_sides"].to_numpy()):
        some = np.flatnonzero(priced["n_sides"].to_numpy() == n_sides)
        rows = (priced["market_start"].to_numpy() + place)[some, None] + np.arange(n_sides) * priced["rows"].to_numpy()[
            some, None
        ]
        rank[some] = (_by_rank(prob_bps[rows]) == side[some, None]).argmax(1)
    return rank


def _by_rank(prob_bps: Ints) -> npt.NDArray[Any]:
    return np.argsort(-prob_bps, axis=1, kind="stable")


def _clv_there(markets: _MarketRows, moments: _Moments, donor: Ints, close_ms: Ints) -> tuple[int, int]:
    """Return the sum and number of the CLV of decisions in other fixtures, of those with a price then and at the close."""
    fixture = donor[moments.fixture]
    market = markets.number[fixture, moments.key]
    row = _latest(markets, market, close_ms[fixture] - moments.age_ms)
    # an entry at the closing message has the closing price
    there = np.flatnonzero((row >= markets.first[market]) & (row < markets.close_row[market]))
    market, row = market[there], row[there]
    close, n_sides, apart = markets.close_row[market], markets.n_sides[market], markets.rows[market]
    ranks = int(markets.n_sides.max())
    by_rank = np.full(len(fixture) * ranks, _NO_PRICE, dtype=np.int16)
    for size in range(1, ranks + 1):
        some = np.flatnonzero(n_sides == size)
        if some.size:
            steps = [side * apart[some] for side in range(size)]
            entries, closes = ([markets.prob_bps[at[some] + step] for step in steps] for at in (row, close))
            for side, (entry, at_close) in enumerate(zip(entries, closes, strict=True)):
                rank = there[some] * ranks
                for number, other in enumerate(entries):
                    if number != side:  # sides of one price are in order
                        rank += other >= entry if number < side else other > entry
                by_rank[rank] = np.where((entry >= 0) & (at_close >= 0), at_close - entry, _NO_PRICE)
    found = by_rank[moments.cell]
    without = found.size - int(np.count_nonzero(found != _NO_PRICE))
    return int(found.sum(dtype=np.int64)) - without * _NO_PRICE, found.size - without


def _latest(markets: _MarketRows, market: Ints, at_ms: Ints) -> Ints:
    """Return the last row of each market's first side up to a time, or the row before its first."""
    first = markets.first[market]
    row, end = first - 1, first + markets.rows[market]
    for power in reversed(range(int(markets.rows.max()).bit_length())):
        further = row + 2**power
        known = np.flatnonzero(further < end)
        known = known[markets.ts_ms[further[known]] <= at_ms[known]]
        row[known] = further[known]
    return row
