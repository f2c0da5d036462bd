"""Live runs over HTTP: a start answers at once, decisions are streamed as they come, and the seal says them again."""

import json
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest
from websockets.sync.client import connect

from tests.service.serving import api, assert_problem, make_entry
from tests.waiting import PATIENCE_S

LIVE = {"competition_type": "arena", "source_mode": "live", "market_scope": "all", "roster_size": 3, "fixture_id": 90000000}
DEPLOY = {"strategy": "cumulative-drift", "source_mode": "live"}
AGENTS = ("baseline", "cumulative-drift", "sharp-momentum-v2")


@pytest.fixture(scope="module")
def served(keys, tmp_path_factory):
    folder = tmp_path_factory.mktemp("live")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("CLVLAB_REPLAY_SPEED", "40000")
        with api(keys, devfeed=True, live_folder=folder, stream_poll_s=0.05) as found:
            yield found


def test_watchers_of_a_live_competition_see_its_decisions_before_the_seal_and_the_whole_log_in_the_end(served):
    created = served.competition(LIVE, AGENTS)

    def follow():
        url = f"{served.url.replace('http', 'ws', 1)}/competitions/{created}/arena?since_seq=-1"
        with connect(url) as messages:
            return [json.loads(message) for message in messages]

    with ThreadPoolExecutor() as pool:
        following = pool.submit(follow)
        response = served.alice.post(f"/competitions/{created}/start")
        seen = following.result(timeout=PATIENCE_S)

    assert response.status_code == 202
    assert response.headers["location"] == f"/competitions/{created}"
    assert response.headers["retry-after"] == "1"
    begun = response.json()
    assert (begun["competition_id"], begun["mode_label"], begun["cause"]) == (created, "Live paper", None)
    assert begun["status"] in ("queued", "running")
    assert begun["run_id"] == seen[0]["run_id"]
    assert seen == served.get(f"/competitions/{created}/events", since_seq=-1)
    kinds = [(event["kind"], event["evidence"]) for event in seen]
    assert kinds.index(("AGENT_ACTION", False)) < kinds.index(("AGENT_ACTION", True))
    assert kinds[-1] == ("COMPETITION_FINALIZED", False)
    state = served.get(f"/competitions/{created}")
    assert (state["status"], state["replay_binding"]) == ("finalized", None)
    assert state["proof_card"]["run"]["mode_label"] == "Live paper"
    assert served.post(f"/runs/{state['run_id']}/verify")["verified"]
    assert [row["agent_id"] for row in served.get("/leaderboard")["rows"]] == []  # nobody's odds rank nobody


def test_a_live_deploy_is_bound_to_no_pack_and_health_tells_of_it(served):
    answer = served.post("/agents/deploy", DEPLOY)

    assert answer["replay_binding"] is None
    assert served.get("/readyz")["feed"]["error"] is None
    assert "clvlab_feed{" in served.nobody.get("/metrics").text
    record = served.get(f"/agents/instances/{answer['instance_id']}", by=served.alice)
    assert {check["name"] for check in record["preflight"] if not check["ok"]} == set()
    assert {"live_feed", "fixture_on_feed", "quota"} <= {check["name"] for check in record["preflight"]}


@pytest.mark.parametrize(
    ("body", "check"),
    [(DEPLOY | {"fixture_id": 17}, "fixture_on_feed"), (DEPLOY | {"pack_id": "starter"}, "replay_binding")],
)
def test_a_live_deploy_that_can_not_be_followed_is_refused_by_name(served, body, check):
    problem = assert_problem(served.alice.post("/agents/deploy", json=body), 422)

    assert [one["name"] for one in problem["checks"]] == [check]


def test_a_live_competition_names_no_pack(served):
    problem = assert_problem(served.alice.post("/competitions", json=LIVE | {"pack_id": "starter"}), 400)

    assert "starter" in problem["detail"]


class TestWithoutAFeed:
    def test_a_competition_is_created_and_says_what_its_start_waits_for(self, api_in_memory):
        created = api_in_memory.post("/competitions", LIVE)["competition_id"]
        api_in_memory.post(f"/competitions/{created}/agents", make_entry())

        problem = assert_problem(api_in_memory.alice.post(f"/competitions/{created}/start"), 409)
        assert problem["reason"] == "no_live_feed"
        assert "CLVLAB_FEED" in problem["detail"]
        assert "CLVLAB_FEED" in api_in_memory.get(f"/competitions/{created}")["cause"]

    def test_a_deploy_is_refused_with_the_settings_that_would_mend_it(self, api_in_memory):
        problem = assert_problem(api_in_memory.alice.post("/agents/deploy", json=DEPLOY), 422)

        assert [(one["name"], "CLVLAB_LIVE_FOLDER" in one["message"]) for one in problem["checks"]] == [("live_feed", True)]

    def test_readiness_has_no_feed(self, api_in_memory):
        assert httpx2.get(f"{api_in_memory.url}/readyz", timeout=PATIENCE_S).json()["feed"] is None
