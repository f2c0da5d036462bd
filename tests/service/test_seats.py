import json
import time
from concurrent.futures import ThreadPoolExecutor
from html import unescape

import httpx2
import pytest

import clvlab as cl
from clvlab.agents.seat import play
from clvlab.client import ApiError
from clvlab.log.note import Signer, write_signer
from clvlab.words import BLINDNESS, CAUSALITY
from tests.arena.seats import FIXTURES, Favourite
from tests.commands import clvlab
from tests.length import few
from tests.postgres import say
from tests.service.serving import api as serve_api
from tests.service.serving import assert_problem
from tests.waiting import until

SEAT = {"agent_id": "me", "pack_id": "starter", "fixture_ids": FIXTURES}


def act(api, seat_id, body, expect=200, **options):
    response = (options.pop("by", None) or api.alice).post(f"/arena/seats/{seat_id}/actions", json=body, **options)
    return response.json() if response.status_code == expect == 200 else assert_problem(response, expect)


@few(1)
def test_a_seat_is_taken_answered_sealed_and_read(api):
    made = api.alice.post("/arena/seats", json=SEAT | {"colour": "red"})
    start = made.json()
    seat_id, tick, said = start["seat_id"], start["next"], 0

    assert made.status_code == 201
    assert made.headers["location"].endswith(f"/arena/seats/{seat_id}")
    assert start["ignored"] == ["colour"]
    assert api.get(f"/runs/{start['run_id']}", expect=404)
    while tick:
        view = tick["view"]
        body = {"tick": view["tick"]}
        if view["tick"] % 50 == 1:
            body |= {"action": "BACK", "side": view["sides"][0][0], "confidence": 0.5}
            said += 1
        answer = act(api, seat_id, body)
        tick = answer["next"]
    until(lambda: api.get(f"/arena/seats/{seat_id}", by=api.alice)["status"] == "sealed")

    found, chain = api.get(f"/arena/seats/{seat_id}", by=api.alice), api.get(f"/arena/seats/{seat_id}/chain", by=api.alice)
    card = api.get(f"/runs/{start['run_id']}")
    assert answer["done"]
    assert (found["fixture_ids"], found["next"], found["answered"]) == (FIXTURES, None, len(chain["ticks"]))
    assert found["secret"] == chain["secret"]
    assert chain["ticks"][-1]["head"] == answer["answered"]["head"]
    assert card["lineage"]["agents"][0]["causality"] == "asked"
    assert api.get(f"/runs/{start['run_id']}/decisions")["total"] == said
    page = api.nobody.get(f"/runs/{start['run_id']}", headers={"Accept": "text/html"}).text
    assert f"{CAUSALITY['asked']}; {BLINDNESS['aliased']}" in unescape(page)
    assert api.post(f"/runs/{start['run_id']}/verify")["verified"]


def test_the_same_answer_again_is_alike_and_others_conflict(api):
    start = api.post("/arena/seats", SEAT, expect=201)
    seat_id, sides = start["seat_id"], start["next"]["view"]["sides"]
    body = {"tick": 1, "action": "BACK", "side": sides[0][0]}
    first = act(api, seat_id, body)

    assert act(api, seat_id, body) == first
    assert act(api, seat_id, {"tick": 1, "decisions": [{"action": "BACK", "side": sides[0][0]}]}) == first
    other = act(api, seat_id, body | {"side": sides[1][0]}, 409)
    early = act(api, seat_id, {"tick": 3}, 409)
    wrong = act(api, seat_id, {"tick": 2, "action": "BACK", "side": "part9"}, 400)

    assert (other["type"], other["reason"], other["open_tick"]) == ("urn:clvlab:problem:seat-conflict", "answered", 2)
    assert (early["reason"], early["open_tick"]) == ("unserved", 2)
    assert "has no side 'part9'" in wrong["detail"]
    assert api.get(f"/arena/seats/{seat_id}", by=api.alice)["next"] == first["next"]


def test_ten_megabytes_of_reasons_are_refused_and_the_tick_stays_open(api):
    start = api.post("/arena/seats", SEAT, expect=201)
    seat_id = start["seat_id"]

    act(api, seat_id, {"tick": 1, "action": "WAIT", "reason": "x" * (10 << 20)}, 413)
    long = act(api, seat_id, {"tick": 1, "action": "WAIT", "reason": "x" * 2001}, 422)
    act(api, seat_id, {"tick": 1, "decisions": [{"action": "WAIT", "reason": "x" * 2000}] * 65}, 422)

    assert "2000" in long["detail"]
    assert act(api, seat_id, {"tick": 1, "action": "WAIT", "reason": "x" * 2000})["answered"]["tick"] == 1


