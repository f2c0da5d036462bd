"""The policy gate: whether a proposed action may be executed, judged before and after a quote is requested.

The gate sees only facts known at the decision, never a close. It decides only on execution, and scores do not depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache, lru_cache
from typing import cast

import polars as pl

from clvlab.law.clv import is_allowed, quoted_edge_bps
from clvlab.law.columns import nulls, taken
from clvlab.law.policy import PAPER_VENUE, PolicyEnvelope
from clvlab.law.schema import PROPOSALS, REASONS, VERDICTS, Action, conform


class PreQuote(StrEnum):
    """Reasons against a request for a quote, in the order of reports."""

    KILL_SWITCH_ON = "kill_switch_on"
    MARKET_NOT_ALLOWED = "market_not_allowed"
    VENUE_NOT_ALLOWED = "venue_not_allowed"
    WARMUP = "warmup"
    COOLDOWN_ACTIVE = "cooldown_active"
    STAKE_MISSING = "stake_missing"
    STAKE_OVER_MAX = "stake_over_max"
    PROB_OUT_OF_RANGE = "prob_out_of_range"
    ORDER_CAP = "order_cap"
    EXPOSURE_CAP = "exposure_cap"


class PostQuote(StrEnum):
    """Reasons against taking the quote, in the order of reports."""

    QUOTE_MISSING = "quote_missing"
    QUOTE_STALE = "quote_stale"
    SLIPPAGE_OVER_MAX = "slippage_over_max"
    EDGE_BELOW_MIN = "edge_below_min"
    STAKE_OVER_MAX = "stake_over_max"


def verdicts(proposals: pl.DataFrame, envelope: PolicyEnvelope, market_allowlist: tuple[str, ...] = ("",)) -> pl.DataFrame:
    """Return ``VERDICTS`` of ``PROPOSALS`` in sealed order. An action is allowed if neither phase has a reason against it."""
    proposals = conform(proposals, PROPOSALS, "PROPOSALS")
    back = proposals["action"] == Action.BACK
    pre, post = proposals.select(_masks(envelope, market_allowlist)).get_columns()
    # Caps count only allowed actions, so they need a pass in order of time after the rules about single actions.
    if any(limit is not None for limit in _counters(envelope)):
        pre |= pl.Series(_counted(proposals, back & (pre == 0) & (post == 0), envelope), dtype=pl.Int64)
    return pl.DataFrame({"pre": _listed(pre, PreQuote, back), "post": _listed(post, PostQuote, back)}, schema=VERDICTS)


def _pre_quote(envelope: PolicyEnvelope, market_allowlist: tuple[str, ...]) -> dict[str, pl.Expr]:
    # A null never passes as a number. The rule about a stake or a price refuses an action without it, so an agent can't evade
    # a limit by leaving a field out (policy.md).
    stake, prob = pl.col("stake"), pl.col("entry_prob_bps")
    prefixes = market_allowlist if envelope.market_allowlist is None else envelope.market_allowlist
    return {
        PreQuote.KILL_SWITCH_ON: pl.lit(envelope.kill_switch),
        PreQuote.MARKET_NOT_ALLOWED: ~is_allowed(prefixes).fill_null(value=False),
        PreQuote.VENUE_NOT_ALLOWED: pl.lit(PAPER_VENUE not in envelope.venue_allowlist),
        PreQuote.WARMUP: pl.col("tick_seq") < envelope.warmup_ticks,
        PreQuote.STAKE_MISSING: stake.fill_null(0) == 0,
        PreQuote.STAKE_OVER_MAX: (stake > envelope.max_stake).fill_null(value=False),
        PreQuote.PROB_OUT_OF_RANGE: ~prob.is_between(envelope.min_prob_bps, envelope.max_prob_bps).fill_null(value=False),
    }


def _post_quote(envelope: PolicyEnvelope) -> dict[str, pl.Expr]:
    # The edge is computed at the entry probability. At the closing one, the gate would leak the future into execution.
    quote, limit = pl.col("odds_milli"), pl.col("limit_odds_milli")
    # Division by a limit of 0 gives null, which means no limit.
    slippage_bps = pl.max_horizontal(limit - quote, 0) * 10_000 // limit
    edge = quoted_edge_bps("entry_prob_bps")
    return {
        PostQuote.QUOTE_MISSING: quote.is_null() if envelope.require_quote else pl.lit(value=False),
        PostQuote.QUOTE_STALE: (pl.col("quote_age_ms") > 1000 * envelope.max_quote_age_s).fill_null(value=False),
        PostQuote.SLIPPAGE_OVER_MAX: (slippage_bps > envelope.max_slippage_bps).fill_null(value=False),
        PostQuote.EDGE_BELOW_MIN: pl.lit(value=False)
        if envelope.min_edge_bps is None
        else (edge < envelope.min_edge_bps).fill_null(value=True),
        PostQuote.STAKE_OVER_MAX: (pl.col("stake") > envelope.max_stake).fill_null(value=False),
    }


def _counters(envelope: PolicyEnvelope) -> tuple[int | None, ...]:
    """Return the limits that depend on earlier allowed actions; ``None`` for a limit that is off."""
    exposures = (envelope.max_exposure_per_market, envelope.max_exposure_per_fixture)
    return (envelope.cooldown_s or None, envelope.max_orders, *exposures)


def _counted(proposals: pl.DataFrame, passed: pl.Series, envelope: PolicyEnvelope) -> Iterator[int]:
    """Judge cooldown and caps in order of time, and yield the bits of each proposal's reasons."""
    cooldown, orders, exposure = (
        1 << list(PreQuote).index(reason) for reason in (PreQuote.COOLDOWN_ACTIVE, PreQuote.ORDER_CAP, PreQuote.EXPOSURE_CAP)
    )
    no_limit = float("inf")
    cooldown_s, max_orders, per_market, per_fixture = (no_limit if limit is None else limit for limit in _counters(envelope))
    cooldown_ms = 0 if cooldown_s == no_limit else 1000 * cooldown_s
    ready_ms: dict[tuple[str, int, str | None], float] = {}
    on_market: dict[tuple[str, int, str | None], int] = {}
    on_fixture: dict[tuple[str, int], int] = {}
    count: dict[str, int] = {}
    columns = proposals.select("agent_id", "fixture_id", "market_key", "ts_ms", pl.col("stake").fill_null(0), passed=passed)
    for agent, fixture, name, ts_ms, stake, sound in zip(*(column.to_list() for column in columns), strict=True):
        market, match = (agent, fixture, name), (agent, fixture)
        bits = 0
        if ts_ms < ready_ms.get(market, ts_ms):
            bits |= cooldown
        if count.get(agent, 0) >= max_orders:
            bits |= orders
        if on_market.get(market, 0) + stake > per_market or on_fixture.get(match, 0) + stake > per_fixture:
            bits |= exposure
        if sound and not bits:  # a refused action counts toward no cap, or an agent could exhaust its own caps with refusals
            ready_ms[market] = ts_ms + cooldown_ms
            count[agent] = count.get(agent, 0) + 1
            on_market[market] = on_market.get(market, 0) + stake
            on_fixture[match] = on_fixture.get(match, 0) + stake
        yield bits


