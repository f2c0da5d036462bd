"""What a caller needs to know before it asks for work, and to find its own again."""

import pytest

from tests.length import any_store
from tests.service.serving import BOUND, DEPLOY, FIXTURE, assert_problem, make_entry
from tests.service.tokens import ALICE, BOB

TEMPLATES = ["baseline", "cumulative-drift", "sharp-momentum-v2", "llm", "bets"]


@any_store
def test_strategies_are_listed_with_their_parameters_as_a_schema(api):
    listed = api.get("/strategies")["strategies"]

    assert [strategy["strategy"] for strategy in listed] == TEMPLATES
    for strategy in listed:
        assert strategy == api.get(f"/strategies/{strategy['strategy']}")
        assert strategy["algorithm"].startswith(strategy["summary"])
        schema = strategy["parameters"]
        assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        assert set(strategy["defaults"]) == set(schema["properties"])
        for name, parameter in schema["properties"].items():
            assert parameter["description"]
            assert parameter.get("default", strategy["defaults"][name]) == strategy["defaults"][name]


@pytest.mark.parametrize("strategy", TEMPLATES)
def test_the_defaults_of_a_strategy_are_what_the_service_pins_without_parameters(api, strategy):
    described = api.get(f"/strategies/{strategy}")
    created = api.competition(agents=())

    bare = api.post(f"/competitions/{created}/agents", make_entry(strategy))
    spelled = api.post(f"/competitions/{created}/agents", make_entry(strategy, agent_id="b", config=described["defaults"]))

    assert bare["config_hash"] == spelled["config_hash"] == described["config_hash"]


@any_store
@pytest.mark.parametrize("name", ["absent", "%00", "%ED%A0%80", "a" * 300, "Baseline"])
def test_an_unknown_strategy_is_404(api, name):
    assert_problem(api.nobody.get(f"/strategies/{name}"), 404)


@any_store
def test_strategies_are_revalidated(api):
    tag = api.nobody.get("/strategies").headers["etag"]

    assert api.nobody.get("/strategies", headers={"If-None-Match": tag}).status_code == 304


@pytest.fixture(scope="module")
def carol(api):
    """Clients' headers of a principal that nobody else is."""
    return {"Authorization": f"Bearer {api.token('did:key:carol')}"}


@pytest.fixture(scope="module")
def deployed(api, carol):
    """Instances of Carol's, oldest first."""
    strategies = ("baseline", "cumulative-drift", "baseline")
    return [api.post("/agents/deploy", DEPLOY | {"strategy": name}, headers=carol) for name in strategies]


def instances(api, headers, **query):
    response = api.nobody.get("/agents/instances", params=query, headers=headers)
    assert response.status_code == 200, response.text
    return response.json()


def test_the_caller_finds_its_instances_newest_first(api, carol, deployed):
    api.quiet()
    answer = instances(api, carol)

    newest = answer["instances"][0]
    assert {one["instance_id"] for one in answer["instances"]} == {one["instance_id"] for one in deployed}
    created = [one["created_ts_ms"] for one in answer["instances"]]
    assert created == sorted(created, reverse=True)
    record = api.nobody.get(f"/agents/instances/{newest['instance_id']}", headers=carol).json()
    assert newest.pop("run_status") == "sealed"
    assert newest == {name: record[name] for name in newest}
    names = {"instance_id", "owner", "template", "config_hash", "run_id", "replay_binding", "created_ts_ms", "updated_ts_ms"}
    assert set(newest) == names


def test_instances_come_in_pages_and_by_strategy(api, carol, deployed):
    first = instances(api, carol, limit=2)
    second = instances(api, carol, limit=2, cursor=first["next_cursor"])
    drifting = instances(api, carol, strategy="cumulative-drift")

    found = [one["instance_id"] for one in first["instances"] + second["instances"]]
    assert sorted(found) == sorted(one["instance_id"] for one in deployed)
    assert second["next_cursor"] is None
    assert [one["instance_id"] for one in drifting["instances"]] == [deployed[1]["instance_id"]]


def test_nobody_sees_the_instances_of_another(api, deployed):
    mine = {one["instance_id"] for one in api.get("/agents/instances", by=api.bob)["instances"]}

    assert not mine & {one["instance_id"] for one in deployed}
    assert_problem(api.nobody.get("/agents/instances"), 401)


