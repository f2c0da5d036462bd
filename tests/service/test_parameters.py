"""Query parameters that no one declared, or that stand twice, are named instead of ignored."""

import json

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.service.serving import assert_problem


@pytest.fixture(scope="module")
def api(api_in_memory):
    return api_in_memory


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/runs?Limit=1", ["Limit"]),
        ("/runs?limit=1&LIMIT=1", ["LIMIT"]),
        ("/runs?limit=1&offset=5&page=2", ["offset", "page"]),
        ("/runs?limit=1&limit=2", ["limit"]),
        ("/runs?limit=1&limit=1", ["limit"]),
        ("/runs?%00=1", ["\x00"]),
        ("/leaderboard?since=1", ["since"]),
        ("/leaderboard?x", ["x"]),
        ("/leaderboard?=x", [""]),
        ("/competitions?status=RUNNING&status=DRAFT", ["status"]),
        ("/competitions/gone/events?since=5", ["since"]),
        ("/runs/gone/actions/1?run_id=other", ["run_id"]),
        ("/log/entries?since=0&first=1", ["first"]),
        ("/healthz?verbose=1", ["verbose"]),
    ],
)
def test_parameters_that_are_unknown_or_stand_twice_are_422_and_named(api, path, names):
    problem = assert_problem(api.nobody.get(path), 422)

    assert problem["type"] == "urn:clvlab:problem:invalid-request"
    assert [entry["loc"] for entry in problem["errors"]] == [["query", name] for name in names]
    assert all(name in problem["detail"] for name in names)


def test_an_unknown_parameter_is_told_which_ones_there_are(api):
    assert "cursor, limit" in assert_problem(api.nobody.get("/backtests?page=1"), 422)["detail"]
    assert "takes no parameters" in assert_problem(api.nobody.get("/healthz?page=1"), 422)["detail"]


def test_every_operation_refuses_an_unknown_parameter_and_says_so_in_the_document(api):
    for path, methods in api.get("/openapi.json")["paths"].items():
        for method, operation in methods.items():
            body = {"json": {}} if "requestBody" in operation else {}
            response = api.alice.request(method, path.replace("{seq}", "1"), params={"colour": "vermilion"}, **body)
            assert assert_problem(response, 422)["errors"][0]["loc"] == ["query", "colour"], path
            assert "422" in operation["responses"], path


def test_a_token_is_asked_for_before_a_parameter_is_named(api):
    assert_problem(api.nobody.post("/competitions?colour=vermilion", json={}), 401)


def test_the_documentation_page_takes_whatever_stands_behind_its_name(api):
    for path in ("/docs", "/openapi.json"):
        assert api.nobody.get(path, params={"version": "2"}).status_code == 200


@pytest.mark.parametrize(
    ("query", "name"), [("since=5", "since"), ("since_seq=1&since_seq=2", "since_seq"), ("since_seq=0&token=x", "token")]
)
def test_a_handshake_with_a_parameter_that_is_unknown_or_stands_twice_is_answered_with_a_problem(api, query, name):
    created = api.competition()

    with (
        pytest.raises(InvalidStatus) as refusal,
        connect(f"{api.url.replace('http', 'ws', 1)}/competitions/{created}/arena?{query}"),
    ):
        pass

    problem = json.loads(refusal.value.response.body)
    assert (problem["status"], problem["errors"][0]["loc"]) == (422, ["query", name])
