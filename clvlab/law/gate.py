"""The policy gate: whether a proposed action may be executed, judged before and after a quote is requested.

The gate sees only facts known at the decision, never a close. It decides only on execution, and scores do not depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from clvlab.law.clv import allowed, quoted_edge_bps
from clvlab.law.lines import NONE, Bools, Categorical, Ints, Proposals, known
from clvlab.law.policy import PAPER_VENUE, PolicyEnvelope
from clvlab.law.schema import Action


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


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The gate's reasons against each proposal in both phases, as bits in the order of reports; null for a WAIT."""

    pre: Ints
    post: Ints


def verdicts(proposals: Proposals, envelope: PolicyEnvelope, market_allowlist: tuple[str, ...] = ("",)) -> Verdicts:
    """Judge proposals. An action is allowed if neither phase has a reason against it."""
    back = proposals.action.equals(Action.BACK)
    pre = _bits(_pre_quote(proposals, envelope, market_allowlist), PreQuote)
    post = _bits(_post_quote(proposals, envelope), PostQuote)
    # Caps count only allowed actions, so they need a pass in order of time after the rules about single actions.
    if any(limit is not None for limit in _counters(envelope)):
        sound = back & (pre == 0) & (post == 0)
        pre |= np.fromiter(_counted(proposals, sound, envelope), dtype=np.int64, count=len(pre))
    return Verdicts(np.where(back, pre, NONE), np.where(back, post, NONE))


def _pre_quote(proposals: Proposals, envelope: PolicyEnvelope, market_allowlist: tuple[str, ...]) -> dict[str, Bools]:
    # A null never passes as a number. The rule about a stake or a price refuses an action without it, so an agent can't evade
    # a limit by leaving a field out (policy.md).
    stake, prob = proposals.stake, proposals.entry_prob_bps
    prefixes = market_allowlist if envelope.market_allowlist is None else envelope.market_allowlist
    every = np.ones(len(stake), dtype=np.bool_)
    return {
        PreQuote.KILL_SWITCH_ON: every & envelope.kill_switch,
        PreQuote.MARKET_NOT_ALLOWED: ~allowed(proposals.market_key, prefixes),
        PreQuote.VENUE_NOT_ALLOWED: every & (PAPER_VENUE not in envelope.venue_allowlist),
        PreQuote.WARMUP: proposals.tick_seq < envelope.warmup_ticks,
        PreQuote.STAKE_MISSING: ~known(stake) | (stake == 0),
        PreQuote.STAKE_OVER_MAX: stake > envelope.max_stake,
        PreQuote.PROB_OUT_OF_RANGE: ~known(prob) | (prob < envelope.min_prob_bps) | (prob > envelope.max_prob_bps),
    }


def _post_quote(proposals: Proposals, envelope: PolicyEnvelope) -> dict[str, Bools]:
    # The edge is computed at the entry probability. At the closing one, the gate would leak the future into execution.
    quote, limit, prob = proposals.odds_milli, proposals.limit_odds_milli, proposals.entry_prob_bps
    limited = known(quote) & (limit > 0)  # a limit of 0 means no limit
    slippage_bps = np.maximum(limit - quote, 0) * 10_000 // np.where(limited, limit, 1)
    edge_known = known(quote) & known(prob)
    return {
        PostQuote.QUOTE_MISSING: ~known(quote) & envelope.require_quote,
        PostQuote.QUOTE_STALE: proposals.quote_age_ms > 1000 * envelope.max_quote_age_s,
        PostQuote.SLIPPAGE_OVER_MAX: limited & (slippage_bps > envelope.max_slippage_bps),
        PostQuote.EDGE_BELOW_MIN: np.zeros_like(limited)
        if envelope.min_edge_bps is None
        else ~edge_known | (quoted_edge_bps(prob, quote) < envelope.min_edge_bps),
        PostQuote.STAKE_OVER_MAX: proposals.stake > envelope.max_stake,
    }


def _counters(envelope: PolicyEnvelope) -> tuple[int | None, ...]:
    """Return the limits that depend on earlier allowed actions; ``None`` for a limit that is off."""
    exposures = (envelope.max_exposure_per_market, envelope.max_exposure_per_fixture)
    return (envelope.cooldown_s or None, envelope.max_orders, *exposures)


def _counted(proposals: Proposals, passed: Bools, envelope: PolicyEnvelope) -> Iterator[int]:
    """Judge cooldown and caps in order of time, and yield the bits of each proposal's reasons."""
    cooldown, orders, exposure = (
        1 << list(PreQuote).index(reason) for reason in (PreQuote.COOLDOWN_ACTIVE, PreQuote.ORDER_CAP, PreQuote.EXPOSURE_CAP)
    )
    no_limit = float("inf")
    cooldown_s, max_orders, per_market, per_fixture = (no_limit if limit is None else limit for limit in _counters(envelope))
    cooldown_ms = 0 if cooldown_s == no_limit else 1000 * cooldown_s
    ready_ms: dict[tuple[int, int, int], float] = {}
    on_market: dict[tuple[int, int, int], int] = {}
    on_fixture: dict[tuple[int, int], int] = {}
    count: dict[int, int] = {}
    stakes = np.where(known(proposals.stake), proposals.stake, 0)
    agents, keys = proposals.agent_id.codes, proposals.market_key.codes
    columns = (agents, proposals.fixture_id, keys, proposals.ts_ms, stakes, passed)
    for agent, fixture, key, ts_ms, stake, sound in zip(*(column.tolist() for column in columns), strict=True):
        market, match = (agent, fixture, key), (agent, fixture)
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


def _bits(rules: Mapping[str, Bools], reasons: type[StrEnum]) -> Ints:
    places = {reason.value: place for place, reason in enumerate(reasons)}
    bits = np.zeros(len(next(iter(rules.values()))), dtype=np.int64)
    for name, broken in rules.items():
        bits |= broken.astype(np.int64) << places[name]
    return bits


def reasons_of(bits: int, reasons: type[StrEnum]) -> tuple[str, ...]:
    """Return the reasons of some bits, in the order of reports."""
    return tuple(reason.value for place, reason in enumerate(reasons) if bits >> place & 1)


def bits_of(stated: tuple[str, ...], reasons: type[StrEnum]) -> int:
    """Return the bits of some reasons; -1 if the gate never reports them so."""
    bits = sum(1 << list(reasons).index(reasons(one)) for one in {*stated})
    return bits if reasons_of(bits, reasons) == stated else -1


def listed(bits: Ints, reasons: type[StrEnum]) -> Categorical[tuple[str, ...]]:
    """Return the reasons of each proposal; null for a WAIT."""
    distinct, codes = np.unique(bits, return_inverse=True)
    values = [reasons_of(one, reasons) for one in distinct.tolist() if one != NONE]
    return Categorical(codes - (len(distinct) - len(values)), values)  # null sorts first
