import polars as pl
import pytest

from clvlab.law.gate import PostQuote, PreQuote, listed, verdicts
from clvlab.law.lines import Proposals, columns_of
from clvlab.law.policy import PolicyEnvelope

PROPOSALS = {
    "agent_id": pl.String, "fixture_id": pl.Int64, "tick_seq": pl.Int64, "ts_ms": pl.Int64, "action": pl.String,
    "market_key": pl.String, "stake": pl.Int64, "limit_odds_milli": pl.Int64, "entry_prob_bps": pl.Int64,
    "odds_milli": pl.Int64, "quote_age_ms": pl.Int64,
}  # fmt: skip
DEFAULT = {
    "agent_id": "a", "fixture_id": 1, "tick_seq": 5, "ts_ms": 0, "action": "BACK", "market_key": "1X2||", "stake": 100,
    "limit_odds_milli": None, "entry_prob_bps": 5000, "odds_milli": 2000, "quote_age_ms": 0,
}  # fmt: skip


def judged(envelope, *proposals):
    frame = pl.DataFrame([DEFAULT | proposal for proposal in proposals], schema=PROPOSALS)
    found = verdicts(Proposals(**columns_of(frame)), envelope)
    phases = listed(found.pre, PreQuote).tolist(), listed(found.post, PostQuote).tolist()
    return [tuple(None if reasons is None else list(reasons) for reasons in one) for one in zip(*phases, strict=True)]


def test_action_within_all_limits_is_allowed():
    assert judged(PolicyEnvelope(), {}) == [([], [])]


ALONE = {
    PreQuote.KILL_SWITCH_ON: (PolicyEnvelope(kill_switch=True), {}, None),
    PreQuote.MARKET_NOT_ALLOWED: (PolicyEnvelope(("OU",)), {}, {"market_key": "OU|x"}),
    PreQuote.VENUE_NOT_ALLOWED: (PolicyEnvelope(venue_allowlist=("elsewhere",)), {}, None),
    PreQuote.WARMUP: (PolicyEnvelope(warmup_ticks=6), {}, {"tick_seq": 6}),
    PreQuote.STAKE_MISSING: (PolicyEnvelope(), {"stake": None}, {"stake": 1}),
    PreQuote.PROB_OUT_OF_RANGE: (PolicyEnvelope(max_prob_bps=4999), {}, {"entry_prob_bps": 4999}),
    PostQuote.QUOTE_MISSING: (PolicyEnvelope(), {"odds_milli": None}, {}),
    PostQuote.QUOTE_STALE: (PolicyEnvelope(), {"quote_age_ms": 900_001}, {"quote_age_ms": 900_000}),
    PostQuote.SLIPPAGE_OVER_MAX: (PolicyEnvelope(), {"limit_odds_milli": 2021}, {"limit_odds_milli": 2020}),
    PostQuote.EDGE_BELOW_MIN: (PolicyEnvelope(min_edge_bps=1), {}, {"odds_milli": 2001}),
}


@pytest.mark.parametrize("reason", ALONE)
def test_reason_stands_alone_and_only_beyond_its_limit(reason):
    envelope, refused, allowed = ALONE[reason]

    assert judged(envelope, refused) == [([reason], []) if isinstance(reason, PreQuote) else ([], [reason])]
    if allowed is not None:
        assert judged(envelope, allowed) == [([], [])]


def test_stake_over_the_maximum_is_a_reason_in_both_phases():
    assert judged(PolicyEnvelope(max_stake=99), {}) == [(["stake_over_max"], ["stake_over_max"])]


def test_all_reasons_are_collected_in_order():
    envelope = PolicyEnvelope(
        (),
        venue_allowlist=(),
        max_stake=9,
        max_exposure_per_market=9,
        max_orders=0,
        warmup_ticks=9,
        min_edge_bps=0,
        kill_switch=True,
    )
    everything = {"entry_prob_bps": None, "odds_milli": None, "quote_age_ms": 1_000_000}

    (pre, post), (missing, _) = judged(envelope, everything, {"stake": 0})

    assert pre == [reason for reason in PreQuote if reason not in ("cooldown_active", "stake_missing")]
    assert post == [reason for reason in PostQuote if reason != "slippage_over_max"]
    assert "stake_missing" in missing


def test_nothing_is_required_of_a_market_that_is_not_on_the_tape_but_a_price():
    absent = {"entry_prob_bps": None, "odds_milli": None, "quote_age_ms": None, "market_key": None}

    assert judged(PolicyEnvelope(), absent) == [(["market_not_allowed", "prob_out_of_range"], ["quote_missing"])]


def test_action_without_a_quote_passes_where_none_is_required():
    assert judged(PolicyEnvelope(require_quote=False), {"odds_milli": None}) == [([], [])]


def test_wait_is_not_judged():
    assert judged(PolicyEnvelope(kill_switch=True), {"action": "WAIT"}) == [(None, None)]


def test_cooldown_counts_from_the_last_allowed_action_on_that_market():
    envelope = PolicyEnvelope(cooldown_s=60)
    at = [{"ts_ms": ts} for ts in (0, 59_999, 60_000, 119_999)]
    elsewhere = [{"ts_ms": 120_000, "market_key": "OU|"}, {"ts_ms": 120_001, "agent_id": "b"}]

    found = [pre for pre, _ in judged(envelope, *at, *elsewhere)]

    assert found == [[], ["cooldown_active"], [], ["cooldown_active"], [], []]


def test_refused_action_starts_no_cooldown_and_uses_no_cap():
    envelope = PolicyEnvelope(cooldown_s=60, max_orders=1, max_exposure_per_market=100)

    found = judged(envelope, {"odds_milli": None}, {"ts_ms": 1}, {"ts_ms": 2})

    assert found == [
        ([], ["quote_missing"]),
        ([], []),
        (["cooldown_active", "order_cap", "exposure_cap"], []),
    ]


def test_orders_are_capped_per_agent():
    found = judged(PolicyEnvelope(max_orders=1), {}, {"agent_id": "b"}, {"ts_ms": 1, "fixture_id": 2})

    assert [pre for pre, _ in found] == [[], [], ["order_cap"]]


@pytest.mark.parametrize(("name", "elsewhere"), [("market", {"market_key": "OU|"}), ("fixture", {"fixture_id": 2})])
def test_exposure_is_capped(name, elsewhere):
    envelope = PolicyEnvelope(**{f"max_exposure_per_{name}": 250})

    found = judged(envelope, {}, {"ts_ms": 1}, {"ts_ms": 2}, {"ts_ms": 3, "stake": 50}, {"ts_ms": 4} | elsewhere)

    assert [pre for pre, _ in found] == [[], [], ["exposure_cap"], [], []]


def test_largest_stakes_do_not_overflow():
    envelope = PolicyEnvelope(max_stake=2**53 - 1, max_exposure_per_fixture=2**53 - 1)
    odds = {"odds_milli": 100_000_000, "limit_odds_milli": 100_000_000, "entry_prob_bps": 9999}

    found = judged(
        envelope, *({"stake": 2**53 - 1, "ts_ms": ts} | odds for ts in range(3)), odds | {"limit_odds_milli": 2**31 - 1}
    )

    assert found == [([], []), (["exposure_cap"], []), (["exposure_cap"], []), (["exposure_cap"], ["slippage_over_max"])]


def test_gate_of_nothing_is_nothing():
    assert judged(PolicyEnvelope(max_orders=1)) == []
