import polars as pl
import pytest

from clvlab.errors import DecisionError, SchemaError
from clvlab.law.actions import check_decisions
from clvlab.law.schema import DECISIONS
from tests.factories import make_decisions


@pytest.mark.parametrize("column", ["agent_id", "fixture_id", "tick_seq", "action"])
def test_null_where_a_value_must_stand_is_refused(column):
    with pytest.raises(DecisionError, match="must not be null"):
        check_decisions(make_decisions({column: None}))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"action": "LAY"}, "BACK or WAIT"),
        ({"action": "back"}, "BACK or WAIT"),
        ({"agent_id": ""}, "agent_id must have"),
        ({"agent_id": "é" * 101}, "agent_id must have"),
        ({"market_key": "m" * 201}, "limit of 200 bytes"),
        ({"side": "s" * 201}, "limit of 200 bytes"),
        ({"reason": "é" * 1001}, "limit of 2000 bytes"),
        ({"stake": -1}, "stake"),
        ({"stake": 2**53}, "stake"),
        ({"limit_odds_milli": -1}, "limit_odds_milli"),
        ({"claimed_edge_bps": 2**53}, "claimed_edge_bps"),
        ({"claimed_edge_bps": -(2**53)}, "claimed_edge_bps"),
        ({"fixture_id": 2**53}, "fixture_id"),
    ],
)
def test_value_out_of_bounds_is_refused_by_name(fields, text):
    with pytest.raises(DecisionError, match=text):
        check_decisions(make_decisions({}, {"tick_seq": 1} | fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"reason": "é" * 1000},
        {"agent_id": "é" * 100},
        {"stake": 0},
        {"stake": 2**53 - 1, "claimed_edge_bps": -(2**53) + 1},
        {"market_key": None, "side": None, "stake": None},
        {"confidence": float("nan")},
        {"confidence": -3.0},
    ],
)
def test_value_on_its_bound_and_an_absurd_confidence_are_kept(fields):
    decisions = make_decisions(fields)

    assert check_decisions(decisions).equals(decisions)


@pytest.mark.parametrize(
    "second", [{}, {"stake": 5, "reason": "again"}, {"action": "WAIT", "side": "x"}], ids=["same", "other stake", "second wait"]
)
def test_second_decision_of_the_same_key_is_refused(second):
    first = {"action": second.get("action", "BACK")}

    with pytest.raises(DecisionError, match="more than one decision"):
        check_decisions(make_decisions(first, second))


def test_second_decision_without_a_market_is_refused():
    with pytest.raises(DecisionError, match="more than one decision"):
        check_decisions(make_decisions({"market_key": None, "side": None}, {"market_key": None, "side": None}))


def test_other_agents_ticks_markets_and_sides_may_decide_alongside():
    decisions = make_decisions(
        {}, {"agent_id": "b"}, {"tick_seq": 1}, {"market_key": "m|"}, {"side": "part2"}, {"side": None}, {"action": "WAIT"}
    )

    assert check_decisions(decisions).height == 7


def test_no_decisions_are_fine():
    assert check_decisions(make_decisions()).schema == pl.Schema(DECISIONS)


@pytest.mark.parametrize(
    "frame",
    [
        make_decisions({}).drop("reason"),
        make_decisions({}).with_columns(mood=pl.lit("good")),
        make_decisions({}).with_columns(stake=pl.lit(1.5)),
        make_decisions({}).with_columns(tick_seq=pl.lit(2**40)),
    ],
    ids=["missing", "unknown", "another dtype", "overflow"],
)
def test_frame_of_another_shape_is_refused(frame):
    with pytest.raises(SchemaError):
        check_decisions(frame)


def test_other_widths_of_integer_take_the_schema():
    frame = make_decisions({}).with_columns(pl.col("tick_seq").cast(pl.UInt8), pl.lit(None).alias("confidence"))

    assert check_decisions(frame).schema == pl.Schema(DECISIONS)