def test_the_token_of_another_owner_finds_no_seat(api):
    seat_id = api.post("/arena/seats", SEAT, expect=201)["seat_id"]

    act(api, seat_id, {"tick": 1}, 404, by=api.bob)
    act(api, seat_id, {"tick": 1}, 401, by=api.nobody)
    act(api, "seat_none", {"tick": 1}, 404)
    for path in ("", "/chain"):
        api.get(f"/arena/seats/{seat_id}{path}", by=api.bob, expect=404)
    assert_problem(api.bob.delete(f"/arena/seats/{seat_id}"), 404)
    api.get("/arena/seats", by=api.nobody, expect=401)

    assert api.get(f"/arena/seats/{seat_id}", by=api.alice)["answered"] == 0


def test_a_withdrawn_seat_is_over(api):
    seat_id = api.post("/arena/seats", SEAT, expect=201)["seat_id"]
    act(api, seat_id, {"tick": 1})

    assert api.alice.delete(f"/arena/seats/{seat_id}").status_code == 204

    assert act(api, seat_id, {"tick": 2}, 409)["reason"] == "over"
    assert_problem(api.alice.delete(f"/arena/seats/{seat_id}"), 409)
    assert_problem(api.alice.get(f"/arena/seats/{seat_id}/chain"), 409)
    found = api.get(f"/arena/seats/{seat_id}", by=api.alice)
    assert (found["status"], found["cause"], found["secret"]) == ("abandoned", "withdrawn", None)


def test_seats_are_listed_in_pages(api):
    made = [api.post("/arena/seats", SEAT | {"agent_id": "listed"}, expect=201)["seat_id"] for _ in range(3)]

    first = api.alice.get("/arena/seats", params={"limit": 2})
    second = api.alice.get(first.links["next"]["url"])

    listed = [*first.json()["seats"], *second.json()["seats"]]
    assert [one["seat_id"] for one in listed[:3]] == made[::-1]
    assert {"secret", "fixture_ids", "next"}.isdisjoint(listed[0])


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"agent_id": "me", "pack_id": "none"}, 404),
        ({"agent_id": "me", "pack_id": "starter", "fixture_ids": [1]}, 422),
        ({"agent_id": "me", "pack_id": "starter", "blind": "live"}, 422),
        ({"agent_id": "", "pack_id": "starter", "tick_s": 0}, 422),
        ({"pack_id": "starter"}, 422),
        ({"agent_id": "me", "pack_id": "starter", "end_rule": "fixed_duration"}, 400),
        ({"agent_id": "me", "pack_id": "starter", "fixtures": [1]}, 422),
    ],
)
def test_a_seat_that_cannot_be_taken_is_refused_by_name(api, body, status):
    assert_problem(api.alice.post("/arena/seats", json=body), status)


def test_two_services_on_one_store_take_one_answer_to_each_tick(keys, postgres):
    name = f"seats_{time.monotonic_ns()}"
    say(postgres.get_uri(), f"CREATE DATABASE {name}")
    url = postgres.get_uri(database=name)
    with serve_api(keys, url) as one, serve_api(keys, url) as other, ThreadPoolExecutor(2) as pool:
        start = one.post("/arena/seats", SEAT, expect=201)
        path, tick = f"/arena/seats/{start['seat_id']}/actions", start["next"]
        for _ in range(15):
            view = tick["view"]
            bodies = [{"tick": view["tick"], "action": "BACK", "side": side[0]} for side in view["sides"][:2]]
            responses = list(pool.map(lambda ask: ask[0].alice.post(path, json=ask[1]), zip((one, other), bodies, strict=True)))
            assert sorted(response.status_code for response in responses) == [200, 409]
            [kept] = [response.json() for response in responses if response.is_success]
            tick = kept["next"]
        assert other.get(f"/arena/seats/{start['seat_id']}", by=other.alice)["answered"] == 15


def test_receipts_are_signed_by_the_key_of_the_log(keys, tmp_path):
    signer = Signer.new("log.example")
    write_signer(signer, tmp_path / "log.key")
    with serve_api(keys, log_key_file=tmp_path / "log.key", seat_tick_s=5, max_owner_seats=1) as api:
        start = api.post("/arena/seats", SEAT | {"tick_s": 100}, expect=201)
        text = f"clvlab-seat/1\n{start['seat_id']}\n0\n{start['answered']['head']}\n"

        assert start["answered"]["receipt"] == f"{text}\n{signer.line(text)}"
        assert start["tick_s"] == 5
        assert_problem(api.alice.post("/arena/seats", json=SEAT), 429)


