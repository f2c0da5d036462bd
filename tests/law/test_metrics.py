import polars as pl
import pytest

from clvlab.law.metrics import confidence, outcomes
from clvlab.law.schema import SCORES


def marks(*rows):
    default = dict.fromkeys(SCORES) | {"agent_id": "a", "fixture_id": 1, "tick_seq": 0, "valid": True, "reason": "scored"}
    frame = [default | {"seq": seq} | row for seq, row in enumerate(rows, 1)]
    return pl.DataFrame(frame, schema=SCORES)


def walk(*clvs):
    return marks(*({"clv_bps": clv, "edge_bps": 2 * clv} for clv in clvs))


def test_abstentions_and_pending_decisions_are_valid_and_count_in_no_sample():
    scores = marks(
        {"clv_bps": 30, "edge_bps": 5},
        {"clv_bps": -10, "edge_bps": -3},
        {"reason": "wait_unscored"},
        {"reason": "pending_horizon"},
        {"reason": "entry_suspended", "valid": False},
    )

    row = outcomes(scores).row(0, named=True)

    assert row == {
        "agent_id": "a", "action_count": 2, "valid_count": 2, "invalid_count": 1, "abstention_count": 1, "pending_count": 1,
        "valid_pct": 80.0, "total_clv_bps": 20, "mean_clv_bps": 10.0, "sim_pnl": 2, "brier": None,
        "max_drawdown": -10.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("clvs", "drawdown"),
    [((), 0), ((5, 5), 0), ((-5,), -5), ((-5, -5, 20), -10), ((10, -4, 3, -6, 50), -7), ((10, -30, 100, -10), -30)],
)
def test_drawdown_is_the_worst_fall_from_a_peak_that_starts_at_zero(clvs, drawdown):
    row = outcomes(walk(*clvs), ("a",)).row(0, named=True)

    assert row["max_drawdown"] == drawdown


def test_brier_judges_scored_decisions_that_name_a_confidence():
    scores = marks(
        {"clv_bps": 10, "confidence_ppm": 800_000},
        {"clv_bps": 0, "confidence_ppm": 500_000},  # a market that did not move did not beat the close
        {"clv_bps": 10},
        {"reason": "pending_horizon", "confidence_ppm": 0},
    )

    row = outcomes(scores).row(0, named=True)

    assert row["brier"] == pytest.approx((0.2**2 + 0.5**2) / 2)


def test_agents_without_decisions_get_a_row_of_nothing():
    frame = outcomes(walk(1), ("b", "a"))

    assert frame["agent_id"].to_list() == ["a", "b"]
    assert frame.row(1, named=True) == {
        "agent_id": "b", "action_count": 0, "valid_count": 0, "invalid_count": 0, "abstention_count": 0, "pending_count": 0,
        "valid_pct": 0.0, "total_clv_bps": 0, "mean_clv_bps": None, "sim_pnl": 0, "brier": None, "max_drawdown": 0.0,
    }  # fmt: skip


def test_agents_are_summed_apart():
    scores = marks(
        {"clv_bps": 10, "edge_bps": 1}, {"agent_id": "b", "clv_bps": -7, "edge_bps": 2}, {"clv_bps": -1, "edge_bps": 1}
    )

    frame = outcomes(scores)

    assert frame.select("agent_id", "total_clv_bps", "max_drawdown").rows() == [("a", 9, -1.0), ("b", -7, -7.0)]


def test_nothing_at_all_gives_an_empty_frame():
    assert outcomes(marks()).height == 0


@pytest.mark.parametrize(("count", "grade"), [(0, "low"), (29, "low"), (30, "medium"), (199, "medium"), (200, "high")])
def test_confidence_grows_with_the_sample(count, grade):
    assert confidence(count) == grade


def test_rows_without_an_agent_or_with_a_reason_that_is_none_of_the_law_count_for_nobody():
    scores = marks({"clv_bps": 1}, {"agent_id": None, "clv_bps": 100}, {"reason": "other"})

    frame = outcomes(scores)

    assert frame.select("agent_id", "action_count", "total_clv_bps").rows() == [("a", 1, 1)]
