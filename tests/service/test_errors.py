"""A test per row of the interface specification's table of errors, and of its order where several hold."""

import time

import pytest

from tests.service.serving import BACKTEST, BOUND, CONFIG, DEPLOY, assert_problem, make_entry

GONE = "no-such-thing"


@pytest.mark.parametrize(
    "binding", [{"pack_id": GONE}, {"pack_id": "starter", "fixture_id": 5}, {"pack_id": "../starter"}], ids=str
)
def test_post_competitions_400_replay_binding_unresolvable(api, binding):
    assert_problem(api.alice.post("/competitions", json=CONFIG | binding), 400)


@pytest.mark.parametrize("header", [None, "Bearer garbage", "Basic YTpi"])
@pytest.mark.parametrize("path", ["/competitions", "/agents/deploy"])
def test_post_competitions_and_deploy_401_missing_or_invalid_token_before_the_body(api, path, header):
    headers = {"Content-Type": "application/json"} | ({"Authorization": header} if header else {})
    response = api.nobody.post(path, content=b"{broken", headers=headers)

    assert_problem(response, 401)
    assert response.headers["www-authenticate"].startswith("Bearer")


def test_post_agents_400_unrecognized_proof_mode(api):
    created = api.competition(agents=())

    assert_problem(api.alice.post(f"/competitions/{created}/agents", json=make_entry(proof_mode="honest")), 400)


@pytest.mark.parametrize("entry", [make_entry("nobody-wrote-this"), make_entry("baseline", config={"stake": "lots"})], ids=str)
def test_post_agents_400_other_domain_rejection(api, entry):
    created = api.competition(agents=())

    assert_problem(api.alice.post(f"/competitions/{created}/agents", json=entry), 400)
    assert api.get(f"/competitions/{created}")["roster"] == []


ELSEWHERE = {"transcript": [{"fixture_id": 90000001, "tick_seq": 0, "action": "WAIT"}]}


def test_an_agent_about_another_fixture_is_refused_when_it_comes(api):
    created = api.competition(agents=())

    registered = api.alice.post(f"/competitions/{created}/agents", json=make_entry("llm", config=ELSEWHERE))
    deployed = api.alice.post("/agents/deploy", json=DEPLOY | {"strategy": "llm", "params": ELSEWHERE})

    assert "agent 'llm' can't run over fixture 90000000" in assert_problem(registered, 400)["detail"]
    assert [check["name"] for check in assert_problem(deployed, 422)["checks"]] == ["params"]
    assert api.post(f"/competitions/{created}/agents", make_entry())["agent_id"] == "baseline"


def test_post_agents_403_caller_is_not_the_owner(api):
    created = api.competition(agents=())

    assert_problem(api.bob.post(f"/competitions/{created}/agents", json=make_entry()), 403)


def test_post_agents_403_instance_of_another_principal(api):
    created = api.competition(agents=())
    instance = api.post("/agents/deploy", DEPLOY, by=api.bob)["instance_id"]

    entry = make_entry("cumulative-drift", instance_id=instance)
    assert_problem(api.alice.post(f"/competitions/{created}/agents", json=entry), 403)


def test_post_agents_404_competition_not_found(api):
    assert_problem(api.alice.post(f"/competitions/{GONE}/agents", json=make_entry()), 404)


def test_post_agents_404_instance_absent(api):
    created = api.competition(agents=())

    assert_problem(api.alice.post(f"/competitions/{created}/agents", json=make_entry(instance_id=GONE)), 404)


def test_post_agents_409_roster_frozen(api):
    created, _ = api.started()

    problem = assert_problem(api.alice.post(f"/competitions/{created}/agents", json=make_entry(agent_id="late")), 409)
    assert problem["type"] == "urn:clvlab:problem:roster-frozen"


def test_post_agents_409_agent_already_registered(api):
    created = api.competition(agents=("baseline",))

    problem = assert_problem(api.alice.post(f"/competitions/{created}/agents", json=make_entry()), 409)
    assert problem["type"] == "urn:clvlab:problem:already-registered"


def test_post_agents_409_roster_cap_exceeded(api):
    created = api.competition(config=BOUND | {"roster_size": 2})

    problem = assert_problem(api.alice.post(f"/competitions/{created}/agents", json=make_entry(agent_id="third")), 409)
    assert problem["type"] == "urn:clvlab:problem:roster-full"


def test_post_start_404_competition_not_found(api):
    assert_problem(api.alice.post(f"/competitions/{GONE}/start"), 404)


