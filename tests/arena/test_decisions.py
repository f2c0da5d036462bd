import polars as pl
import pytest
from pydantic import TypeAdapter

from clvlab.api.runs import DecisionListResponse
from clvlab.arena.runs.decisions import DECISION_ROWS, DecisionFilter, Order, RunDecisions
from clvlab.errors import PageError, UnknownRunError
from clvlab.law.schema import Reason
from clvlab.runs.inspector import inspect_decision
from clvlab.store import runs
from clvlab.store.database import Database
from tests.factories import make_limited_run, make_mixed_run, make_run, make_tape, message
from tests.tampering import rewrite

ROW = {"kind": "backtest", "origin_id": None, "source_mode": "replay", "mode_label": "Backtest", "lineage": {}}


def store(database, result):
    """Store a run as sealed; gives its id."""
    with database.write() as connection:
        runs.add(connection, ROW | {"run_id": result.sealed.run_id, "created_ts_ms": 0})
        runs.seal(connection, result.sealed, b"", checks={}, metrics={}, ts_ms=0)
    return result.sealed.run_id


@pytest.fixture
def database():
    opened = Database()
    yield opened
    opened.close()


@pytest.mark.parametrize("make", [make_mixed_run, make_limited_run])
def test_every_kind_of_decision_is_shown_as_by_the_inspector(database, make):
    result = make()

    answer = RunDecisions(database).page(store(database, result), DecisionFilter())

    assert TypeAdapter(DecisionListResponse).validate_python(answer)
    assert answer["total"] == len(answer["decisions"]) == result.sealed.scores.count(b"\n")
    for row in answer["decisions"]:
        record = inspect_decision(result.sealed, row["seq"])
        phases = record["policy"] and [record["policy"][phase]["allowed"] for phase in ("pre", "post")]
        assert row["policy"] == (phases and ("allowed" if all(phases) else "refused"))
        assert row["confidence"] == record["untrusted_llm_metadata"]["confidence"]
        assert row["action"] == record["agent_action"]["type"]
        shared = {"clv_bps", "valid", "reason", "entry_prob_bps", "close_prob_bps", "close_kind", "closing_age_ms"}
        assert {name: row[name] for name in shared} == {name: record["recompute"][name] for name in shared}
        named = {"market_key", "side", "stake", "limit_odds_milli"}
        assert {name: row[name] for name in named} == {name: record["agent_action"][name] for name in named}


def test_the_runs_above_have_what_is_easily_missed(database):
    decisions = RunDecisions(database)
    shown = [
        row
        for make in (make_mixed_run, make_limited_run)
        for row in decisions.page(store(database, make()), DecisionFilter())["decisions"]
    ]

    assert {row["policy"] for row in shown} == {None, "allowed", "refused"}
    assert {type(row["confidence"]) for row in shown} == {type(None), float, str}
    assert {"scored", "wait_unscored", "closing_stale", "entry_suspended"} <= {row["reason"] for row in shown}


@pytest.mark.parametrize("decided", [[], [{"action": "WAIT", "market_key": None, "side": None, "stake": None}]])
@pytest.mark.parametrize("order", Order)
def test_a_run_that_backs_nothing_is_a_table_too(database, decided, order):
    tape = make_tape([message(0, 0, {"part1": 4000, "part2": 6000})], {1: 600})
    decisions, run_id = RunDecisions(database), store(database, make_run(tape, *decided))

    assert decisions.page(run_id, DecisionFilter(), order)["total"] == len(decided)
    assert decisions.page(run_id, DecisionFilter(market=""), order)["total"] == 0
    assert pl.read_ipc_stream(decisions.as_arrow(run_id, DecisionFilter(), order).content).schema == DECISION_ROWS


@pytest.mark.parametrize("limit", [1, 2, 3])
@pytest.mark.parametrize("order", Order)
def test_pages_of_any_size_and_order_are_the_whole_list(database, order, limit):
    decisions, run_id = RunDecisions(database), store(database, make_mixed_run())
    whole = decisions.page(run_id, DecisionFilter(), order)["decisions"]

    found, cursor = [], None
    while True:
        page = decisions.page(run_id, DecisionFilter(), order, cursor, limit)
        found += page["decisions"]
        cursor = page["next_cursor"]
        if cursor is None:
            break

    assert found == whole
    clvs = [row["clv_bps"] for row in whole]
    scored = [clv for clv in clvs if clv is not None]
    assert len(set(scored)) < len(scored) < len(clvs)  # there are ties, and decisions without a CLV
    if order is not Order.SEQ:
        assert clvs == sorted(scored, reverse=order is Order.CLV_DESCENDING) + [None] * (len(clvs) - len(scored))


def test_a_cursor_of_another_filter_goes_on_after_the_row_that_it_names(database):
    decisions, run_id = RunDecisions(database), store(database, make_limited_run())
    cursor = decisions.page(run_id, DecisionFilter(), Order.SEQ, None, 4)["next_cursor"]

    page = decisions.page(run_id, DecisionFilter(reason=Reason.SCORED), Order.SEQ, cursor)

    assert all(row["seq"] > 4 and row["reason"] == "scored" for row in page["decisions"])


@pytest.mark.parametrize(
    "wanted", [DecisionFilter(agent_id="\ud800"), DecisionFilter(market="\x00"), DecisionFilter(side="a" * 10_000)]
)
def test_a_text_that_no_run_can_hold_matches_nothing(database, wanted):
    assert RunDecisions(database).page(store(database, make_mixed_run()), wanted)["decisions"] == []


@pytest.mark.parametrize("limit", [0, -1, 1001])
def test_a_page_has_one_to_a_thousand_rows(database, limit):
    with pytest.raises(PageError, match=str(limit)):
        RunDecisions(database).page(store(database, make_mixed_run()), DecisionFilter(), limit=limit)


@pytest.mark.parametrize(
    ("part", "old", "new"), [("events", b'"stake":100', b'"stake":101'), ("scores", b'"seq":1', b'"seq":2')]
)
def test_a_run_that_is_not_stored_as_it_was_sealed_is_not_shown(database, part, old, new):
    run_id = store(database, make_mixed_run())
    with database.write() as connection:
        rewrite(connection, run_id, lambda lines: lines.replace(old, new, 1), part=part)

    with pytest.raises(UnknownRunError, match="not stored as it was sealed"):
        RunDecisions(database).page(run_id, DecisionFilter())


def test_a_run_that_is_not_sealed_has_no_decisions_to_show(database):
    with database.write() as connection:
        runs.add(connection, ROW | {"run_id": "run_queued", "created_ts_ms": 0})

    with pytest.raises(UnknownRunError, match="run_queued"):
        RunDecisions(database).page("run_queued", DecisionFilter())
