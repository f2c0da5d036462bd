"""A test per row of the interface specification's table of limits."""

import json

import pytest

from tests.service.serving import BACKTEST, BOUND, CONFIG, DEPLOY, assert_problem, make_entry


@pytest.mark.parametrize("size", [1, 0, -2, True, "3", 2.5, None])
def test_roster_size_is_an_integer_of_at_least_2(api, size):
    assert_problem(api.alice.post("/competitions", json=CONFIG | {"roster_size": size}), 422)


def test_roster_size_2_is_enough(api):
    api.post("/competitions", CONFIG | {"roster_size": 2})


def test_min_clv_horizon_s_is_60_and_end_rule_pre_match_by_default(api):
    asked = api.post("/backtests", BACKTEST, by=api.nobody)
    said = api.post("/backtests", BACKTEST | {"min_clv_horizon_s": 60, "end_rule": "pre_match", "duration_s": None})

    assert asked == said
    window = api.get(f"/backtests/{asked['backtest_id']}")["window"]
    assert (window["min_clv_horizon_s"], window["end_rule"], window["duration_s"]) == (60, "pre_match", None)


def test_duration_s_goes_with_fixed_duration(api):
    made = api.post("/backtests", BACKTEST | {"end_rule": "fixed_duration", "duration_s": 3600})

    assert api.get(f"/backtests/{made['backtest_id']}")["window"]["duration_s"] == 3600


def test_execution_mode_is_paper_by_default(api):
    created = api.post("/competitions", BOUND)["competition_id"]

    assert api.get(f"/competitions/{created}")["config"]["execution_mode"] == "paper"


def test_execution_mode_is_paper_or_dry_run(api):
    api.post("/competitions", CONFIG | {"execution_mode": "dry_run"})
    assert_problem(api.alice.post("/competitions", json=CONFIG | {"execution_mode": "live"}), 422)


@pytest.mark.parametrize("wrong", [{"since": -1}, {"since": "x"}, {"limit": 0}, {"limit": 1001}, {"limit": -1}], ids=str)
def test_runtime_events_paging_is_bounded(api, wrong):
    instance = api.post("/agents/deploy", DEPLOY)["instance_id"]

    assert_problem(api.alice.get(f"/agents/instances/{instance}/runtime-events", params=wrong), 422)


@pytest.mark.parametrize("wrong", ["x", "1.5", 2**63, -(2**63)])
def test_events_since_seq_is_an_integer(api, wrong):
    created = api.competition()

    assert_problem(api.nobody.get(f"/competitions/{created}/events", params={"since_seq": wrong}), 422)


@pytest.mark.parametrize("path", ["/runs", "/backtests"])
@pytest.mark.parametrize("wrong", [{"limit": 0}, {"limit": 201}, {"limit": "x"}, {"cursor": "garbage"}], ids=str)
def test_pages_are_bounded_and_cursors_checked(api, path, wrong):
    assert_problem(api.nobody.get(path, params=wrong), 422)


@pytest.mark.parametrize("key", ["", "k" * 256])
def test_an_idempotency_key_has_1_to_255_characters(api, key):
    assert_problem(api.alice.post("/agents/deploy", json=DEPLOY, headers={"Idempotency-Key": key}), 422)


@pytest.mark.parametrize(
    "text", ["P1Y", "P1M", "PT", "1h", "", "PT0S", "P-1D", "PT1.5H"],
)  # fmt: skip
def test_scoring_window_is_an_iso_duration_of_weeks_to_seconds(api, text):
    assert_problem(api.alice.post("/competitions", json=CONFIG | {"scoring_window": text}), 422)


@pytest.mark.parametrize("kind", ["", "a b", "ä", "x" * 65])
def test_competition_type_is_a_token(api, kind):
    assert_problem(api.alice.post("/competitions", json=CONFIG | {"competition_type": kind}), 422)


def test_unknown_fields_of_a_competition_are_named_and_not_stored(api):
    body = json.dumps(CONFIG | {"owner": "did:key:mallory", "colour": "vermilion", "\ud800": 1})
    answer = api.alice.post("/competitions", content=body, headers={"Content-Type": "application/json"}).json()
    created = answer["competition_id"]

    assert answer["ignored"] == ["\\ud800", "colour", "owner"]
    assert "vermilion" not in api.nobody.get(f"/competitions/{created}").text
    assert "mallory" not in api.nobody.get(f"/competitions/{created}").text


def test_unknown_fields_of_an_agent_and_of_a_deploy_are_named(api):
    created = api.competition(agents=())
    odd = make_entry(config={"mood": 1, "stake": 5}, colour="vermilion")

    assert api.post(f"/competitions/{created}/agents", odd)["ignored"] == ["colour", "config.mood"]
    assert api.post("/agents/deploy", DEPLOY | {"colour": 1, "params": {"mood": 1}})["ignored"] == ["colour", "params.mood"]


@pytest.mark.parametrize("given", [{}, {"source_mode": None}, {"source_mode": ""}], ids=str)
def test_source_mode_of_a_deploy_has_no_default(api, given):
    body = {name: value for name, value in DEPLOY.items() if name != "source_mode"} | given

    problem = assert_problem(api.alice.post("/agents/deploy", json=body), 422)

    assert [check["name"] for check in problem["checks"]] == ["source_mode"]