@lru_cache(maxsize=64)  # building them takes as long as judging a small run
def _masks(envelope: PolicyEnvelope, market_allowlist: tuple[str, ...]) -> list[pl.Expr]:
    rules = {PreQuote: _pre_quote(envelope, market_allowlist), PostQuote: _post_quote(envelope)}
    return [_mask(broken, reasons).alias(reasons.__name__) for reasons, broken in rules.items()]


def _mask(rules: Mapping[str, pl.Expr], reasons: type[StrEnum]) -> pl.Expr:
    places = {reason.value: bit for bit, reason in enumerate(reasons)}
    return pl.sum_horizontal(pl.lit(0, pl.Int64), *(rule.cast(pl.Int64) * (1 << places[name]) for name, rule in rules.items()))


def _listed(mask: pl.Series, reasons: type[StrEnum], back: pl.Series) -> pl.Series:
    largest = cast("int", mask.max() or 0)
    return taken(_reason_lists(reasons, largest.bit_length()), mask.zip_with(back, nulls(len(mask))))


@cache
def _reason_lists(reasons: type[StrEnum], bits: int) -> pl.Series:
    """Return the lists of every mask of the first ``bits`` reasons. A thousand lists take longer than a small run."""
    names = [reason.value for reason in reasons]
    lists = [[name for bit, name in enumerate(names) if number >> bit & 1] for number in range(1 << bits)]
    return pl.Series(lists, dtype=REASONS)
