import polars as pl
import pytest

from clvlab.law.closing import Window
from clvlab.law.clv import scores
from clvlab.law.lines import Positions, columns_of
from clvlab.law.schema import MAX_CLOSE_AGE_S, POSITIONS, SAFE_INTEGER, Reason

SCORED = {
    "seq": 1, "agent_id": "a", "fixture_id": 1, "tick_seq": 0, "ts_ms": 0, "action": "BACK", "market_key": "m|",
    "side": "part1",
    "confidence_ppm": None, "entry_present": True, "entry_suspended": False, "entry_prob_bps": 5000, "odds_milli": 1900,
    "closing_present": True, "closing_suspended": False, "close_prob_bps": 5500, "closing_ts_ms": 590_000, "end_seq": 10,
    "close_ts_ms": 600_000, "close_kind": "kickoff",
}  # fmt: skip

# What makes a position fail each rule, in the order of the law. Each keeps all later failures.
FAILURES = {
    Reason.WAIT_UNSCORED: {"action": "WAIT"},
    Reason.MARKET_KEY_MISSING: {"market_key": None},
    Reason.SIDE_MISSING: {"side": None},
    Reason.MARKET_NOT_ALLOWED: {"market_key": "n|"},
    Reason.OUTSIDE_WINDOW: {"end_seq": 0},
    Reason.ENTRY_MARKET_ABSENT: {"entry_present": False},
    Reason.ENTRY_SUSPENDED: {"entry_suspended": True},
    Reason.ENTRY_SIDE_MISSING: {"entry_prob_bps": None},
    Reason.CLOSING_MARKET_ABSENT: {"closing_present": False},
    Reason.CLOSING_SUSPENDED: {"closing_suspended": True},
    Reason.CLOSING_STALE: {"closing_ts_ms": 539_999},
    Reason.CLOSING_SIDE_MISSING: {"close_prob_bps": None},
    Reason.PENDING_HORIZON: {"ts_ms": 600_000},
    Reason.SCORED: {},
}
ORDER = list(FAILURES)


def scored(*changes, window=None, max_close_age_s=60):
    window = window or Window(market_allowlist=("m|",))
    frame = pl.DataFrame([SCORED | change for change in changes], schema=POSITIONS)
    return scores(Positions(**columns_of(frame)), window, max_close_age_s).to_dicts()


@pytest.mark.parametrize("reason", ORDER)
def test_each_rule_names_its_reason(reason):
    (row,) = scored(FAILURES[reason])

    assert row["reason"] == reason
    assert row["valid"] == (reason in {Reason.WAIT_UNSCORED, Reason.PENDING_HORIZON, Reason.SCORED})
    assert (row["clv_bps"] is None) == (row["edge_bps"] is None) == (reason != Reason.SCORED)


@pytest.mark.parametrize("first", range(len(ORDER) - 1))
def test_first_failed_rule_wins_over_all_later_ones(first):
    everything_later = {}
    for reason in reversed(ORDER[first:]):
        everything_later |= FAILURES[reason]

    (row,) = scored(everything_later)

    assert row["reason"] == ORDER[first]


def test_reasons_are_listed_in_the_order_of_the_law():
    assert list(Reason) == ORDER


@pytest.mark.parametrize(("ts_ms", "reason"), [(540_000, "scored"), (540_001, "pending_horizon"), (0, "scored")])
def test_exactly_the_horizon_is_far_enough(ts_ms, reason):
    (row,) = scored({"ts_ms": ts_ms}, window=Window(min_clv_horizon_s=60))

    assert row["reason"] == reason


@pytest.mark.parametrize(("tick_seq", "reason"), [(9, "scored"), (10, "outside_window")])
def test_end_of_the_window_is_exclusive(tick_seq, reason):
    (row,) = scored({"tick_seq": tick_seq})

    assert row["reason"] == reason


@pytest.mark.parametrize(
    ("allowlist", "reason"),
    [
        (("",), "scored"),
        (("m",), "scored"),
        (("x", "m|"), "scored"),
        (("m||",), "market_not_allowed"),
        ((), "market_not_allowed"),
        (("x",) * 999 + ("m",), "scored"),
        (("x",) * 1000, "market_not_allowed"),
    ],
)
def test_allowlist_holds_prefixes(allowlist, reason):
    (row,) = scored({}, window=Window(market_allowlist=allowlist))

    assert row["reason"] == reason


@pytest.mark.parametrize(
    ("entry", "odds", "close", "edge"),
    [
        (5000, 1900, 5500, 450),
        (5000, 2000, 5000, 0),
        (5000, 1500, 4999, -2501),  # 7498.5 rounds half up to 7499
        (5000, 1500, 5001, -2498),  # 7501.5 to 7502
        (5000, None, 5500, 1000),
        (3, None, 1, -6667),  # 3333.3 down
        (3, None, 2, -3333),  # 6666.7 up
        (16, None, 1, -9375),
        (32, None, 1, -9687),  # 312.5 half up to 313
        (0, None, 5500, None),
        (0, 1900, 5500, 450),
        (5000, 1900, 0, -10_000),
        (9000, 2_000_000, 9000, 17_990_000),  # the product leaves 32 bits
        (1, 100_000_000, 10_000, 999_990_000),
    ],
)
def test_edge_values_the_price_taken_at_the_close(entry, odds, close, edge):
    (row,) = scored({"entry_prob_bps": entry, "odds_milli": odds, "close_prob_bps": close})

    assert (row["clv_bps"], row["edge_bps"]) == (close - entry, edge)


def test_age_of_the_close_stands_in_every_row_that_has_one():
    aged, unclosed = scored({"ts_ms": 600_000}, {"seq": 2, "closing_present": False, "closing_ts_ms": None})

    assert (aged["reason"], aged["closing_age_ms"]) == ("pending_horizon", 10_000)
    assert unclosed["closing_age_ms"] is None


@pytest.mark.parametrize(
    ("age_ms", "limit_s", "reason"),
    [
        (0, 1, "scored"),
        (1000, 1, "scored"),
        (1001, 1, "closing_stale"),
        (600_000, 600, "scored"),
        (600_000, 599, "closing_stale"),
        (600_000, None, "scored"),
        (600_000, MAX_CLOSE_AGE_S, "scored"),
    ],
)
def test_exactly_the_limit_is_young_enough(age_ms, limit_s, reason):
    (row,) = scored({"closing_ts_ms": 600_000 - age_ms}, max_close_age_s=limit_s)

    assert (row["reason"], row["closing_age_ms"], row["close_prob_bps"]) == (reason, age_ms, 5500)


def test_largest_limit_is_compared_without_overflow():
    oldest = {"closing_ts_ms": 0, "close_ts_ms": SAFE_INTEGER}
    as_old = {"closing_ts_ms": 0, "close_ts_ms": 1000 * MAX_CLOSE_AGE_S}

    assert [row["reason"] for row in scored(oldest, as_old, max_close_age_s=MAX_CLOSE_AGE_S)] == ["closing_stale", "scored"]


def test_close_that_is_not_there_has_no_age():
    (row,) = scored({"closing_present": False, "closing_ts_ms": None, "close_prob_bps": None}, max_close_age_s=1)

    assert row["reason"] == "closing_market_absent"


def test_rows_come_in_order_of_seq():
    rows = scored({"seq": 3}, {"seq": 1}, {"seq": 2})

    assert [row["seq"] for row in rows] == [1, 2, 3]


def test_no_positions_give_no_scores():
    assert scored() == []
