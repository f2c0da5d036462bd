"""Runs of owners over several fixtures of a pack, and backtests that belong to whoever sent a token."""

import pytest

from clvlab.arena.packs import bundled_catalog
from tests.service.serving import BACKTEST, BOUND, CONFIG, DEPLOY, FIXTURE, api, assert_problem, make_entry
from tests.service.tokens import ALICE, BOB
from tests.waiting import until

ALL = list(bundled_catalog().open("starter").fixture_ids)
HASH = bundled_catalog().open("starter").content_hash
PACK = CONFIG | {"pack_id": "starter"}
WHOLE_DEPLOY = {name: value for name, value in DEPLOY.items() if name != "fixture_id"}
WANTED = [([FIXTURE + 2, FIXTURE, FIXTURE + 2], [FIXTURE, FIXTURE + 2]), ([FIXTURE + 5], [FIXTURE + 5]), ("all", ALL)]
ASYNC = {"Prefer": "respond-async"}


def stated_once(fixture_ids):
    return fixture_ids if fixture_ids == "all" else list(dict.fromkeys(fixture_ids))


def sealed_fixtures(served, run_id):
    until(lambda: served.get(f"/runs/{run_id}/progress")["status"] == "sealed")
    assert served.post(f"/runs/{run_id}/verify")["verified"]
    return {row["fixture_id"] for row in served.get(f"/runs/{run_id}/decisions", limit=1000)["decisions"]}


@pytest.mark.parametrize(("fixture_ids", "bound"), WANTED, ids=str)
def test_a_competition_runs_over_the_fixtures_that_it_names(api, fixture_ids, bound):
    created = api.competition(PACK | {"fixture_ids": fixture_ids}, ("baseline", "cumulative-drift"))
    binding = {"pack_id": "starter", "fixture_id": bound[0], "content_hash": HASH, "fixture_ids": bound}

    state = api.get(f"/competitions/{created}")
    started = api.post(f"/competitions/{created}/start")

    assert state["replay_binding"] == started["replay_binding"] == binding
    assert state["config"]["fixture_ids"] == stated_once(fixture_ids)
    assert started["status"] == "finalized"
    assert sealed_fixtures(api, started["run_id"]) == set(bound)
    begun = api.get(f"/competitions/{created}/events", since_seq=-1)[0]
    assert begun["payload"]["replay_binding"] == binding
    assert {row["agent_id"] for row in api.get(f"/competitions/{created}")["leaderboard"]} == {"baseline", "cumulative-drift"}


@pytest.mark.parametrize(("fixture_ids", "bound"), WANTED, ids=str)
def test_a_deploy_runs_over_the_fixtures_that_it_names(api, fixture_ids, bound):
    deployed = api.post("/agents/deploy", WHOLE_DEPLOY | {"fixture_ids": fixture_ids})

    assert deployed["replay_binding"] == {
        "pack_id": "starter", "fixture_id": bound[0], "content_hash": HASH, "fixture_ids": bound,
    }  # fmt: skip
    assert sealed_fixtures(api, deployed["run_id"]) == set(bound)
    record = api.get(f"/agents/instances/{deployed['instance_id']}", by=api.alice)
    assert (record["run_status"], record["config"]["fixture_ids"]) == ("sealed", stated_once(fixture_ids))


@pytest.mark.parametrize("unset", [{}, {"fixture_ids": None}], ids=["absent", "null"])
def test_without_fixtures_one_is_selected_and_nothing_is_stored_or_hashed_of_the_field(api, unset):
    created = api.post("/competitions", PACK | unset)["competition_id"]
    plain, deployed = (api.post("/agents/deploy", WHOLE_DEPLOY | extra) for extra in ({}, unset))

    state = api.get(f"/competitions/{created}")

    assert state["replay_binding"] == {"pack_id": "starter", "fixture_id": FIXTURE, "content_hash": HASH}
    assert "fixture_ids" not in state["config"]
    assert plain["config_hash"] == deployed["config_hash"]
    assert deployed["replay_binding"] == state["replay_binding"]
    record = api.get(f"/agents/instances/{deployed['instance_id']}", by=api.alice)
    assert "fixture_ids" not in record["config"]


