"""Permutation over fixtures: the gain from the choice of fixture and side, compared with other fixtures.

If favourites shorten all season, anyone who backs favourites has a positive CLV. So all decisions of a fixture are moved
together to another one, drawn from all fixtures. They keep the market, the time to the close, and the rank of the side by
probability (the favourite, the second, and so on). There, knowledge of the original fixture is useless; the choice of time,
market and number of bets still counts.

References
----------
Phipson and Smyth (2010), "Permutation P-values Should Never Be Zero", Statistical Applications in Genetics and Molecular
Biology 9(1): the p-value.
"""

from __future__ import annotations

from collections.abc import Iterator
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
_CELLS = 4_000_000  # signs in memory at once
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
    found = np.full(clusters.sums.shape[1], np.nan)
    for column in range(len(found)):
        used = clusters.counts[:, column] > 0
        if used.sum() >= MIN_CLUSTERS and clusters.sums[used, column].any():
            found[column] = _p_value(clusters.sums[used, column], clusters.counts[used, column], resamples, seed)
    return found


def _p_value(sums: Floats, counts: Floats, resamples: int, seed: int) -> float:
    observed = float(_extremes(np.ones((1, len(sums))), sums, counts)[0]) * (1 - _TIE)
    if len(sums) < ENUMERATED_BELOW:
        extremes = _extremes(_all_signs(len(sums)), sums, counts)
        return float(np.mean(extremes >= observed))
    as_large = sum(
        int(np.count_nonzero(_extremes(signs, sums, counts) >= observed)) for signs in _drawn(len(sums), resamples, seed)
    )
    return (1 + as_large) / (1 + resamples)


def _extremes(signs: Floats, sums: Floats, counts: Floats) -> Floats:
    """Return t squared, with CR2 errors, of the sums under each row of signs; infinite if the error is zero."""
    total = counts.sum()
    weights = 1 / (1 - counts / total)
    means = signs @ sums / total
    crossed = signs @ (weights * sums * counts)
    whole = (weights * sums**2).sum()
    squares = whole - 2 * means * crossed + means**2 * (weights * counts**2).sum()
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


@dataclass(frozen=True, slots=True)
class Permutation(PermutationResult):
    """The same decisions in other fixtures; ``gain`` is the value of choosing fixture and side.

    Attributes
    ----------
    matched
        Share of the decisions, 0..1, with a price in the other fixture; the others are left out of the draw.
    """

    matched: float


@dataclass(frozen=True, slots=True)
class _MarketRows:
    """Messages of all markets that could be backed, market by market in order of time.

    ``number`` is the number of a market by fixture and key, or -1. Each market has its first message, the number of its sides,
    their distance on the tape, and its closing message. Each message has its row on the tape, and its time.
    """

    number: Ints
    first: Ints
    n_sides: Ints
    apart: Ints
    close_row: Ints
    row: Ints
    key: Ints
    span: int
    start_ms: int
    prob_bps: Ints


def permute_fixtures(
    tape: Tape, scored: pl.DataFrame, window: Window, *, draws: int = 200, seed: int = 0
) -> Permutation | None:
    """Score the decisions of each fixture in other fixtures; ``None`` without a scored decision, or without a price for any.

    Parameters
    ----------
    tape
        Ticks of all fixtures that could have been entered.
    scored
        Scored decisions: ``fixture_id, tick_seq, market_key, side, to_close_s, clv_bps``.
    window
        Window that closes fixtures.
    draws
        Number of permutations of all fixtures.
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
    fixture = ends["fixture_id"].search_sorted(scored["fixture_id"]).to_numpy().astype(np.int64)
    key = keys.search_sorted(scored["market_key"]).to_numpy().astype(np.int64)
    age_ms = (scored["to_close_s"] * 1000).round().cast(pl.Int64).to_numpy()
    close_ms = ends["close_ts_ms"].to_numpy()
    rank = _ranks(tape, scored)
    rng, means, matched = np.random.default_rng(seed), np.full(draws, np.nan), 0
    for draw in range(draws):
        donor = rng.permutation(ends.height)[fixture]
        clv = _clv_there(markets, markets.number[donor, key], close_ms[donor] - age_ms, rank)
        if clv.size:
            means[draw] = clv.mean()
        matched += clv.size
    means = means[~np.isnan(means)]
    if not means.size:
        return None
    observed = float(scored["clv_bps"].to_numpy().mean())
    return Permutation(observed, scored.height, means, matched / (draws * scored.height))


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
    start, length = own["start"].to_numpy(), own["rows"].to_numpy()
    first = np.concatenate([[0], np.cumsum(length)])
    of = np.repeat(np.arange(own.height), length)
    row = start[of] + np.arange(first[-1]) - first[of]
    ts_ms = tape.rows["ts_ms"].to_numpy()[row]
    start_ms = int(ts_ms.min())
    span = int(ts_ms.max()) - start_ms + 2
    return _MarketRows(
        number, first[:-1], own["n_sides"].to_numpy(), length, own["close_row"].fill_null(-1).to_numpy(), row,
        of * span + (ts_ms - start_ms), span, start_ms, tape.rows["prob_bps"].fill_null(-1).cast(pl.Int64).to_numpy(),
    )  # fmt: skip


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


def _clv_there(markets: _MarketRows, market: Ints, at_ms: Ints, rank: Ints) -> Ints:
    """Return the CLV of backing the side of a rank at a time, for markets that have a price then and at the close."""
    known = (market >= 0) & (at_ms >= markets.start_ms)
    market, at_ms, rank = market[known], at_ms[known], rank[known]
    wanted = market * markets.span + np.minimum(at_ms - markets.start_ms, markets.span - 1)
    place = np.searchsorted(markets.key, wanted, side="right") - 1
    row, close = markets.row[np.maximum(place, 0)], markets.close_row[market]
    # an entry at the closing message has the closing price
    known = (place >= markets.first[market]) & (row < close) & (rank < markets.n_sides[market])
    market, row, close, rank = market[known], row[known], close[known], rank[known]
    found = []
    for n_sides in np.unique(markets.n_sides[market]):
        some = np.flatnonzero(markets.n_sides[market] == n_sides)
        sides = np.arange(n_sides) * markets.apart[market[some], None]
        entries, closes = markets.prob_bps[row[some, None] + sides], markets.prob_bps[close[some, None] + sides]
        side = _by_rank(entries)[np.arange(some.size), rank[some]][:, None]
        entry, at_close = (np.take_along_axis(part, side, axis=1)[:, 0] for part in (entries, closes))
        found.append((at_close - entry)[(entry >= 0) & (at_close >= 0)])
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)
