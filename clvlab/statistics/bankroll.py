"""Growth of a bankroll: paths over fixtures, in which bets that are open at once share the bankroll.

Fixtures are resampled: each date of the calendar gets the bets of a fixture drawn at random, and each bet keeps its time to the
close. So the bets of a fixture stay together, and the number of open bets follows the calendar. The bands show the luck of
fixtures; they ignore an edge that changes. A bankroll is not a score and ranks no agent.

References
----------
Efron and Tibshirani (1993), "An Introduction to the Bootstrap", chapter 8: whole units are drawn. Magdon-Ismail and Atiya
(2004), "Maximum Drawdown", Risk 17(10).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt
import polars as pl

from clvlab.errors import StatisticsError
from clvlab.statistics.clusters import Clusters, Floats
from clvlab.statistics.means import Estimate, estimates

Ints = npt.NDArray[np.int64]

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_CELLS = 2_000_000  # events in memory at once
_ROUNDING = 1e-9  # of a stake: a smaller cut is floating-point error


@dataclass(frozen=True, slots=True)
class Bankroll:
    """Paths of a bankroll that begins with 1.

    Attributes
    ----------
    path
        Bankroll at the start, and after each fixture with a stake, in order of time.
    fan
        Quantiles (rows, see ``QUANTILES``) of the resampled paths after each number of fixtures (columns).
    growth
        Mean log growth per fixture, with Student's interval over fixtures; ``None`` if the whole bankroll was lost.
    ruin, ruin_below
        Share of the paths, 0..1, that ever fall below ``ruin_below``, a share of the start.
    drawdowns
        Quantiles, see ``QUANTILES``, of the largest fall of a path from its peak, as shares of that peak.
    turnover
        Sum of all stakes, divided by the bankroll at the start.
    cut
        Number of bets whose stake was reduced, because too much was open.
    n, paths
        Number of bets with a stake, and of resampled paths.
    """

    path: Floats = field(repr=False)
    fan: Floats = field(repr=False)
    growth: Estimate
    ruin: float
    ruin_below: float
    drawdowns: tuple[float, ...]
    turnover: float
    cut: int
    n: int
    paths: int


@dataclass(frozen=True, slots=True)
class _Season:
    """Fixtures in order of their close, and their bets.

    ``first`` and ``count`` locate the bets of each fixture; ``before_ms`` is the time from a bet to the close.
    """

    close_ms: Ints
    first: Ints
    count: Ints
    before_ms: Ints
    share: Floats
    profit: Floats


def bankroll(
    bets: pl.DataFrame, *, growing: bool, exposure: float = 1.0, open_s: int = 7_200, ruin_below: float = 0.5,
    paths: int = 1_000, level: float = 0.95, seed: int = 0,
) -> Bankroll:  # fmt: skip
    """Return the paths of a bankroll through settled bets, and through as many fixtures drawn from them.

    Parameters
    ----------
    bets
        ``fixture_id``; ``close_ts_ms`` of the fixture; ``to_close_s`` from bet to close; ``share`` that is staked; ``profit``
        per unit of stake, -1 or more. Fixtures without a stake are left out, unless all are.
    growing
        Whether ``share`` refers to the bankroll when the bet is made, with open stakes at cost, or to the one at the start.
    exposure
        Largest share of the bankroll staked at once; stakes beyond it are cut.
    open_s
        Seconds from the close of a fixture to its result, at least 1; all its bets are settled then.
    ruin_below
        Share of the start below which a bankroll is ruined.
    paths, seed
        Number of resampled paths, and their seed.
    level
        Level of the interval of the growth.

    Raises
    ------
    StatisticsError
        There is no bet, a value is out of its range, or a bet can lose more than its stake.

    Examples
    --------
    >>> won = np.random.default_rng(1).random(400) < 0.55
    >>> bets = pl.DataFrame({"fixture_id": range(400), "close_ts_ms": np.arange(400) * 10**8, "to_close_s": 60.0,
    ...                      "share": 0.1, "profit": np.where(won, 1.0, -1.0)})
    >>> found = bankroll(bets, growing=True)
    >>> found.growth.low < 0.005 < found.growth.high, found.fan.shape  # 0.55 log(1.1) + 0.45 log(0.9) = 0.005
    (True, (5, 401))
    """
    _check(bets, exposure, open_s, ruin_below, paths, level)
    season = _season(bets.filter(pl.col("share") > 0) if (bets["share"] > 0).any() else bets)
    fixtures = len(season.close_ms)
    follow = partial(_follow, season, growing=growing, exposure=exposure, open_s=open_s)
    own, staked, cut = follow(np.arange(fixtures)[None, :])
    rng = np.random.default_rng(seed)
    values = np.empty((paths, fixtures))
    step = max(1, int(_CELLS / (len(season.share) + fixtures)))
    for start in range(0, paths, step):
        drawn = rng.integers(0, fixtures, (min(step, paths - start), fixtures))
        values[start : start + step] = follow(drawn)[0]
    values = np.concatenate([np.ones((paths, 1)), values], axis=1)
    peak = np.maximum.accumulate(values, axis=1)
    path = np.concatenate([[1.0], own[0]])
    return Bankroll(
        path=path,
        fan=np.quantile(values, QUANTILES, axis=0),
        growth=_growth(path, level),
        ruin=float(np.mean(values.min(1) < ruin_below)),
        ruin_below=ruin_below,
        drawdowns=tuple(np.quantile((1 - values / peak).max(1), QUANTILES).tolist()),
        turnover=staked,
        cut=cut,
        n=int((bets["share"] > 0).sum()),
        paths=paths,
    )


def _check(bets: pl.DataFrame, exposure: float, open_s: int, ruin_below: float, paths: int, level: float) -> None:
    if bets.is_empty():
        raise StatisticsError("there is no settled bet to follow a bankroll through")
    for name, value in (("exposure", exposure), ("ruin_below", ruin_below)):
        if not isinstance(value, int | float) or not 0 < value <= 1:
            raise StatisticsError(f"{name} is a share of the bankroll, above 0 and at most 1, not {value!r:.80}")
    if type(open_s) is not int or open_s < 1:
        raise StatisticsError(f"open_s is a whole number of seconds from close to result, at least 1, not {open_s!r:.80}")
    if type(paths) is not int or paths < 1:
        raise StatisticsError(f"paths must be a whole number of at least 1, not {paths!r:.80}")
    if not isinstance(level, int | float) or not 0 < level < 1:
        raise StatisticsError(f"the level of an interval lies between 0 and 1, as 0.95 does, not {level!r:.80}")
    for name, lowest in (("share", 0.0), ("profit", -1.0), ("to_close_s", 0.0)):
        values = bets[name].to_numpy().astype(np.float64)
        if not (values >= lowest).all() or not np.isfinite(values).all():
            raise StatisticsError(f"{name} of a bet must be a number of at least {lowest:g}: found {float(values.min())}")


def _season(bets: pl.DataFrame) -> _Season:
    fixtures = bets.group_by("fixture_id").agg(pl.first("close_ts_ms"), count=pl.len()).sort("close_ts_ms", "fixture_id")
    place = fixtures.with_row_index("place").select("fixture_id", "place")
    rows = bets.join(place, on="fixture_id", how="left", maintain_order="left").sort(
        "place", "to_close_s", descending=[False, True], maintain_order=True
    )
    count = fixtures["count"].cast(pl.Int64).to_numpy()
    return _Season(
        fixtures["close_ts_ms"].to_numpy(),
        np.cumsum(count) - count,
        count,
        (rows["to_close_s"] * 1000).round().cast(pl.Int64).to_numpy(),
        rows["share"].cast(pl.Float64).to_numpy(),
        rows["profit"].cast(pl.Float64).to_numpy(),
    )


def _follow(season: _Season, drawn: Ints, *, growing: bool, exposure: float, open_s: int) -> tuple[Floats, float, int]:
    """Return the bankroll of each path (row) after each date of the calendar, and the stakes and cut bets of the first path."""
    paths, places = drawn.shape
    # 1. events of all paths, in order of path and time: the bets of each place, then their settlement
    size = season.count[drawn.ravel()] + 1
    owner = np.repeat(np.arange(drawn.size), size)  # path * places + place
    number = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
    settles = number == size[owner] - 1
    bet = np.where(settles, 0, season.first[drawn.ravel()[owner]] + number)
    close_ms = season.close_ms[owner % places]
    time_ms = np.where(settles, close_ms + open_s * 1000, close_ms - season.before_ms[bet])
    span = int(time_ms.max() - time_ms.min()) + 1
    key = (owner // places * span + time_ms - time_ms.min()) * 2 + ~settles  # at equal times, results come first
    order = np.argsort(key, kind="stable")
    owner, bet, settles = owner[order], bet[order], settles[order]
    # 2. one row for the n-th event of every path (column); a path with fewer events gets bets of zero
    length = np.bincount(owner // places, minlength=paths)
    row, column = np.arange(owner.size) - np.repeat(np.cumsum(length) - length, length), owner // places
    shape = (int(length.max()), paths)
    share, profit, where, ends = np.zeros(shape), np.zeros(shape), np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=bool)
    where[:] = np.arange(paths) * places
    share[row, column], profit[row, column] = np.where(settles, 0.0, season.share[bet]), season.profit[bet]
    where[row, column], ends[row, column] = owner, settles
    # 3. one event of every path at a time
    wealth, open_, values = np.ones(paths), np.zeros(paths), np.empty(drawn.size)
    staked, gained = np.zeros(drawn.size), np.zeros(drawn.size)
    turnover, cut = 0.0, 0
    for asks, pays, place, settled in zip(share, profit, where, ends, strict=True):
        wanted = asks * wealth if growing else asks
        stake = np.minimum(wanted, np.maximum(exposure * wealth - open_, 0.0))
        open_ += stake
        staked[place] += stake
        gained[place] += stake * pays
        turnover, cut = turnover + float(stake[0]), cut + int(stake[0] < wanted[0] * (1 - _ROUNDING))
        if settled.any():
            over = place[settled]
            wealth[settled] = np.maximum(wealth[settled] + gained[over], 0.0)
            open_[settled] -= staked[over]
            values[over] = wealth[settled]
    return values.reshape(paths, places), turnover, cut


def _growth(path: Floats, level: float) -> Estimate:
    with np.errstate(divide="ignore", invalid="ignore"):
        added = np.diff(np.log(path))[:, None]
    if not np.isfinite(added).all():
        added = np.empty((0, 1))
    return estimates(Clusters(added, np.ones_like(added), added**2), level=level)[0]
