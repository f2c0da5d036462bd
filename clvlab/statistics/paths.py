"""The path of a price: from opening to close, and from close to result.

If prices are fair, nothing known at the time of a price predicts its movement, and each of three slopes is 0. They answer three
questions. Do favourites shorten between opening and close? Do they win more often than the close says? Does the result reverse
or continue the movement before the close?

Noise in a close, such as a stale price or an outlier, also shows as a reversal. So a slope below 0 says that the close can be
bettered, but not why.

References
----------
Samuelson (1965), "Proof That Properly Anticipated Prices Fluctuate Randomly", Industrial Management Review 6(2). Mincer and
Zarnowitz (1969), "The Evaluation of Economic Forecasts": a forecast's error regressed on what was known. Gandar, Dare, Brown
and Zuber (1998), "Informed Traders and Price Variations in the Betting Market for Professional Basketball Games", Journal of
Finance 53(1): openings, closes and results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from clvlab.errors import StatisticsError
from clvlab.law.closing import Window, fixture_closes, market_closes
from clvlab.law.clv import is_allowed
from clvlab.law.schema import Schema
from clvlab.law.tape import Tape
from clvlab.statistics.slopes import cluster_slope, explained_share

HOURS = (72.0, 48.0, 24.0, 12.0, 6.0, 3.0, 2.0, 1.0, 0.5, 0.25)

# One row per series with a price at its close; probabilities are 0..1. ``at`` has one entry per hour, null before the opening.
POINTS: Schema = {
    "fixture_id": pl.Int64,
    "market_key": pl.String,
    "side": pl.String,
    "n_sides": pl.Int64,
    "open": pl.Float64,
    "close": pl.Float64,
    "at": pl.List(pl.Float64),
}
_SLOPES: Schema = {
    "leg": pl.String, "slope": pl.Float64, "low": pl.Float64, "high": pl.Float64, "t": pl.Float64, "p_value": pl.Float64,
    "n": pl.Int64, "fixtures": pl.Int64,
}  # fmt: skip
_KNOWN: Schema = {
    "hours": pl.Float64, "share": pl.Float64, "low": pl.Float64, "high": pl.Float64, "slope": pl.Float64,
    "slope_low": pl.Float64, "slope_high": pl.Float64, "opened": pl.Float64, "n": pl.Int64,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Leg:
    """One regression through the origin, of probabilities 0..1: the gain of ``then`` per unit of ``before``."""

    name: str
    question: str
    before: pl.Expr
    then: pl.Expr


_FAVOURITE, _MOVE, _RESULT = (
    1 / pl.col("n_sides"),
    pl.col("close") - pl.col("open"),
    pl.col("won") - pl.col("close"),
)
LEGS = (
    Leg("opening", "do favourites shorten from opening to close", pl.col("open") - _FAVOURITE, _MOVE),
    Leg("close", "do favourites win more often than the close says", pl.col("close") - _FAVOURITE, _RESULT),
    Leg("reversal", "does the result take back what the price moved before the close", _MOVE, _RESULT),
)


def check_hours(hours: Sequence[float]) -> tuple[float, ...]:
    """Return hours before the close in descending order; raise ``StatisticsError`` without any, or if one is not above 0."""
    wrong = [hour for hour in hours if not isinstance(hour, int | float) or not 0 < hour < float("inf")]
    if not len(hours) or wrong:
        raise StatisticsError(f"hours before the close are numbers above 0, not {f'{wrong[0]!r:.80}' if wrong else 'none'}")
    return tuple(sorted({float(hour) for hour in hours}, reverse=True))


def price_points(tape: Tape, window: Window, hours: Sequence[float] = HOURS) -> pl.DataFrame:
    """Return the opening price, the closing price and the prices between them, for every series.

    Parameters
    ----------
    tape
        Ticks of the fixtures.
    window
        Window that closes fixtures and selects markets.
    hours
        Hours before the close at which prices are read.

    Returns
    -------
    pl.DataFrame
        ``POINTS``, sorted by fixture, market and side. The opening is the first price of the series. The price at an hour is
        the last price up to that hour, even across a suspension. A series without a price at the closing message has no row.

    Raises
    ------
    StatisticsError
        An hour is not above 0.

    Examples
    --------
    >>> import clvlab as cl
    >>> found = price_points(cl.open_pack("starter").source.tape(), Window(), [6.0])
    >>> found.select("side", "open", "close", "at").row(0)
    ('draw', 0.2636, 0.2606, [0.2603])
    """
    wanted = check_hours(hours)
    ends, tape = fixture_closes(tape, window), tape.at_source(window.close_source)
    series = tape.series.with_row_index("series").filter(is_allowed(tape.series["market_key"], window.market_allowlist))
    markets = series.filter(pl.col("side_no") == 0).select("fixture_id", "market_key")
    closes = market_closes(tape, markets, ends).select("fixture_id", "market_key", "close_row", "close_ts_ms")
    series = (
        series.join(closes, on=["fixture_id", "market_key"], how="left", maintain_order="left")
        .drop_nulls("close_row")
        .with_columns(row=pl.col("close_row") - pl.col("market_start") + pl.col("start"))
    )
    # 1. priced messages in order of series and time, and the first of each series
    priced = tape.rows.select("series", "ts_ms", "prob_bps").drop_nulls("prob_bps")
    number, ts_ms = (priced[name].cast(pl.Int64).to_numpy() for name in ("series", "ts_ms"))
    prob = priced["prob_bps"].to_numpy() / 10_000
    own = series["series"].cast(pl.Int64).to_numpy()
    first = np.searchsorted(number, own)
    # 2. the last of them at or before each hour
    start_ms, stop_ms = (int(ts_ms.min()), int(ts_ms.max())) if ts_ms.size else (0, 0)
    span = stop_ms - start_ms + 2
    key = number * span + (ts_ms - start_ms) + 1
    at = np.full((len(own), len(wanted)), np.nan)
    for column, hour in enumerate(wanted):
        then = np.clip(series["close_ts_ms"].to_numpy() - round(hour * 3_600_000) - start_ms, -1, span - 2)
        place = np.searchsorted(key, own * span + then + 1, side="right") - 1
        known = place >= first
        at[known, column] = prob[place[known]]
    close = tape.rows["prob_bps"].gather(series["row"]) / 10_000
    found = series.select("fixture_id", "market_key", "side", "n_sides").with_columns(
        close=close,
        open=pl.Series(prob[np.minimum(first, max(prob.size - 1, 0))], dtype=pl.Float64) if prob.size else pl.lit(None),
        at=pl.Series(at.tolist(), dtype=pl.List(pl.Float64)).list.eval(pl.element().fill_nan(None)),
    )
    return found.drop_nulls("close").select(pl.col(name).cast(dtype) for name, dtype in POINTS.items())


def path_slopes(points: pl.DataFrame, *, level: float = 0.95) -> pl.DataFrame:
    """Return the slope of each leg of the path; 0 where prices are fair.

    Parameters
    ----------
    points
        ``POINTS`` with ``won``: 1 for a side that won, 0 for one that lost, null for an unknown, void or half result.
    level
        Level of the intervals, over fixtures.

    Returns
    -------
    pl.DataFrame
        One row per leg, see ``LEGS``: ``leg, slope, low, high, t, p_value`` (two-sided) ``, n`` sides and ``fixtures``.

    Notes
    -----
    On simulated fair prices a test at .05 rejects .05 to .06 of the samples of 150 fixtures. With fewer fixtures, the tests of
    the legs to the result are rough, because winning longshots are rare and extreme: they reject up to .07 of the samples of
    80 fixtures, .08 of those of 40, and .11 of those of 20.

    Examples
    --------
    >>> points = pl.DataFrame({"fixture_id": range(6), "n_sides": 2, "open": [0.5, 0.6, 0.4, 0.5, 0.3, 0.7],
    ...                        "close": [0.6, 0.7, 0.3, 0.4, 0.4, 0.8], "won": [1, 1, 0, 0, 1, 0]})
    >>> path_slopes(points).select("leg", pl.col("slope").round(2)).rows()
    [('opening', 0.2), ('close', -0.5), ('reversal', 2.0)]
    """
    rows = []
    for leg in LEGS:
        x, y = points.select(before=leg.before, then=leg.then.cast(pl.Float64)).get_columns()
        one = cluster_slope(x, y, points["fixture_id"], level=level)
        rows.append((leg.name, one.slope, one.low, one.high, one.t, one.p_value, one.n, one.n_clusters))
    return pl.DataFrame(rows, schema=_SLOPES, orient="row")


def known_moves(points: pl.DataFrame, hours: Sequence[float] = HOURS, *, level: float = 0.95) -> pl.DataFrame:
    """Return how much of the move from opening to close had been made by each hour before the close.

    The share is the part of the whole move's variation that the move so far explains, at any slope: prices that went too far
    are known no less. A slope above 1 means that prices went on in the same direction, below 1 that they came back. If prices
    are fair the slope is 1, and the share is the share of the variance up to that hour.

    Parameters
    ----------
    points
        ``POINTS`` at the same hours. Before its opening, a series counts as not moved.
    hours
        Hours before the close.
    level
        Level of the intervals, over fixtures.

    Returns
    -------
    pl.DataFrame
        One row per hour, the longest before the close first: ``share`` 0..1 with ``low`` and ``high``; ``slope`` of the whole
        move on the move so far, with its interval; ``opened``, the share of the sides with a price by then; ``n`` sides.

    Examples
    --------
    >>> points = pl.DataFrame({"fixture_id": range(6), "open": 0.5, "close": [0.6, 0.7, 0.3, 0.4, 0.4, 0.8],
    ...                        "at": [[0.55], [0.6], [0.4], [0.5], [0.5], [0.5]]})
    >>> known_moves(points, [6.0]).select("hours", pl.col("share", "slope").round(2)).rows()
    [(6.0, 0.45, 2.0)]
    """
    rows = []
    fixtures, whole = points["fixture_id"], points["close"] - points["open"]
    for place, hour in enumerate(check_hours(hours)):
        at = points["at"].list.get(place)
        so_far = (at - points["open"]).fill_null(0.0)
        share = explained_share(so_far, whole, fixtures, level=level)
        one = cluster_slope(so_far, whole, fixtures, level=level)
        opened = float(at.is_not_null().sum() / at.len()) if at.len() else None
        rows.append((hour, share.share, share.low, share.high, one.slope, one.low, one.high, opened, points.height))
    return pl.DataFrame(rows, schema=_KNOWN, orient="row")
