"""Positions: every sealed decision beside the two states that score it."""

from __future__ import annotations

import polars as pl

from clvlab.errors import EvidenceError
from clvlab.law.columns import changes, in_range, neighbours, nulls, repeated, taken
from clvlab.law.schema import ODDS_MILLI, POSITIONS, PROPOSALS, Action, conform

_MARKET = ["fixture_id", "market_key"]


def positions(decisions: pl.DataFrame, closes: pl.DataFrame) -> pl.DataFrame:
    """Put every decision beside the two states that score it.

    Parameters
    ----------
    decisions, closes
        ``DECISION_EVENTS`` and ``CLOSE_EVENTS``: exactly what stands in evidence, in order of ``seq``.

    Returns
    -------
    pl.DataFrame
        ``POSITIONS``, in order of ``seq``.

    Raises
    ------
    EvidenceError
        Not exactly one close for every market that a BACK names, sorted by (fixture_id, market_key); or sides of a state
        that are not sorted and unique.
    """
    market = market_rows(decisions, closes)
    entries, quotes = _prices(decisions), _prices(closes)
    own = entries["side"] == taken(decisions["side"], entries["row"])  # sides are unique: at most one of each decision
    row, unpriced = entries["row"].filter(own), nulls(decisions.height)
    asked = pl.DataFrame({"row": market, "side": decisions["side"]})
    close = asked.join(quotes, on=["row", "side"], how="left", maintain_order="left")
    known = {
        "entry_present": decisions["sides"].is_not_null(),
        "entry_suspended": decisions["state_suspended"],
        "entry_prob_bps": unpriced.clone().scatter(row, entries["prob_bps"].filter(own)),
        "odds_milli": unpriced.scatter(row, entries["odds_milli"].filter(own)),
        "closing_present": taken(closes["sides"].is_not_null(), market),
        "closing_suspended": taken(closes["state_suspended"], market),
        "close_prob_bps": close["prob_bps"],
        "closing_ts_ms": taken(closes["state_ts_ms"], market),
    } | {name: taken(closes[name], market) for name in ("end_seq", "close_ts_ms", "close_kind")}
    frame = pl.DataFrame({name: known[name] if name in known else decisions[name] for name in POSITIONS})
    return conform(frame, POSITIONS, "POSITIONS")


def market_rows(decisions: pl.DataFrame, closes: pl.DataFrame) -> pl.Series:
    """Return the row in ``closes`` of the market that each decision backs; null where it backs none.

    Raises
    ------
    EvidenceError
        As for ``positions``.
    """
    wrong = EvidenceError("there must be one MARKET_CLOSE for every market that a BACK names, sorted")
    (fixture, later_fixture), (key, later_key) = neighbours(closes["fixture_id"]), neighbours(closes["market_key"])
    if not ((later_fixture > fixture) | ((later_fixture == fixture) & (later_key > key))).all():
        raise wrong
    row = pl.int_range(closes.height, eager=True).alias("row")
    found = decisions[_MARKET].join(closes[_MARKET].hstack([row]), on=_MARKET, how="left", maintain_order="left")["row"]
    back = decisions["action"] == Action.BACK
    found = found.zip_with(back, nulls(decisions.height))
    backed = found.filter(back & decisions["market_key"].is_not_null())
    if backed.null_count() or backed.n_unique() != closes.height:
        raise wrong
    return found


def proposals(decisions: pl.DataFrame, placed: pl.DataFrame) -> pl.DataFrame:
    """Put every decision beside the quote that it would take: ``PROPOSALS``, in order of ``seq``.

    Parameters
    ----------
    decisions, placed
        ``PROPOSAL_EVENTS`` and their ``POSITIONS``, both in order of ``seq``. There is no quote in a suspended market.
    """
    own = {
        "stake": decisions["stake"],
        "limit_odds_milli": decisions["limit_odds_milli"],
        "odds_milli": placed["odds_milli"].zip_with(~placed["entry_suspended"], nulls(placed.height)),
        "quote_age_ms": decisions["ts_ms"] - decisions["state_ts_ms"],
    }
    return conform(
        pl.DataFrame({name: own[name] if name in own else placed[name] for name in PROPOSALS}), PROPOSALS, "PROPOSALS"
    )


def _prices(events: pl.DataFrame) -> pl.DataFrame:
    """Return one row per side of every state: (row of the event, side, prob_bps, odds_milli)."""
    size = events["sides"].list.len().cast(pl.Int64)
    there = size > 0
    size, suspended = size.filter(there), events["state_suspended"].filter(there)
    state = repeated(size)
    prices = events["sides"].filter(there).explode().struct.unnest()
    if prices["side"].null_count():
        raise EvidenceError("a side without a name")
    check_prices(prices.hstack([taken(suspended, state).alias("suspended")]))
    side, later = neighbours(prices["side"])
    if (~changes(state).slice(1) & (later <= side)).any():
        raise EvidenceError("the sides of a market must be unique and in byte order")
    rows = pl.int_range(events.height, eager=True).filter(there)
    return prices.hstack([taken(rows, state).alias("row")])


def check_prices(prices: pl.DataFrame) -> None:
    """Refuse prices that no market has.

    Parameters
    ----------
    prices
        ``prob_bps``, ``odds_milli`` and ``suspended``.

    Raises
    ------
    EvidenceError
    """
    prob, odds = prices["prob_bps"], prices["odds_milli"]
    possible = in_range(prob, 0, 10_000) and in_range(odds, *ODDS_MILLI)
    if not possible or (prices["suspended"] & prob.is_not_null()).any():
        raise EvidenceError("a price out of range, or a probability in a suspended market")
