"""HEAD, OPTIONS and 405, over every path of the document; and what a 304 says of the answer that it stands for."""

import re

import httpx2
import pytest

from tests.service.serving import BACKTEST, DEPLOY, assert_problem
from tests.service.test_conventions import make_client
from tests.waiting import PATIENCE_S, until

OF_THE_MESSAGE = {"date", "x-request-id"}


@pytest.fixture(scope="module")
def api(api_in_memory):
    return api_in_memory


@pytest.fixture(scope="module")
def ids(api):
    """Values for the parameters of every path, and of those that a path needs."""
    competition_id, started = api.started()
    deployed = api.post("/agents/deploy", DEPLOY)
    until(lambda: api.get(f"/runs/{deployed['run_id']}")["run"]["status"] == "sealed")
    return {
        "competition_id": competition_id,
        "run_id": started["run_id"],
        "backtest_id": api.post("/backtests", BACKTEST)["backtest_id"],
        "instance_id": deployed["instance_id"],
        "pack_id": "starter",
        "agent_id": "absent",
        "upload_id": "absent",
        "seat_id": api.post("/arena/seats", {"agent_id": "me", "pack_id": "starter"}, expect=201)["seat_id"],
        "strategy": "baseline",
        "seq": "1",
        "tile": "0/000.p/1",
        "first": "0",
        "second": "1",
    }


def reads(api, ids):
    """Path and query of every GET of the document."""
    for path, methods in api.get("/openapi.json")["paths"].items():
        if "get" in methods:
            needed = [one["name"] for one in methods["get"].get("parameters", ()) if one["in"] == "query" and one["required"]]
            yield path.format(**ids), {name: ids[name] for name in needed}


def said(response):
    return {name: value for name, value in response.headers.items() if name not in OF_THE_MESSAGE}


def test_head_answers_with_the_status_and_the_headers_of_the_get_and_no_body(api, ids):
    for path, params in [*reads(api, ids), ("/docs", {}), ("/openapi.json", {}), ("/docs/assets/swagger-ui.css", {})]:
        for encoding in ("identity", "gzip"):
            headers = {"Accept-Encoding": encoding}
            read = api.alice.get(path, params=params, headers=headers)
            head = api.alice.head(path, params=params, headers=headers)

            assert head.status_code == read.status_code, path
            assert head.content == b""
            if path != "/metrics":  # which counts these very requests
                assert said(head) == said(read), path


@pytest.mark.parametrize(
    ("path", "status"),
    [("/nothing", 404), ("/runs/gone", 404), ("/runs?limit=x", 422), ("/agents/instances/i", 401), ("/demo/run", 405)],
)
def test_head_of_what_can_not_be_read_has_the_status_and_headers_of_the_problem(api, path, status):
    read, head = api.nobody.get(path), api.nobody.head(path)

    assert head.status_code == status
    assert head.content == b""
    assert said(head).keys() == said(read).keys()
    assert head.headers["content-type"] == "application/problem+json"


def test_head_with_the_tag_of_an_answer_is_304(api, ids):
    path = f"/runs/{ids['run_id']}/evidence"
    tag = api.nobody.head(path).headers["etag"]

    assert api.nobody.head(path, headers={"If-None-Match": tag}).status_code == 304
    assert api.nobody.head(path, headers={"If-None-Match": '"another"'}).status_code == 200


def test_head_of_a_streamed_answer_ends_at_once_and_leaves_the_connection_usable(api, ids):
    path = f"/competitions/{ids['competition_id']}/events"
    with httpx2.Client(base_url=api.url, timeout=PATIENCE_S) as client:
        for _ in range(3):
            head = client.head(path, params={"since_seq": -1})
            assert (head.status_code, head.content) == (200, b"")
        assert client.get(path, params={"since_seq": -1}).json()[0]["seq"] == 0


def test_head_and_options_are_no_operations_of_the_document(api):
    assert {m for methods in api.get("/openapi.json")["paths"].values() for m in methods} <= {"get", "post", "put", "delete"}


def test_405_and_options_name_every_method_of_the_path(api, ids):
    for path, methods in api.get("/openapi.json")["paths"].items():
        allowed = {"OPTIONS", *map(str.upper, methods), *(["HEAD"] if "get" in methods else [])}

        refused = api.nobody.request("TRACE", path.format(**ids))
        options = api.nobody.options(path.format(**ids))

        assert_problem(refused, 405)
        assert (options.status_code, options.content) == (204, b"")
        for response in (refused, options):
            assert set(response.headers["allow"].split(", ")) == allowed, path


@pytest.mark.parametrize(
    ("path", "allowed"), [("/docs", "GET, HEAD, OPTIONS"), ("/docs/assets/swagger-ui.css", "GET, HEAD, OPTIONS")]
)
def test_405_of_the_documentation_page_names_its_methods(api, path, allowed):
    assert api.nobody.post(path).headers["allow"] == allowed


@pytest.mark.parametrize("path", ["/nothing", "/competitions/c/arena", "/leaderboard/"])
@pytest.mark.parametrize("method", ["OPTIONS", "HEAD", "DELETE"])
def test_a_path_that_only_a_handshake_or_nothing_is_at_is_404_by_any_method(api, path, method):
    response = api.nobody.request(method, path)

    assert response.status_code == 404
    assert "allow" not in response.headers


def test_304_says_what_its_200_would(api, ids):
    checked = 0
    for path, params in [*reads(api, ids), ("/docs/assets/swagger-ui.css", {})]:
        for encoding in ("identity", "zstd"):
            headers = {"Accept-Encoding": encoding}
            whole = api.alice.get(path, params=params, headers=headers)
            if "etag" not in whole.headers:
                continue
            unchanged = api.alice.get(path, params=params, headers=headers | {"If-None-Match": whole.headers["etag"]})

            assert (unchanged.status_code, unchanged.content) == (304, b""), path
            for name in ("cache-control", "content-location", "etag", "expires", "vary"):
                assert unchanged.headers.get(name) == whole.headers.get(name), (path, name)
            checked += 1
    assert checked > 10


def test_if_none_match_may_stand_in_several_lines(api):
    tag = api.nobody.get("/replay-packs").headers["etag"]

    lines = [("If-None-Match", '"another"'), ("If-None-Match", tag)]
    assert api.nobody.get("/replay-packs", headers=lines).status_code == 304


def test_vary_names_the_coding_once_and_the_origin_where_origins_are_configured():
    client = make_client(cors_origins="https://a.example")

    for path in ("/openapi.json", "/healthz"):
        vary = client.get(path, headers={"Origin": "https://a.example"}).headers["vary"]
        assert sorted(re.split(", *", vary)) == ["Accept-Encoding", "Origin"]


def test_another_origin_may_use_every_method_and_read_the_headers_that_answers_carry():
    client = make_client(cors_origins="https://a.example")
    origin = {"Origin": "https://a.example"}

    for method in ("GET", "HEAD", "POST", "DELETE"):
        preflight = client.options("/competitions", headers=origin | {"Access-Control-Request-Method": method})
        assert preflight.status_code == 200
        assert method in preflight.headers["access-control-allow-methods"]
    exposed = set(client.get("/healthz", headers=origin).headers["access-control-expose-headers"].split(", "))
    assert {"Allow", "ETag", "Link", "Location", "Retry-After", "WWW-Authenticate", "X-Request-ID"} <= exposed