def test_the_client_plays_a_seat(api):
    with cl.Client(api.url, api.token()) as client:
        start = client.take_seat("Favourite", pack_id="starter", fixture_ids=[FIXTURES[0]], blind="open")

        last = play(Favourite(), start, lambda tick, decisions: client.act(start["seat_id"], tick, decisions))
        states = [state["status"] for state in client.follow(start["run_id"])]
        chain = client.seat_chain(start["seat_id"])
        other = client.take_seat("Favourite", pack_id="starter")
        client.withdraw_seat(other["seat_id"])
        with pytest.raises(ApiError, match="409") as refused:
            client.act(other["seat_id"], 1)

        assert states[-1] == "sealed"
        assert chain["ticks"][-1]["head"] == last["answered"]["head"] == client.seat(start["seat_id"])["head"]
        assert [one["status"] for one in client.seats(limit=2)["seats"]] == ["abandoned", "sealed"]
        assert refused.value.problem["reason"] == "over"
        assert client.progress(start["run_id"])["seat_id"] == start["seat_id"]


def test_a_connection_that_breaks_off_loses_no_answer(api):
    start = api.post("/arena/seats", SEAT, expect=201)
    path = f"/arena/seats/{start['seat_id']}"

    def hurry(client):
        for tick in range(1, 10_000):
            client.post(f"{path}/actions", json={"tick": tick})

    hasty = httpx2.Client(base_url=api.url, headers=api.alice.headers, verify=False, timeout=0.0005)
    with hasty, pytest.raises(httpx2.TimeoutException):
        hurry(hasty)

    found = api.get(path, by=api.alice)
    again = act(api, start["seat_id"], {"tick": found["answered"] + 1})
    assert again["answered"]["tick"] == found["answered"] + 1


def test_a_live_seat_is_waited_for_no_longer_than_a_request_says(keys, tmp_path):
    with serve_api(keys, devfeed=True, live_folder=tmp_path, seat_live_s=600, devfeed_speed=1e9) as api:
        seat = {"agent_id": "me", "blind": "live", "fixture_ids": [FIXTURES[0]]}
        start = api.post("/arena/seats", seat, expect=201)
        path = f"/arena/seats/{start['seat_id']}"
        for wrong in (31, 10**30, -1, "x"):
            assert_problem(api.alice.get(path, params={"wait_s": wrong}), 422)
        found = api.get(path, by=api.alice, wait_s=30)
        answer = act(api, start["seat_id"], {"tick": 1})
        api.get(path, by=api.bob, wait_s=1, expect=404)

        assert (start["next"], start["waiting"], found["next"]["view"]["tick"]) == (None, True, 1)
        assert (answer["done"], "waiting" in answer) == (False, True)
        assert api.alice.delete(path).status_code == 204
        assert api.get(path, by=api.alice, wait_s=30)["status"] == "abandoned"


def test_an_agent_of_a_file_plays_a_live_seat_from_a_terminal(keys, tmp_path):
    agent = "import clvlab\nclass Player(clvlab.TickAgent):\n    def on_tick(self, book):\n        "
    (tmp_path / "player.py").write_text(agent + "return book.back(book.sides()[0]) if book.tick_seq == 20 else None\n")
    with serve_api(keys, devfeed=True, live_folder=tmp_path / "live", seat_live_s=600, devfeed_speed=1e9) as api:
        token = api.alice.headers["Authorization"].removeprefix("Bearer ")
        words = ["arena", "play", "player.py:Player", "--blind", "live", "--fixture", str(FIXTURES[0]), "--token", token]
        code, said, errors = clvlab(tmp_path, *words, "--url", api.url, "--out", "live.clv", "--json")
        refused, _, why = clvlab(tmp_path, *words)

        assert (code, errors) == (0, "")
        played = json.loads(said)
        seat = api.get(f"/arena/seats/{played['seat_id']}", by=api.alice)
        assert (seat["status"], seat["blind"], seat["answered"]) == ("sealed", "live", played["ticks"])
        chain = api.get(f"/arena/seats/{played['seat_id']}/chain", by=api.alice)
        assert [one["stake"] for tick in chain["ticks"] for one in tick["decisions"]] == [100]
    assert (tmp_path / "live.clv").stat().st_size > 1000
    assert refused != 0
    assert "name its --url" in " ".join(why.split())
