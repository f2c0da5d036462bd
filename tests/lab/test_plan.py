import pytest

import clvlab as cl
from clvlab.arena.log.operations import open_log
from clvlab.arena.searches import trial_of
from clvlab.errors import (
    AgentError,
    HeldOutError,
    LogConflictError,
    PackFormatError,
    StatisticsError,
    UnknownFixtureError,
    UnsupportedError,
)
from clvlab.lab.laboratory.local import LocalBackend
from clvlab.lab.laboratory.methods import Verbs
from clvlab.proof.canonical import canonical, sha256
from tests.length import few
from tests.logs import audited

GRID = {"warmup_ticks": [20, 40], "cooldown_s": [600, 3600]}
POINT, OTHER = {"warmup_ticks": 20, "cooldown_s": 600}, {"warmup_ticks": 40, "cooldown_s": 600}


@pytest.fixture
def lab(tmp_path):
    with cl.Lab(tmp_path / "lab.db") as made:
        yield made


@pytest.fixture
def plan(lab):
    return lab.plan("starter", "cumulative-drift", GRID, hold_out=0.45, objective="edge")


@pytest.fixture
def logged(tmp_path):
    """Reads the entries of the laboratory's log."""

    def read():
        with open_log(tmp_path / "lab.db") as log, log.read() as rows:
            return [rows.entry(index) for index in range(rows.size())]

    return read


def test_the_plan_stands_in_the_log_before_anything_is_searched(plan, logged):
    (entry,) = logged()

    assert plan.index == 0
    assert sha256(canonical(dict(plan.payload))).encode() in entry
    assert plan.payload["grid"] == {name: list(values) for name, values in GRID.items()}
    assert (plan.payload["objective"], plan.payload["hold_out"]["fixture_ids"]) == ("edge", list(plan.held_out))


@few(3)
@pytest.mark.parametrize(
    "call",
    [
        lambda lab, _: lab.backtest("starter", "baseline"),
        lambda lab, held: lab.backtest("starter", "baseline", fixtures=held[:1]),
        lambda lab, held: lab.backtest(cl.open_pack("starter"), "baseline", fixtures=held[-1:]),
        lambda lab, held: lab.backtest(cl.open_pack("starter").source.folder, "baseline", fixtures=held),
        lambda lab, held: lab.compete("starter", ["baseline", "cumulative-drift"], fixtures=held),
        lambda lab, held: lab.sweep("starter", "baseline", {"stake": [1]}, fixtures=held),
        lambda lab, _: lab.walk_forward("starter", "baseline", {"stake": [1]}),
        lambda lab, _: lab.plan("starter", "baseline", {"stake": [1]}, hold_out=0.5),
    ],
)
def test_no_call_reads_what_is_held_out(lab, plan, call, logged):
    before = len(logged())

    with pytest.raises(HeldOutError, match=plan.plan_id):
        call(lab, plan.held_out)

    assert len(logged()) == before  # nor is anything committed to


def test_sql_sees_neither_ticks_nor_results_of_it(lab, plan):
    ticks = lab.sql("SELECT DISTINCT fixture_id FROM ticks WHERE pack_id = 'starter'").frame
    results = lab.sql("SELECT DISTINCT fixture_id FROM results WHERE pack_id = 'starter'").frame

    assert set(ticks["fixture_id"]) == set(plan.training)
    assert set(results["fixture_id"]).isdisjoint(plan.held_out)


def test_the_shut_fixtures_are_shut_for_whoever_opens_the_file_later(lab, plan, tmp_path):
    assert plan.held_out
    lab.close()

    with cl.Lab(tmp_path / "lab.db") as later, pytest.raises(HeldOutError):
        later.backtest("starter", "baseline")


def test_elsewhere_they_are_open(plan):
    assert cl.backtest("starter", "baseline", fixtures=plan.held_out).report["n_fixtures"] == len(plan.held_out) > 1


def test_training_fixtures_are_searched_by_the_objective(lab):
    enough = range(90000000, 90000100)  # to walk forward
    plan = lab.plan("season", "cumulative-drift", GRID, fixtures=enough, hold_out=0.2, objective="edge")
    found = plan.sweep(progress=False)

    assert (found.by, found.trials) == ("edge", 4)
    assert found.frame["fixtures"].max() <= len(plan.training)
    assert plan.walk_forward(progress=False).frame["test_fixtures"].sum() < len(plan.training)


def test_opening_stands_in_the_log_before_the_run_and_lets_all_read(lab, plan, logged):
    result = plan.open(POINT)

    log = logged()
    assert b'"kind":"OPENED"' in log[1]
    assert trial_of(POINT).encode() in log[1]
    assert b'"kind":"COMMIT"' in log[2]
    assert result.run.source.commit_index == 2
    assert tuple(result.source.fixture_ids) == plan.held_out
    assert lab.backtest("starter", "baseline").report["n_fixtures"] == 12


def test_opening_again_gives_the_same_run_and_another_configuration_must_be_said(plan, logged):
    first = plan.open(POINT)

    assert plan.open(POINT).run_id == first.run_id
    with pytest.raises(LogConflictError, match="another configuration"):
        plan.open(OTHER)
    other = plan.open(OTHER, again=True)

    assert other.run_id != first.run_id
    openings = [entry for entry in logged() if b'"kind":"OPENED"' in entry]
    assert [b'"again":true' in entry for entry in openings] == [False, True]
    assert "2 times" in plan.frame["value"].str.join("\n").item()