def test_a_whole_pack_without_a_name_is_bound_at_the_start(keys, one_pack_folder):
    with api_of(keys, one_pack_folder) as served:
        created = served.competition(CONFIG | {"fixture_ids": "all"}, ("baseline",))
        assert served.get(f"/competitions/{created}")["replay_binding"] is None

        started = served.post(f"/competitions/{created}/start")

        assert started["replay_binding"]["fixture_ids"] == ALL


@pytest.fixture
def one_pack_folder(tmp_path):
    import shutil

    import orjson

    shutil.copytree(bundled_catalog().folder / "starter", tmp_path / "packs" / "starter")
    entries = {"starter": bundled_catalog().entries()["starter"]}
    (tmp_path / "packs" / "catalog.json").write_bytes(orjson.dumps(entries))
    return tmp_path / "packs"


def api_of(keys, folder):
    return api(keys, packs=folder)


@pytest.mark.parametrize(
    ("wrong", "status", "named"),
    [
        ({"fixture_ids": [FIXTURE], "fixture_id": FIXTURE}, 422, "fixture_ids"),
        ({"fixture_ids": "all", "fixture_id": FIXTURE}, 422, "fixture_ids"),
        ({"fixture_ids": []}, 422, "fixture_ids"),
        ({"fixture_ids": "every"}, 422, "fixture_ids"),
        ({"fixture_ids": [True]}, 422, "fixture_ids"),
        ({"fixture_ids": ["90000000"]}, 422, "fixture_ids"),
        ({"fixture_ids": FIXTURE}, 422, "fixture_ids"),
        ({"fixture_ids": [FIXTURE, 5]}, 400, "fixture 5"),
        ({"source_mode": "live", "pack_id": None, "fixture_ids": "all"}, 422, "fixture_ids"),
        ({"source_mode": "live", "pack_id": None, "fixture_ids": [FIXTURE]}, 422, "fixture_ids"),
        ({"fixtures": "all"}, 422, "fixtures"),
        ({"fixtureIds": [FIXTURE]}, 422, "fixtureIds"),
        ({"pack_ids": ["starter", "season"]}, 422, "pack_ids"),
        ({"pack_dir": "/tmp"}, 422, "pack_dir"),
    ],
    ids=str,
)
def test_a_scope_that_is_not_meant_so_is_refused_by_name_and_never_ignored(api, wrong, status, named):
    created = api.alice.post("/competitions", json=PACK | wrong)
    deployed = api.alice.post("/agents/deploy", json=WHOLE_DEPLOY | wrong)

    assert named in assert_problem(created, status)["detail"]
    failing = [check["name"] for check in assert_problem(deployed, 422)["checks"]]
    assert (named if status == 422 else "replay_binding") in failing


def test_fixtures_of_a_list_need_their_pack(api):
    problem = assert_problem(api.alice.post("/competitions", json=CONFIG | {"fixture_ids": [FIXTURE]}), 400)

    assert "pack_id" in problem["detail"]


def test_what_a_list_shows_of_fixtures_is_bounded_by_their_pack_whatever_was_sent(api):
    """Otherwise one page of competitions repeats 200 bodies."""
    repeated = {"fixture_ids": [FIXTURE] * 20_000}
    api.post("/competitions", PACK | repeated)
    run_id = api.post("/agents/deploy", WHOLE_DEPLOY | repeated)["run_id"]

    [listed] = api.get("/competitions", limit=1)

    assert listed["config"]["fixture_ids"] == [FIXTURE]
    [agent] = api.get(f"/runs/{run_id}")["lineage"]["agents"]
    assert agent["config"]["fixture_ids"] == [FIXTURE]


def test_an_agent_of_a_roster_has_no_fixtures_of_its_own(api):
    created = api.competition(BOUND, ())

    refused = api.alice.post(f"/competitions/{created}/agents", json=make_entry(fixture_ids="all"))

    assert assert_problem(refused, 422)["errors"][0]["loc"] == ["body", "fixture_ids"]
    assert api.post(f"/competitions/{created}/agents", make_entry(colour=1))["ignored"] == ["colour"]


def test_a_competition_over_a_whole_pack_is_cancelled_and_starts_again(api):
    created = api.competition(CONFIG | {"pack_id": "season", "fixture_ids": "all"}, ("baseline",))
    begun = api.alice.post(f"/competitions/{created}/start", headers=ASYNC)

    assert begun.status_code == 202
    api.post(f"/competitions/{created}/cancel")

    state = api.get(f"/competitions/{created}")
    assert (state["status"], len(state["replay_binding"]["fixture_ids"])) == ("draft", 300)


