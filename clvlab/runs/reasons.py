"""Reasons why a run has no scored decision, with remedies. They appear in reports, not in evidence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from clvlab.agents.registry import TRANSCRIBED
from clvlab.base.names import did_you_mean
from clvlab.errors import PackError
from clvlab.law.schema import Action, Reason
from clvlab.packs.manifest import Gap
from clvlab.packs.reader import Pack
from clvlab.proof.manifest import RunStarted, SealedAgent
from clvlab.words import counted

# Decisions near gaps of their capture. The law ignores gaps; a report shows them to its reader.
#
# Gaps are in the recorder's time and ticks in the provider's time. A difference between the clocks shifts each gap.


_SPANS = ("entry_from", "entry_to", "close_from", "close_to")


def lasting_gaps(pack: Pack) -> list[Gap]:
    """Return the gaps in a pack's ledger whose messages were never sent again."""
    capture = pack.manifest.capture
    return [] if capture is None else [gap for gap in capture.gaps if not gap.replayed]


def in_gap(
    decisions: pl.DataFrame, closes: pl.DataFrame, gaps: Sequence[Gap], markets: Collection[str] = frozenset()
) -> pl.Series:
    """Return a Boolean per decision: whether a gap touches its entry or close.

    A gap touches an entry if it overlaps the time from the used state to the decision. It touches a close if it overlaps the
    time from the closing state to the close. In both cases the price may have changed unseen. A gap without a market, or with
    a market outside ``markets``, concerns all markets.

    Examples
    --------
    >>> import clvlab as cl
    >>> run = cl.backtest("starter", "baseline").source
    >>> everything = Gap(from_ts_ms=0, to_ts_ms=2**52)
    >>> in_gap(run.evidence.decisions, run.evidence.closes, [everything]).sum() > 0
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
    ends = np.maximum.accumulate(np.array([end for _, end in ordered]))  # latest end of this gap and all earlier ones
    entry_from, entry_to, close_from, close_to = (spans[name].fill_null(-1).to_numpy() for name in _SPANS)

    def meets(since: NDArray[np.int64], until: NDArray[np.int64]) -> NDArray[np.bool_]:
        started = np.searchsorted(begins, until, side="right")
        found: NDArray[np.bool_] = (until >= 0) & (started > 0) & (ends[started - 1] >= since)
        return found

    return meets(entry_from, entry_to) | meets(close_from, close_to)


_MOST_REASONS = 3
_MOST_NAMES = 8
_CLOSINGS = {
    Reason.CLOSING_MARKET_ABSENT: "are in a market without a closing message",
    Reason.CLOSING_SUSPENDED: "are in a market that is suspended at its close",
    Reason.CLOSING_STALE: "have a close older than the pack's max_close_age_s",
    Reason.CLOSING_SIDE_MISSING: "are on a side without a price at the close",
}


def unscored(scores: pl.DataFrame, at_close: pl.Series, started: RunStarted, pack: Pack) -> list[str]:
    """Return why no decision of a run is scored, and a remedy; empty if a decision is scored."""
    scored = scores["reason"] == Reason.SCORED
    if scored.any():
        return [_all_at_close(int(scored.sum()))] if (at_close | ~scored).all() else []
    backed = scores.filter(pl.col("reason") != Reason.WAIT_UNSCORED)
    if backed.is_empty():
        return [_nothing_backed(scores.height, started, pack)]
    reasons = backed["reason"].value_counts(name="n").sort("n", "reason", descending=[True, False]).head(_MOST_REASONS)
    return [
        f"nothing is scored: {counted(n, 'decision')} {_advice(Reason(reason), backed.filter(reason=reason), started, pack)}"
        for reason, n in reasons.iter_rows()
    ]


def _all_at_close(count: int) -> str:
    return (
        f"all {counted(count, 'decision')} that are scored were made at the closing message of their market, where a CLV is "
        "always 0: means leave them out; decide before the market's last message"
    )


def _nothing_backed(waits: int, started: RunStarted, pack: Pack) -> str:
    prefixes, fixture = tuple(started["window"]["market_allowlist"]), started["binding"]["fixture_ids"][0]
    known = list(_sides(fixture, pack))
    if known and not any(market.startswith(prefixes) for market in known):
        wanted = f"no market begins with one of {list(prefixes)}" if prefixes else "an empty market allowlist allows no market"
        meant = did_you_mean("".join(prefixes[:1]), known)
        return f"nothing is scored: {wanted}{meant or ';'} fixture {fixture} has: {_listed(known)}"
    agents = started["agents"]
    empty = [one for one in agents if one["strategy"] in TRANSCRIBED and not one["config"].get("transcript")]
    return _nothing_recorded(empty[0]) if empty else _nothing_done(waits)


def _nothing_recorded(agent: SealedAgent) -> str:
    if agent["strategy"] == "bets":
        return (
            f"nothing is scored: no bet of {agent['agent_id']} is on the tape; clvlab.grade_bets(bets, pack) reads bets from a "
            "file or a frame, and says of each that is not on the tape why"
        )
    return (
        f"nothing is scored: {agent['agent_id']} has no transcript, and without one it abstains from everything; give one as "
        "params={'transcript': [...]}"
    )


def _nothing_done(waits: int) -> str:
    did = f"abstained ({waits:,} times WAIT) and backed nothing" if waits else "made no decision"
    return f"nothing is scored: the agent {did}; loosen its conditions, or let it see more markets"


def _advice(reason: Reason, rows: pl.DataFrame, started: RunStarted, pack: Pack) -> str:
    first = rows.row(0, named=True)
    sentences: Mapping[Reason, Callable[[], str]] = {
        Reason.MARKET_KEY_MISSING: lambda: "name no market: give each a market_key",
        Reason.SIDE_MISSING: lambda: "name no side: give each a side",
        Reason.MARKET_NOT_ALLOWED: lambda: (
            f"are in markets that the window leaves out, such as {first['market_key']!r}: its market_allowlist is "
            f"{list(started['window']['market_allowlist'])}"
        ),
        Reason.OUTSIDE_WINDOW: lambda: (
            "were made when their window had ended, at the kickoff or in play: decide before, while in_running is false"
        ),
        Reason.ENTRY_MARKET_ABSENT: lambda: _market(first, pack),
        Reason.ENTRY_SUSPENDED: lambda: "were made while their market was suspended: decide when it is open",
        Reason.ENTRY_SIDE_MISSING: lambda: _side(first, pack),
        Reason.PENDING_HORIZON: lambda: (
            f"were made less than {started['window']['min_clv_horizon_s']} s before their close, and stay pending: decide "
            "earlier, or give a Window with a smaller min_clv_horizon_s"
        ),
    }
    return sentences[reason]() if reason in sentences else f"{_CLOSINGS[reason]}: choose other markets"


def _market(first: Mapping[str, Any], pack: Pack) -> str:
    name, fixture = first["market_key"], first["fixture_id"]
    known = _sides(fixture, pack)
    if name in known:
        return f"are in a market that was not quoted yet, such as {name!r} at tick {first['tick_seq']} of fixture {fixture}"
    listed = f"; it has: {_listed(list(known))}" if known else ""
    return f"are in a market that is not on the tape: fixture {fixture} has no {name!r}{did_you_mean(name, known)}{listed}"


def _side(first: Mapping[str, Any], pack: Pack) -> str:
    name, market = first["side"], first["market_key"]
    known = _sides(first["fixture_id"], pack).get(market, [])
    if not known or name in known:
        return f"are on a side that had no price, such as {name!r} of {market!r} at tick {first['tick_seq']}"
    return f"are on a side that is not on the tape: {market!r} has no side {name!r}; it has: {_listed(known)}"


def _sides(fixture_id: int, pack: Pack) -> dict[str, list[str]]:
    try:
        series = pack.tape([fixture_id]).series
    except PackError:  # a plan may hold this fixture out by now, so its markets are not named
        return {}
    found: dict[str, list[str]] = {}
    for market, side in series.select("market_key", "side").iter_rows():
        found.setdefault(market, []).append(side)
    return found


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(repr(name) for name in names[:_MOST_NAMES]) + more
