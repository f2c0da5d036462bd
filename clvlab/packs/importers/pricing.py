"""Messages of books from what they were written as: odds whose margin is removed, or probabilities that have none."""

from __future__ import annotations

import numpy as np
import polars as pl

from clvlab.law.schema import ODDS_MILLI
from clvlab.odds.consensus import PROB_UNIT, BookMessages, Flags, Ints
from clvlab.odds.margin import Floats, Margin, fair_probabilities, overround
from clvlab.packs.importers.source import Account, Options

_MOST_OFF = 0.1  # of the sum of fair probabilities from 1


def priced(
    heads: pl.DataFrame, odds: Floats, fair: Floats | None, books: list[str], options: Options, account: Account
) -> BookMessages:
    """Return messages whose every side has a probability, the others withdrawn.

    Parameters
    ----------
    heads
        A row a message: ``market``, ``ts_ms``, ``seen_ms`` and ``book``.
    odds, fair
        (messages, sides), decimal odds and the probabilities given beside them, NaN where there is none; null for ``fair``
        where the probabilities are to be taken from the odds.
    books
        All that speak, in order.
    options, account
        ``margin`` and ``max_overround`` of the import, and where what was found is counted.
    """
    complete: Flags = np.asarray(~np.isnan(odds if fair is None else fair).any(axis=1))
    account.note("book messages without a price for every side", int((~complete).sum()))
    complete &= _is_within(odds, complete, options, account)
    prob = np.full(odds.shape, -1, dtype=np.int64)
    milli = np.full(odds.shape, -1, dtype=np.int64)
    if fair is not None:
        total = fair.sum(axis=1, where=~np.isnan(fair))
        off = complete & (np.abs(total - 1) > _MOST_OFF)
        account.note("book messages whose probabilities do not sum to 0.9 to 1.1, taken as suspended", int(off.sum()))
        complete &= ~off
        prob[complete] = np.rint(fair[complete] / total[complete, None] * PROB_UNIT).astype(np.int64)
        milli[complete] = _milli(odds[complete])
    elif complete.any():
        prob[complete], milli[complete], fell_back = book_prices(odds[complete], options.margin)
        account.margin_fallbacks += fell_back
    numbers = heads["book"].replace_strict(books, range(len(books)), return_dtype=pl.Int64)
    market, ts_ms, seen_ms = (heads[name].to_numpy() for name in ("market", "ts_ms", "seen_ms"))
    return BookMessages(market, ts_ms, numbers.to_numpy(), seen_ms, prob, milli)


def _is_within(odds: Floats, complete: Flags, options: Options, account: Account) -> Flags:
    """Count the overround of the messages with odds on every side, and tell which of all are not beyond ``max_overround``."""
    within = np.ones(len(odds), dtype=np.bool_)
    full: Flags = complete & ~np.isnan(odds).any(axis=1)
    if full.any():
        margins = overround(odds[full])
        account.note("book messages with an overround below 0 or above 30 %", int(((margins < 0) | (margins > 0.3)).sum()))
        tens, times = np.unique(np.rint(margins * 1000).astype(np.int64) * 10, return_counts=True)
        account.overround_bps.update(dict(zip(tens.tolist(), times.tolist(), strict=True)))
        if options.max_overround is not None:  # no market: a placeholder, a mistake, or sides that do not belong together
            beyond = margins > options.max_overround
            account.note("book messages beyond max_overround, taken as suspended", int(beyond.sum()))
            within[full] = ~beyond
    return within


def book_prices(odds: Floats, margin: Margin) -> tuple[Ints, Ints, int]:
    """Return probabilities in ``PROB_UNIT`` and odds x 1000, a row a book, and how many of them fell back on another method."""
    fair = fair_probabilities(odds, margin)
    return np.rint(fair.prob * PROB_UNIT).astype(np.int64), _milli(odds), int(fair.fell_back.sum())


def _milli(odds: Floats) -> Ints:
    """Return odds x 1000, -1 where there are none."""
    none = np.isnan(odds)
    milli: Ints = np.clip(np.floor(np.where(none, 1.0, odds) * 1000 + 0.5), *ODDS_MILLI).astype(np.int64)
    milli[none] = -1
    return milli
