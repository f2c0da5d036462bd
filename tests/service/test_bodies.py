"""What a body must be to be read: 415 of another form, 400 of what is no JSON, 422 of the wrong shape, in this order."""

import gzip
import json

import pytest

from tests.service.serving import BACKTEST, BOUND, CONFIG, DEPLOY, assert_problem, make_entry

JSON = "application/json"
BODIES = [
    ("/competitions", BOUND),
    ("/competitions/c/agents", make_entry()),
    ("/agents/deploy", DEPLOY),
    ("/backtests", BACKTEST),
]
UNREADABLE = {
    "cut off": b'{"not json',
    "single quotes": b"{'a': 1}",
    "trailing garbage": b'{"a": 1} x',
    "two values": b"{}{}",
    "blank": b"  \n",
    "not UTF-8": b'{"a": "\xff"}',
    "Latin-1": '{"a": "é"}'.encode("latin-1"),
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "UTF-32 without a mark": '{"a": 1}'.encode("utf-32-le"),
    "NaN": b'{"a": NaN}',
    "infinity": b'{"a": [-Infinity]}',
    "a name twice": b'{"agent_id": "mine", "agent_id": "yours"}',
    "a name twice, escaped": b'{"a": {"b": 1, "\\u0062": 2}}',
    "nested": b"[" * 10_000 + b"]" * 10_000,
    "huge integer": b'{"a": ' + b"9" * 5000 + b"}",
    "control character": b'{"a": "\n"}',
    "leading zero": b'{"a": 01}',
}


@pytest.fixture(scope="module")
def api(api_in_memory):
    return api_in_memory


def post(api, path, content, *types):
    return api.alice.post(path, content=content, headers=[("Content-Type", media_type) for media_type in types])


@pytest.mark.parametrize(("path", "body"), BODIES, ids=[path for path, _ in BODIES])
@pytest.mark.parametrize(
    "types",
    [
        ("text/json",),
        ("text/plain",),
        ("application/x-www-form-urlencoded",),
        ("multipart/form-data; boundary=x",),
        ("application/xml",),
        ("application/jsonp",),
        ("json",),
        ("",),
        (),
        (JSON, "text/plain"),
        (f"{JSON}, text/plain",),
        ("x" * 4000,),
    ],
    ids=lambda types: " and ".join(types)[:40] or "none",
)
def test_a_body_of_another_media_type_is_415_that_names_it_and_says_what_is_read(api, path, body, types):
    response = post(api, path, json.dumps(body), *types)

    detail = assert_problem(response, 415)["detail"]
    assert "application/json" in detail
    assert all(media_type[:100] in detail for media_type in types)
    assert response.headers["accept"] == JSON


@pytest.mark.parametrize(
    "media_type",
    [JSON, "Application/JSON", f"{JSON}; charset=utf-8", f"{JSON};charset=utf-16", "application/vnd.example+json"],
)
def test_json_by_whatever_name_is_read_as_utf_8(api, media_type):
    assert post(api, "/competitions", json.dumps(CONFIG), media_type).status_code == 201


def test_one_media_type_that_stands_twice_is_one(api):
    assert post(api, "/competitions", json.dumps(CONFIG), JSON, JSON).status_code == 201


def test_a_byte_order_mark_is_passed_over(api):
    assert post(api, "/competitions", b"\xef\xbb\xbf" + json.dumps(CONFIG).encode(), JSON).status_code == 201


@pytest.mark.parametrize("coding", ["gzip", "br", "x-unknown"])
def test_a_body_in_a_content_coding_is_415_that_asks_for_none(api, coding):
    body = gzip.compress(json.dumps(CONFIG).encode())
    response = api.alice.post("/competitions", content=body, headers={"Content-Type": JSON, "Content-Encoding": coding})

    assert coding in assert_problem(response, 415)["detail"]
    assert response.headers["accept-encoding"] == "identity"
    assert "accept" not in response.headers


@pytest.mark.parametrize("path", ["/competitions", "/backtests", "/agents/deploy"])
@pytest.mark.parametrize("content", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_body_that_is_no_json_is_400_that_says_why(api, path, content):
    problem = assert_problem(post(api, path, content, JSON), 400)

    assert problem["type"] == "about:blank"
    assert problem["detail"].startswith("the request body can't be read as JSON: ")
    assert len(problem["detail"]) < 300


def test_a_name_that_stands_twice_is_named(api):
    assert "'agent_id'" in assert_problem(post(api, "/backtests", UNREADABLE["a name twice"], JSON), 400)["detail"]


@pytest.mark.parametrize("path", ["/competitions", "/competitions/c/agents", "/agents/deploy", "/backtests"])
@pytest.mark.parametrize("content", [b"[]", b"5", b"null", b'"text"', b"1e400", b"[" * 300 + b"]" * 300], ids=repr)
def test_json_of_the_wrong_shape_is_422(api, path, content):
    assert assert_problem(post(api, path, content, JSON), 422)["errors"][0]["loc"][0] == "body"


@pytest.mark.parametrize("types", [(), (JSON,), ("text/plain",)])
def test_no_body_where_one_is_needed_is_422_whatever_its_type(api, types):
    problem = assert_problem(post(api, "/backtests", b"", *types), 422)

    assert (problem["errors"][0]["loc"], problem["errors"][0]["type"]) == (["body"], "missing")


def test_a_body_that_nothing_asks_for_is_not_looked_at(api):
    created = api.competition()

    for path in (f"/competitions/{created}/open", f"/competitions/{created}/start"):
        assert post(api, path, b"\xff{not json", "text/plain").status_code == 200
    assert api.nobody.request("GET", "/leaderboard", content=b"{", headers={"Content-Type": "text/plain"}).status_code == 200


def test_every_operation_that_takes_json_refuses_all_else_and_says_so_in_the_document(api):
    document = api.get("/openapi.json")
    taking = [
        (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if "application/json" in operation.get("requestBody", {}).get("content", ())
    ]

    assert len(taking) >= len(BODIES)
    for method, path, operation in taking:
        response = api.alice.request(method, path, content=b"<a/>", headers={"Content-Type": "application/xml"})
        assert_problem(response, 415)
        assert {"400", "413", "415", "422"} <= set(operation["responses"]), path