def test_by_default_the_best_over_the_training_fixtures_is_opened(plan):
    best = plan.sweep(progress=False).best()

    assert plan.open().source.started["agents"][0]["config"].items() >= {**best.params}.items()


def test_the_same_plan_again_is_the_one_that_is_there(lab, plan, logged):
    again = lab.plan("starter", "cumulative-drift", GRID, hold_out=0.45, objective="edge")

    assert (again.plan_id, again.index) == (plan.plan_id, plan.index)
    assert len(logged()) == 1


def test_a_plan_that_changes_in_anything_is_another(lab, plan):
    with pytest.raises(HeldOutError):
        lab.plan("starter", "cumulative-drift", GRID, hold_out=0.45, objective="clv")
    plan.open(POINT)

    other = lab.plan("starter", "cumulative-drift", GRID, hold_out=0.45, objective="clv")

    assert other.plan_id != plan.plan_id


@pytest.mark.parametrize(
    "params",
    [{}, {"warmup_ticks": 20}, POINT | {"cooldown_s": 1}, POINT | {"stake": 1}, POINT | {"warmup_ticks": 20.0}],
)
def test_what_is_no_point_of_the_grid_opens_nothing(plan, params, logged):
    with pytest.raises(StatisticsError, match="no point"):
        plan.open(params)

    assert len(logged()) == 1


@pytest.mark.parametrize(
    ("params", "again", "said"),
    [("20", False, "'20'"), ([1], False, r"\[1\]"), (POINT, "no", "again is True or False, not 'no'")],
)
def test_what_can_not_be_said_of_an_opening_opens_nothing(plan, params, again, said, logged):
    with pytest.raises(StatisticsError, match=said):
        plan.open(params, again=again)

    assert len(logged()) == 1


@few(3)
@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        ({"folds": 1}, StatisticsError, "not 1"),
        ({"folds": "a"}, StatisticsError, "not 'a'"),
        ({"seed": -1}, StatisticsError, "not -1"),
        ({"seed": None, "by": "random"}, StatisticsError, "not None"),
        ({"seed": 10**40}, StatisticsError, "not 1000"),
        ({"by": "unknown", "hold_out": list(range(90000000, 90000010))}, StatisticsError, "'unknown'"),
        ({"hold_out": [[1]]}, StatisticsError, r"fixture \[1\]"),
        ({"hold_out": [float(one) for one in range(90000000, 90000010)]}, StatisticsError, "90000000.0"),
        ({"fixtures": [1]}, UnknownFixtureError, "fixture 1 "),
        ({"fixtures": [90000000.0]}, PackFormatError, "90000000.0"),
        ({"fixtures": [[1]]}, PackFormatError, r"not \[1\]"),
    ],
)
def test_a_plan_that_can_not_be_is_not_noted(lab, asked, error, said, logged):
    with pytest.raises(error, match=said):
        lab.plan("starter", "cumulative-drift", GRID, **asked)

    assert logged() == []


def test_a_grid_with_a_point_that_the_agent_does_not_take_shuts_nothing(lab, logged):
    with pytest.raises(AgentError, match="'x'") as caught:
        lab.plan("starter", "cumulative-drift", {"warmup_ticks": [20, "x"]}, hold_out=0.45)

    assert "at the setting" in caught.value.__notes__[0]
    assert logged() == []


def test_an_agent_of_ones_own_is_planned_with_the_parameters_that_the_grid_leaves_alone(lab, plan):
    plan.open(POINT)

    @cl.strategy
    def mine(ticks, *, size=1, other=5):
        return ticks.head(size - other).collect()

    asked = {"grid": {"size": [1, 2]}, "hold_out": 0.45}
    with_nine = lab.plan("starter", cl.isolated(mine, params={"other": 9}), **asked)

    assert with_nine.payload["agent"]["config"] == {"markets": [""], "other": 9, "stake": 100}
    with pytest.raises(HeldOutError):  # another plan
        lab.plan("starter", cl.isolated(mine, params={"other": 7}), **asked)


def test_the_card_says_what_was_planned_tried_and_opened(lab):
    lab.backtest("starter", "baseline")
    plan = lab.plan("starter", "cumulative-drift", GRID, hold_out=0.45)
    facts = dict(plan.frame.rows())

    assert facts["trials over these fixtures' packs before the plan"] == "1"
    assert facts["opened"] == "not yet"
    plan.open(POINT)
    facts = dict(plan.frame.rows())
    assert facts["opened"] == f"once in this log, as entry {plan.index + 1}"
    assert facts["trials over these fixtures' packs by now"] == "2"
    assert "outside this laboratory" in plan._repr_html_()


def test_outside_a_laboratory_there_is_no_log_to_plan_in():
    with pytest.raises(UnsupportedError, match="outside a laboratory"):
        cl.Lab.plan(Verbs(LocalBackend()), "starter", "cumulative-drift", GRID)


def test_the_log_of_a_laboratory_with_a_plan_is_sound(plan, logged):
    plan.open(POINT)

    assert audited(logged()).broken == []