def test_post_start_409_already_finalized(api):
    created, started = api.started()

    assert_problem(api.alice.post(f"/competitions/{created}/start"), 409)
    state = api.get(f"/competitions/{created}")
    assert (state["status"], state["run_id"]) == ("finalized", started["run_id"])


@pytest.mark.parametrize(
    ("config", "agents", "reason"),
    [(BOUND, (), "roster_empty"), (CONFIG, ("baseline",), "binding_missing")],
)
def test_post_start_409_not_startable_says_why_and_leaves_the_draft(api, config, agents, reason):
    created = api.competition(config=config, agents=agents)

    assert assert_problem(api.alice.post(f"/competitions/{created}/start"), 409)["reason"] == reason
    assert api.get(f"/competitions/{created}")["status"] == "draft"


@pytest.mark.parametrize("act", ["start", "open", "complete"])
def test_acts_of_the_owner_403_for_another_and_401_for_nobody(api, act):
    created = api.competition()

    assert_problem(api.bob.post(f"/competitions/{created}/{act}"), 403)
    assert_problem(api.nobody.post(f"/competitions/{created}/{act}"), 401)


def test_agent_errors_are_their_owners_alone(api):
    created, _ = api.started()
    path = f"/competitions/{created}/agent-errors"

    assert api.get(path, by=api.alice) == []
    assert_problem(api.nobody.get(path), 401)
    assert_problem(api.bob.get(path), 403)
    assert_problem(api.alice.get(f"/competitions/{GONE}/agent-errors"), 404)


def test_open_and_complete_409_from_another_status(api):
    created = api.competition()
    api.post(f"/competitions/{created}/open")

    assert_problem(api.alice.post(f"/competitions/{created}/open"), 409)
    assert_problem(api.alice.post(f"/competitions/{created}/complete"), 409)


@pytest.mark.parametrize("path", ["", "/events"])
def test_get_competition_and_events_404_not_found(api, path):
    assert_problem(api.nobody.get(f"/competitions/{GONE}{path}"), 404)


@pytest.mark.parametrize("status", ["draft", "OPEN", "Finalized", "", "DRAFT,RUNNING", "ANY"])
def test_get_competitions_422_invalid_status_filter(api, status):
    assert_problem(api.nobody.get("/competitions", params={"status": status}), 422)


def test_post_deploy_422_names_every_failing_check_and_stores_nothing(api):
    before = [run["run_id"] for run in api.get("/runs", limit=1)["runs"]]  # an earlier run may still move
    body = DEPLOY | {"pack_id": GONE, "stake": -5, "execution_mode": "real", "strategy": "nobody-wrote-this"}

    problem = assert_problem(api.alice.post("/agents/deploy", json=body), 422)

    assert {check["name"] for check in problem["checks"]} >= {"replay_binding", "stake", "execution_mode", "strategy"}
    assert all(check["ok"] is False and check["message"] for check in problem["checks"])
    assert [run["run_id"] for run in api.get("/runs", limit=1)["runs"]] == before


def test_post_deploy_409_idempotency_key_with_another_configuration(api):
    headers = {"Idempotency-Key": f"key-{time.time_ns()}"}
    api.post("/agents/deploy", DEPLOY, headers=headers)

    problem = assert_problem(api.alice.post("/agents/deploy", json=DEPLOY | {"stake": 7}, headers=headers), 409)
    assert problem["reason"] == "fingerprint"


def test_an_idempotency_key_belongs_to_its_owner(api):
    headers = {"Idempotency-Key": f"shared-{time.time_ns()}"}

    mine = api.post("/agents/deploy", DEPLOY, headers=headers)
    theirs = api.post("/agents/deploy", DEPLOY | {"stake": 7}, by=api.bob, headers=headers)

    assert mine["instance_id"] != theirs["instance_id"]


def test_get_runtime_events_404_absent_or_of_another_owner(api):
    instance = api.post("/agents/deploy", DEPLOY)["instance_id"]

    assert_problem(api.alice.get(f"/agents/instances/{GONE}/runtime-events"), 404)
    assert_problem(api.bob.get(f"/agents/instances/{instance}/runtime-events"), 404)
    assert_problem(api.bob.get(f"/agents/instances/{instance}"), 404)


