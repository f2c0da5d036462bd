"""What an owner may have going on at once, so that another one does not wait behind all of it."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.service import serving
from tests.service.serving import BOUND, DEPLOY, FIXTURE, assert_problem
from tests.service.tokens import ALICE


@pytest.fixture(params=["memory", "postgresql"])
def capped(request, keys):
    """A service over a store of its own, which performs nothing by itself and lets an owner have few of everything."""
    store = None if request.param == "memory" else request.getfixturevalue("emptied_postgres_url")
    with serving.api(keys, store, max_owner_starts=2, max_owner_deploys=2, max_owner_drafts=3) as served:
        served.app.state.application.jobs.stop()
        yield served


def test_deploys_beyond_the_cap_are_429_until_one_is_over(capped):
    for _ in range(2):
        capped.post("/agents/deploy", DEPLOY)

    refused = capped.alice.post("/agents/deploy", json=DEPLOY)

    problem = assert_problem(refused, 429)
    assert problem["detail"] == "you have 2 deploys that are not over, and may have 2 at once"
    assert int(refused.headers["retry-after"]) >= 1
    capped.post("/agents/deploy", DEPLOY, by=capped.bob)
    while capped.app.state.application.jobs.run_one():
        pass
    capped.post("/agents/deploy", DEPLOY)


def test_starts_beyond_the_cap_are_429_and_claim_nothing(capped):
    application = capped.app.state.application
    claimed = [capped.competition(agents=("baseline",)) for _ in range(2)]
    for competition_id in claimed:
        application.competitions.claim(ALICE, competition_id)
    third = capped.competition(agents=("baseline",))

    problem = assert_problem(capped.alice.post(f"/competitions/{third}/start"), 429)

    assert problem["detail"] == "you have 2 starts that are not over, and may have 2 at once"
    assert capped.get(f"/competitions/{third}")["status"] == "draft"
    while application.jobs.run_one():
        pass
    assert capped.post(f"/competitions/{third}/start")["status"] == "finalized"


def test_drafts_beyond_the_cap_are_429_until_one_is_deleted(capped):
    first, *_ = [capped.post("/competitions", BOUND)["competition_id"] for _ in range(3)]

    problem = assert_problem(capped.alice.post("/competitions", json=BOUND), 429)

    assert "you have 3 competitions that were not started" in problem["detail"]
    capped.post("/competitions", BOUND, by=capped.bob)
    assert capped.alice.delete(f"/competitions/{first}").status_code == 204
    capped.post("/competitions", BOUND)


def test_names_beyond_the_cap_are_429_and_those_that_are_there_go_on(request, keys):
    store = request.getfixturevalue("emptied_postgres_url")
    with serving.api(keys, store, max_owner_names=2) as served:
        served.app.state.application.jobs.stop()
        served.post("/agents/deploy", DEPLOY | {"agent_id": "one"})
        served.post("/agents/deploy", DEPLOY | {"agent_id": "two"})

        problem = assert_problem(served.alice.post("/agents/deploy", json=DEPLOY | {"agent_id": "three"}), 429)

        assert problem["detail"] == (
            "you have 2 names on the leaderboard, and may have 2: 'three' would be another; use an existing one"
        )
        served.post("/agents/deploy", DEPLOY | {"agent_id": "three"}, by=served.bob)
        while served.app.state.application.jobs.run_one():
            pass
        served.post("/agents/deploy", DEPLOY | {"agent_id": "one", "fixture_id": FIXTURE + 1})
        third = served.competition(agents=("baseline",))
        assert "2 names" in assert_problem(served.alice.post(f"/competitions/{third}/start"), 429)["detail"]
        assert served.get(f"/competitions/{third}")["status"] == "draft"
        assert sorted(row["agent_id"] for row in served.get("/leaderboard")["rows"]) == ["one", "three", "two"]


def test_a_roster_that_would_go_beyond_the_cap_is_refused_whole(keys):
    with serving.api(keys, max_owner_names=1) as served:
        both = served.competition()
        assert "you have 0 names" in assert_problem(served.alice.post(f"/competitions/{both}/start"), 429)["detail"]
        assert served.get("/leaderboard")["rows"] == []
        assert served.started(agents=("baseline",))[1]["status"] == "finalized"


def test_of_names_that_are_asked_for_at_once_no_more_get_in_than_may(request, keys):
    store = request.getfixturevalue("emptied_postgres_url")
    with serving.api(keys, store, max_owner_names=3) as served, ThreadPoolExecutor(12) as threads:
        served.app.state.application.jobs.stop()
        bodies = [DEPLOY | {"agent_id": f"name {number}"} for number in range(12)]

        statuses = list(threads.map(lambda body: served.alice.post("/agents/deploy", json=body).status_code, bodies))

    assert sorted(statuses) == [201] * 3 + [429] * 9
