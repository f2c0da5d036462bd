from html import unescape

import pytest

import clvlab as cl
from clvlab.words import BLINDNESS
from tests.arena.seats import FIXTURES
from tests.service.serving import assert_problem

RULES = {"name": "Spring <b>", "pack_id": "starter", "fixture_ids": FIXTURES, "blind": "open"}
BLIND = {"name": "Blind", "pack_id": "starter", "blind": "aliased"}


def made(api, **fields):
    return api.post("/arena/competitions", RULES | fields)["competition_id"]


def page_of(api, path):
    return unescape(api.nobody.get(path, headers={"Accept": "text/html"}).text)


def test_a_competition_is_opened_entered_read_by_anybody_and_closed(api):
    response = api.alice.post("/arena/competitions", json=RULES | {"colour": "red", "max_stake": 500})
    created = response.json()
    competition_id = created["competition_id"]
    seat = api.post("/arena/seats", {"agent_id": "me", "competition_id": competition_id}, by=api.bob)

    found = api.get(f"/arena/competitions/{competition_id}", by=api.nobody)

    assert (response.status_code, created["ignored"]) == (201, ["colour"])
    assert response.headers["location"].endswith(f"/arena/competitions/{competition_id}")
    assert (found["rules"]["max_stake"], found["rules"]["fixture_ids"], found["rules"]["tick_s"]) == (500, FIXTURES, 3600)
    assert [(one["agent_id"], one["answered"], one["rank"]) for one in found["standing"]] == [("me", 0, None)]
    assert api.get(f"/arena/seats/{seat['seat_id']}", by=api.bob)["competition_id"] == competition_id
    assert_problem(api.bob.post(f"/arena/competitions/{competition_id}/close"), 403)
    assert api.post(f"/arena/competitions/{competition_id}/close", expect=200)["status"] == "closed"
    assert_problem(api.alice.post(f"/arena/competitions/{competition_id}/close"), 409)
    closed = assert_problem(api.bob.post("/arena/seats", json={"agent_id": "me", "competition_id": competition_id}), 409)
    assert "is closed" in closed["detail"]


def test_competitions_are_listed_in_pages(api):
    ids = [made(api, name=f"n {n}") for n in range(3)]

    response = api.nobody.get("/arena/competitions", params={"limit": 2})
    following = api.nobody.get(response.links["next"]["url"]).json()["competitions"]

    listed = [one["competition_id"] for one in response.json()["competitions"] + following]
    assert set(ids) <= set(listed)
    assert_problem(api.nobody.get("/arena/competitions", params={"cursor": "x"}), 422)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"name": None}, 422, "name"),
        (BLIND | {"fixture_ids": FIXTURES}, 422, "name no fixture_ids"),
        (RULES | {"max_stake": 1}, 422, "max_stake"),
        (RULES | {"pack_id": "gone"}, 404, "gone"),
        (RULES | {"fixture_ids": [4]}, 422, "fixture 4 is not in pack 'starter'"),
        (RULES | {"closes_ts_ms": 1}, 400, "is over"),
        ([], 422, "body"),
    ],
)
def test_bad_competitions_are_refused(api, body, status, said):
    response = api.alice.post("/arena/competitions", json=body)

    assert said in str(assert_problem(response, status))


def test_nobody_opens_one_without_a_token_and_unknown_ones_are_unknown(api):
    assert_problem(api.nobody.post("/arena/competitions", json=RULES), 401)
    assert_problem(api.nobody.get("/arena/competitions/seats_none"), 404)
    assert_problem(api.alice.post("/arena/competitions/seats_none/close"), 404)
    assert_problem(api.alice.post("/arena/seats", json={"agent_id": "me", "competition_id": "seats_none"}), 404)
    wrong = api.alice.post("/arena/seats", json={"agent_id": "me", "competition_id": made(api), "blind": "aliased"})
    assert "is open, not aliased" in assert_problem(wrong, 400)["detail"]


def test_a_page_says_what_is_hidden_and_of_a_blind_seat_only_how_many_ticks_it_answered(api):
    competition_id = api.post("/arena/competitions", BLIND)["competition_id"]
    seat = api.post("/arena/seats", {"agent_id": "me", "competition_id": competition_id}, by=api.bob)
    for tick in (1, 2):
        api.post(f"/arena/seats/{seat['seat_id']}/actions", {"tick": tick}, by=api.bob, expect=200)

    shown, listed = page_of(api, f"/arena/competitions/{competition_id}"), page_of(api, "/arena/competitions")

    assert BLINDNESS["aliased"].capitalize() in shown
    assert "2 price updates answered" in shown
    assert "Too few seats are sealed" in shown
    for hidden in (seat["seat_id"], seat["run_id"], *map(str, FIXTURES)):
        assert hidden not in shown + listed
    assert "names, ids and dates" in listed
    made(api)
    assert "Spring <b>" in page_of(api, "/arena/competitions")
    assert "<b>" not in api.nobody.get("/arena/competitions", headers={"Accept": "text/html"}).text


def test_the_client_has_every_call(api):
    with cl.Client(api.url, api.alice.headers["authorization"].removeprefix("Bearer ")) as client:
        competition_id = client.create_seat_competition("Summer", pack_id="starter", blind="open")["competition_id"]
        client.take_seat("me", competition_id=competition_id)

        assert client.seat_competition(competition_id)["seats"] == {"playing": 1, "sealed": 0, "abandoned": 0}
        assert client.seat_competitions(limit=1)["competitions"][0]["competition_id"] == competition_id
        assert client.close_seat_competition(competition_id)["status"] == "closed"
