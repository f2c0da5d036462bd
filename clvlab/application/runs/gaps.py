"""Decisions beside the gaps of the capture that they were made over: what is no part of the law, and a reader has to know.

Gaps are in the time of the recorder and ticks in the provider's: what the two clocks differ by shifts a gap by as much.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from clvlab.law.schema import Action
from clvlab.packs.manifest import Gap
from clvlab.packs.reader import Pack

_SPANS = ("entry_from", "entry_to", "close_from", "close_to")


def lasting_gaps(pack: Pack) -> list[Gap]:
    """Return the gaps of a pack's ledger in which messages are missing for good."""
    capture = pack.manifest.capture
    return [] if capture is None else [gap for gap in capture.gaps if not gap.replayed]


def in_gap(
    decisions: pl.DataFrame, closes: pl.DataFrame, gaps: Sequence[Gap], markets: Collection[str] = frozenset()
) -> pl.Series:
    """Tell which decisions have an entry or a close that a gap touches.

    An entry is touched where a gap lies in the time from the state that was acted on to the decision, a close where one lies
    between the closing state and the close: what was carried over may have been another price by then.

    Parameters
    ----------
    decisions, closes
        ``DECISION_EVENTS`` and ``CLOSE_EVENTS``.
    gaps
        Of the ledger.
    markets
        Market keys that names in the ledger are looked for among; a gap that names anything else concerns all markets.

    Returns
    -------
    pl.Series
        ``in_gap``: Boolean without nulls, a row for each decision; false where the agent waited.

    Examples
    --------
    >>> import clvlab as cl
    >>> run = cl.backtest("starter", "baseline").source
    >>> everything = Gap(from_ts_ms=0, to_ts_ms=2**52)
    >>> in_gap(run.result.decisions, run.result.closes, [everything]).sum() > 0
    True
    """
    if not gaps:
        return pl.repeat(value=False, n=decisions.height, eager=True).alias("in_gap")
    spans = _spans(decisions, closes)
    of_all, own = _by_market(gaps, set(markets))
    touched = _touched(spans, of_all)
    for (key,), rows in spans.filter(pl.col("market_key").is_in(list(own))).partition_by("market_key", as_dict=True).items():
        touched[rows["row"].to_numpy()] |= _touched(rows, own[str(key)])
    return pl.Series("in_gap", touched)


def _by_market(gaps: Sequence[Gap], known: set[str]) -> tuple[list[Gap], dict[str, list[Gap]]]:
    """Return the gaps of all markets, and those of some by market key."""
    of_all, own = list[Gap](), defaultdict[str, list[Gap]](list)
    for gap in gaps:
        named = set(gap.markets or ())
        if not named or not named <= known:
            of_all.append(gap)
        else:
            for key in named:
                own[key].append(gap)
    return of_all, own


def _spans(decisions: pl.DataFrame, closes: pl.DataFrame) -> pl.DataFrame:
    """Return the times over which states were carried, a row for each decision; null where there is none."""
    backed = pl.col("action") == Action.BACK
    return (
        decisions.lazy()
        .select("fixture_id", "market_key", "action", "ts_ms", "state_ts_ms")
        .join(
            closes.lazy().select("fixture_id", "market_key", "close_ts_ms", closing_ts_ms="state_ts_ms"),
            on=["fixture_id", "market_key"],
            how="left",
            maintain_order="left",
        )
        .select(
            "market_key",
            entry_from=pl.when(backed).then(pl.coalesce("state_ts_ms", "ts_ms")),
            entry_to=pl.when(backed).then("ts_ms"),
            close_from=pl.when(backed).then("closing_ts_ms"),
            close_to=pl.when(backed & pl.col("closing_ts_ms").is_not_null()).then("close_ts_ms"),
        )
        .with_row_index("row")
        .collect(engine="in-memory")
    )


def _touched(spans: pl.DataFrame, gaps: Sequence[Gap]) -> NDArray[np.bool_]:
    if not gaps:
        return np.zeros(spans.height, dtype=np.bool_)
    ordered = sorted((gap.from_ts_ms, gap.to_ts_ms) for gap in gaps)
    begins = np.array([begin for begin, _ in ordered])
    ends = np.maximum.accumulate(np.array([end for _, end in ordered]))  # of all gaps that have begun by then
    entry_from, entry_to, close_from, close_to = (spans[name].fill_null(-1).to_numpy() for name in _SPANS)

    def meets(since: NDArray[np.int64], until: NDArray[np.int64]) -> NDArray[np.bool_]:
        begun = np.searchsorted(begins, until, side="right")
        found: NDArray[np.bool_] = (until >= 0) & (begun > 0) & (ends[begun - 1] >= since)
        return found

    return meets(entry_from, entry_to) | meets(close_from, close_to)