# Backtests that belong to an owner.


def owner_of(api, run_id):
    return next(run["owner"] for run in api.get("/runs", limit=200)["runs"] if run["run_id"] == run_id)


@pytest.mark.parametrize("body", [BACKTEST, {"pack_id": "starter", "fixture_ids": "all"}], ids=["fixture", "pack"])
def test_a_backtest_with_a_token_belongs_to_its_owner(api, body):
    named = body | {"window_id": f"owned-{len(body)}", "min_clv_horizon_s": 61}
    own = api.post("/backtests", named, by=api.alice, headers={"Prefer": "wait=60"})
    again = api.post("/backtests", named, by=api.bob, headers={"Prefer": "wait=60"})

    assert own["run_id"] == again["run_id"]  # one request is one backtest, of the first who asked
    assert owner_of(api, own["run_id"]) == ALICE
    assert own["run_id"] in [run["run_id"] for run in api.get("/runs", owner=ALICE, kind="backtest")["runs"]]
    assert api.get(f"/runs/{own['run_id']}")["log"]["owner"] == ALICE


def test_a_backtest_without_a_token_is_anonymous_and_one_with_a_bad_token_is_refused(api):
    named = BACKTEST | {"min_clv_horizon_s": 62}

    refused = api.nobody.post("/backtests", json=named, headers={"Authorization": "Bearer no.such.token"})
    made = api.post("/backtests", named, by=api.nobody)

    assert_problem(refused, 401)
    assert owner_of(api, made["run_id"]) == "anonymous"


@pytest.fixture
def idle(keys):
    with api(keys, max_owner_names=2) as served:
        jobs = served.app.state.application.jobs
        jobs.stop()
        jobs.workers = 0
        yield served


def test_an_owner_cancels_without_a_key_and_another_one_does_not(idle):
    begun = idle.alice.post("/backtests", json=BACKTEST, headers=ASYNC).json()
    path = f"/backtests/{begun['backtest_id']}/cancel"

    assert_problem(idle.bob.post(path), 403)
    assert_problem(idle.nobody.post(path), 422)
    ended = idle.post(path)

    assert (ended["status"], ended["cause"], "key" in ended) == ("failed", "cancelled", False)
    assert_problem(idle.alice.post(path), 409)


def test_what_an_owner_withdraws_goes_on_for_others(idle):
    begun = [who.post("/backtests", json=BACKTEST, headers=ASYNC).json() for who in (idle.alice, idle.alice, idle.nobody)]
    path = f"/backtests/{begun[0]['backtest_id']}/cancel"

    assert idle.post(path)["status"] == "queued"
    assert_problem(idle.alice.post(path), 403)
    ended = idle.nobody.post(path, headers={"Idempotency-Key": begun[2]["key"]}).json()

    assert ended["status"] == "failed"


def test_a_cancelled_backtest_belongs_to_whoever_asks_again(idle):
    begun = idle.alice.post("/backtests", json=BACKTEST, headers=ASYNC).json()
    idle.post(f"/backtests/{begun['backtest_id']}/cancel")

    idle.bob.post("/backtests", json=BACKTEST, headers=ASYNC)

    assert owner_of(idle, begun["run_id"]) == BOB
    owners = {owner["owner"]: owner for owner in idle.get("/log")["owners"]}
    assert (owners[ALICE]["abandoned"], owners[BOB]["open"]) == (1, 1)
    assert idle.app.state.application.jobs.run_one()
    assert idle.get(f"/runs/{begun['run_id']}")["log"]["owner"] == BOB


def test_names_of_an_owners_backtests_count(idle):
    for strategy, status in (("baseline", 202), ("cumulative-drift", 202), ("sharp-momentum-v2", 429)):
        body = {"pack_id": "starter", "fixture_ids": "all", "strategy": strategy}
        answer = idle.alice.post("/backtests", json=body, headers=ASYNC)
        assert answer.status_code == status, answer.text
    assert int(answer.headers["retry-after"]) >= 1
    assert idle.bob.post("/backtests", json=body, headers=ASYNC).status_code == 202
    assert idle.alice.post("/backtests", json=body, headers=ASYNC).status_code == 202  # it is Bob's
