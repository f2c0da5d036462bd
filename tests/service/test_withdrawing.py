"""Taking back what its owner made, while nothing of it is on record."""

from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest

from tests.service.serving import BOUND, assert_problem, make_entry

GONE = "no-such-thing"
NAMES = [
    "a/b",
    "/",
    "a/",
    "..",
    ".",
    "ü",
    "%2F",
    "a%2Fb",
    "a b",
    "a?b#c",
    "agents",
    "a.b;c",
    "+",
    "&limit=1",
    "\u202e",
    '"',
    "\u00a0",
]


def removal(created, agent_id):
    """URL that removes an agent; a dot is encoded too, as clients take segments of dots for steps."""
    return f"/competitions/{created}/agents/" + quote(agent_id, safe="").replace(".", "%2E")


def names(api, created):
    return [agent["agent_id"] for agent in api.get(f"/competitions/{created}")["roster"]]


@pytest.mark.parametrize("agent_id", NAMES)
def test_an_agent_of_any_name_is_removed_and_no_other(api, agent_id):
    created = api.competition(agents=("baseline",))
    api.post(f"/competitions/{created}/agents", make_entry(agent_id=agent_id))

    response = api.alice.delete(removal(created, agent_id))

    assert (response.status_code, response.content) == (204, b"")
    assert names(api, created) == ["baseline"]


def test_a_place_is_free_again_and_the_others_keep_their_order(api):
    created = api.competition(config=BOUND | {"roster_size": 3}, agents=())
    path = f"/competitions/{created}/agents"
    for agent_id in "abc":
        api.post(path, make_entry(agent_id=agent_id))

    for leaving, coming, left in (("a", "d", "bcd"), ("c", "a", "bda"), ("a", "c", "bdc"), ("d", "d", "bcd")):
        assert api.alice.delete(f"{path}/{leaving}").status_code == 204
        api.post(path, make_entry(agent_id=coming))
        assert names(api, created) == list(left)
        assert_problem(api.alice.post(path, json=make_entry(agent_id="one more")), 409)

    started = api.post(f"/competitions/{created}/start")
    lineage = api.get(f"/runs/{started['run_id']}")["lineage"]
    assert [agent["agent_id"] for agent in lineage["agents"]] == ["b", "c", "d"]


def test_an_open_competition_lets_an_agent_go(api):
    created = api.competition()
    api.post(f"/competitions/{created}/open")

    assert api.alice.delete(removal(created, "baseline")).status_code == 204
    assert names(api, created) == ["cumulative-drift"]


@pytest.mark.parametrize("path", ["", "/agents/baseline"])
def test_only_the_owner_takes_back(api, path):
    created = api.competition()

    assert_problem(api.nobody.delete(f"/competitions/{created}{path}"), 401)
    assert_problem(api.bob.delete(f"/competitions/{created}{path}"), 403)
    assert_problem(api.alice.delete(f"/competitions/{GONE}{path}"), 404)
    assert names(api, created) == ["baseline", "cumulative-drift"]


def test_an_agent_that_is_not_there_is_404_and_of_a_frozen_roster_409(api):
    created, _ = api.started()
    draft = api.competition()

    assert assert_problem(api.alice.delete(removal(draft, "a/b")), 404)["type"] == "urn:clvlab:problem:unknown-entry"
    for agent_id in ("baseline", "absent"):
        problem = assert_problem(api.alice.delete(removal(created, agent_id)), 409)
        assert problem["type"] == "urn:clvlab:problem:roster-frozen"
    assert names(api, created) == ["baseline", "cumulative-drift"]


@pytest.mark.parametrize("opened", [False, True])
def test_a_competition_without_events_is_deleted_with_its_roster(api, opened):
    created = api.competition()
    if opened:
        api.post(f"/competitions/{created}/open")

    response = api.alice.delete(f"/competitions/{created}")

    assert (response.status_code, response.content) == (204, b"")
    assert_problem(api.nobody.get(f"/competitions/{created}"), 404)
    assert_problem(api.nobody.get(f"/competitions/{created}/events"), 404)
    assert_problem(api.alice.delete(f"/competitions/{created}"), 404)
    assert_problem(api.alice.post(f"/competitions/{created}/agents", json=make_entry()), 404)
    assert_problem(api.alice.post(f"/competitions/{created}/start"), 404)
    assert created not in [entry["competition_id"] for entry in api.get("/competitions")]


def test_what_is_on_record_stays(api):
    created, started = api.started()

    problem = assert_problem(api.alice.delete(f"/competitions/{created}"), 409)

    assert (problem["type"], problem["reason"]) == ("urn:clvlab:problem:not-deletable", "has_events")
    assert api.get(f"/competitions/{created}")["run_id"] == started["run_id"]


@pytest.mark.parametrize(("method", "path", "body"), [("POST", "/agents", make_entry("baseline")), ("POST", "/start", None)])
def test_of_a_deletion_and_another_act_one_wins(api, method, path, body):
    for _ in range(6):
        created = api.competition(agents=("cumulative-drift",))
        with ThreadPoolExecutor(2) as pool:
            act = pool.submit(api.alice.request, method, f"/competitions/{created}{path}", json=body)
            deletion = pool.submit(api.alice.delete, f"/competitions/{created}")
            statuses = (act.result().status_code, deletion.result().status_code)

        expected = {(404, 204), (200, 409)} if path == "/start" else {(404, 204), (201, 204)}
        assert statuses in expected
        assert (api.nobody.get(f"/competitions/{created}").status_code == 404) is (statuses[1] == 204)