@pytest.mark.parametrize("query", ["strategy=absent", "strategy=%00", "strategy=%ED%A0%80"])
def test_a_strategy_that_no_instance_has_gives_an_empty_page(api, query):
    assert api.alice.get(f"/agents/instances?{query}").json() == {"instances": [], "next_cursor": None}


@any_store
@pytest.mark.parametrize("query", ["limit=0", "limit=201", "cursor=x", "cursor=%00", "strategy=" + "a" * 201])
def test_a_list_of_instances_refuses_what_has_the_wrong_form(api, query):
    assert_problem(api.alice.get(f"/agents/instances?{query}"), 422)


def test_me_says_who_the_caller_is_what_it_has_and_what_holds_for_it(api):
    dave = {"Authorization": f"Bearer {api.token('did:key:dave')}"}
    before = api.nobody.get("/me", headers=dave).json()
    created = api.post("/competitions", BOUND, headers=dave)["competition_id"]
    api.post(f"/competitions/{created}/agents", make_entry(), headers=dave)
    api.post(f"/competitions/{created}/start", headers=dave)

    none = {"instances": 0, "competitions": 0, "runs": {"committed": 0, "sealed": 0, "abandoned": 0}}
    assert before == {"did": "did:key:dave", **none, "limits": {"max_body_bytes": 262_144, "max_token_lifetime_s": 86_400}}
    after = api.nobody.get("/me", headers=dave).json()
    assert (after["competitions"], after["runs"]) == (1, {"committed": 1, "sealed": 1, "abandoned": 0})
    assert_problem(api.nobody.get("/me"), 401)


@pytest.fixture(scope="module")
def runs(api):
    """All runs there are, after some of every kind."""
    api.started()
    api.post("/agents/deploy", DEPLOY | {"pack_id": "season"}, by=api.bob)
    body = {"pack_id": "starter", "fixture_id": FIXTURE, "window_id": "r", "market_allowlist": [""]}
    api.post("/backtests", body, by=api.nobody)
    api.post("/backtests", body | {"min_clv_horizon_s": 63})
    return listed(api)


def listed(api, **query):
    found, cursor = [], {}
    while True:
        page = api.get("/runs", limit=7, **query, **cursor)
        found += page["runs"]
        if page["next_cursor"] is None:
            return found
        cursor = {"cursor": page["next_cursor"]}


@pytest.mark.parametrize(
    "chosen",
    [
        {"kind": "backtest"},
        {"kind": "competition", "status": "sealed"},
        {"status": "failed"},
        {"owner": BOB},
        {"owner": ALICE, "pack_id": "starter", "kind": "competition"},
        {"pack_id": "season"},
        {"owner": "anonymous", "kind": "backtest"},
        {"owner": ALICE, "kind": "backtest"},
    ],
)
def test_runs_are_chosen_by_what_their_summaries_say(api, runs, chosen):
    found = listed(api, **chosen)

    assert all(run[name] == value for run in found for name, value in chosen.items())
    expected = {run["run_id"] for run in runs if all(run[name] == value for name, value in chosen.items())}
    assert expected <= {run["run_id"] for run in found}
    assert expected or "failed" in chosen.values()


@pytest.mark.usefixtures("runs")
def test_runs_are_chosen_by_an_agent_that_they_scored(api):
    _, started = api.started(agents=("cumulative-drift",))

    by_agent = {run["run_id"] for run in listed(api, agent_id="cumulative-drift", kind="competition")}
    assert started["run_id"] in by_agent
    assert started["run_id"] not in {run["run_id"] for run in listed(api, agent_id="baseline")}
    for run_id in by_agent:
        agents = api.get(f"/runs/{run_id}")["lineage"]["agents"]
        assert "cumulative-drift" in [agent["agent_id"] for agent in agents]


@pytest.mark.parametrize("value", ["absent", "%00", "%ED%A0%80"])
@pytest.mark.parametrize("name", ["agent_id", "owner", "pack_id"])
def test_a_name_that_no_run_has_gives_an_empty_page(api, name, value):
    assert api.nobody.get(f"/runs?{name}={value}").json() == {"runs": [], "next_cursor": None}


@any_store
@pytest.mark.parametrize(
    "query",
    ["kind=other", "status=SEALED", "status=%00", *(f"{name}={'a' * 301}" for name in ("agent_id", "owner", "pack_id"))],
)
def test_a_list_of_runs_refuses_what_has_the_wrong_form(api, query):
    assert_problem(api.nobody.get(f"/runs?{query}"), 422)