@pytest.mark.parametrize(
    "window",
    [
        {"end_rule": "never"},
        {"end_rule": "fixed_duration"},
        {"end_rule": "fixed_duration", "duration_s": 0},
        {"duration_s": 60},
        {"min_clv_horizon_s": -1},
        {"window_id": ""},
        {"window_id": "w" * 300},
    ],
    ids=str,
)
def test_post_backtests_400_invalid_window(api, window):
    assert_problem(api.nobody.post("/backtests", json=BACKTEST | window), 400)


def test_post_backtests_404_pack_not_in_the_catalog(api):
    assert_problem(api.nobody.post("/backtests", json=BACKTEST | {"pack_id": GONE}), 404)


def test_post_backtests_422_fixture_not_catalogued(api):
    assert_problem(api.nobody.post("/backtests", json=BACKTEST | {"fixture_id": 5}), 422)


@pytest.mark.parametrize(
    "wrong",
    [
        {"pack_dir": "/etc"},
        {"agent": "mine"},
        {"fixture_id": True},
        {"fixture_id": "90000000"},
        {"fixture_id": 90000000.0},
        {"fixture_id": None},
        {"window_id": 5},
        {"market_allowlist": "1X2"},
        {"market_allowlist": [1]},
        {"duration_s": True},
        {"min_clv_horizon_s": "60"},
    ],
    ids=str,
)
def test_post_backtests_422_unknown_fields_and_wrong_types(api, wrong):
    assert_problem(api.nobody.post("/backtests", json=BACKTEST | wrong), 422)


@pytest.mark.parametrize("missing", ["pack_id", "fixture_id", "window_id", "market_allowlist"])
def test_post_backtests_422_missing_field(api, missing):
    body = {name: value for name, value in BACKTEST.items() if name != missing}

    assert_problem(api.nobody.post("/backtests", json=body), 422)


@pytest.mark.parametrize("seq", [0, -1, 10**9, 2**53, 2**63, -(2**64), "9" * 5000], ids=lambda seq: str(seq)[:25])
def test_get_action_404_no_decision_at_seq(api, seq):
    run_id = api.post("/backtests", BACKTEST, by=api.nobody)["run_id"]

    assert_problem(api.nobody.get(f"/runs/{run_id}/actions/{seq}"), 404)


@pytest.mark.parametrize("seq", ["x", "1.5", "-", "1e3"])
def test_get_action_422_a_seq_that_is_no_integer(api, seq):
    run_id = api.post("/backtests", BACKTEST, by=api.nobody)["run_id"]

    assert_problem(api.nobody.get(f"/runs/{run_id}/actions/{seq}"), 422)


def test_422_comes_before_404_and_404_before_403(api):
    created = api.competition(agents=())

    assert_problem(api.bob.post(f"/competitions/{GONE}/agents", json={"agent_id": 5}), 422)
    assert_problem(api.bob.post(f"/competitions/{GONE}/agents", json=make_entry()), 404)
    assert_problem(api.bob.post(f"/competitions/{created}/agents", json=make_entry(proof_mode="honest")), 403)


def test_409_of_the_status_comes_before_duplicate_before_cap_before_instance_before_400(api):
    created = api.competition(config=BOUND | {"roster_size": 2}, agents=("baseline", "cumulative-drift"))
    path = f"/competitions/{created}/agents"

    duplicate = assert_problem(api.alice.post(path, json=make_entry(proof_mode="honest", instance_id=GONE)), 409)
    full = assert_problem(api.alice.post(path, json=make_entry(agent_id="x", proof_mode="honest", instance_id=GONE)), 409)
    api.post(f"/competitions/{created}/start")
    frozen = assert_problem(api.alice.post(path, json=make_entry(proof_mode="honest", instance_id=GONE)), 409)

    assert [problem["type"].rpartition(":")[2] for problem in (duplicate, full, frozen)] == [
        "already-registered", "roster-full", "roster-frozen"
    ]  # fmt: skip
    other = api.competition(agents=())
    absent = make_entry(proof_mode="honest", instance_id=GONE)
    assert_problem(api.alice.post(f"/competitions/{other}/agents", json=absent), 404)


def test_backtests_check_body_then_pack_then_fixture_then_window(api):
    wrong = BACKTEST | {"pack_id": GONE, "fixture_id": 5, "end_rule": "never"}

    assert_problem(api.nobody.post("/backtests", json=wrong | {"pack_dir": "x"}), 422)
    assert_problem(api.nobody.post("/backtests", json=wrong), 404)
    assert_problem(api.nobody.post("/backtests", json=wrong | {"pack_id": "starter"}), 422)
    assert_problem(api.nobody.post("/backtests", json=BACKTEST | {"end_rule": "never"}), 400)
