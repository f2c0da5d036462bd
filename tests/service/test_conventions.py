"""What holds for every endpoint, whatever the application answers; so none is started here."""

import gzip
import json
import re
from http import HTTPStatus

import pytest
import zstandard
from clvlab_service.app import create_app
from clvlab_service.auth import Authenticator, FileKey
from clvlab_service.settings import Settings
from starlette.testclient import TestClient

from tests.factories import ERRORS
from tests.length import few
from tests.service.tokens import AUDIENCE, ISSUER, make_key, make_token

KEY = make_key("EdDSA")
OWNED = [
    ("POST", "/competitions"),
    ("POST", "/competitions/c/agents"),
    ("DELETE", "/competitions/c/agents/x"),
    ("DELETE", "/competitions/c"),
    ("GET", "/competitions/c/agent-errors"),
    ("POST", "/competitions/c/open"),
    ("POST", "/competitions/c/start"),
    ("POST", "/competitions/c/cancel"),
    ("POST", "/competitions/c/complete"),
    ("POST", "/agents/deploy"),
    ("GET", "/agents/instances"),
    ("GET", "/agents/instances/i"),
    ("GET", "/agents/instances/i/runtime-events"),
    ("POST", "/agents/instances/i/cancel"),
    ("DELETE", "/agents/instances/i"),
    ("POST", "/arena/seats"),
    ("GET", "/arena/seats"),
    ("GET", "/arena/seats/i"),
    ("POST", "/arena/seats/i/actions"),
    ("GET", "/arena/seats/i/chain"),
    ("DELETE", "/arena/seats/i"),
    ("POST", "/arena/competitions"),
    ("POST", "/arena/competitions/i/close"),
    ("GET", "/me"),
    ("POST", "/me/packs"),
    ("GET", "/me/packs"),
    ("GET", "/me/packs/i"),
    ("DELETE", "/me/packs/i"),
    ("GET", "/me/uploads/i"),
    ("POST", "/me/uploads/i/cancel"),
]


def make_client(**settings):
    client = TestClient(create_app(Settings(log_level="error", **settings)), raise_server_exceptions=False)
    client.app.state.application = None
    return client


@pytest.fixture(scope="module")
def client():
    return make_client(max_body_bytes=1000)


@pytest.fixture(scope="module")
def trusting(tmp_path_factory):
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    path = tmp_path_factory.mktemp("key") / "public.pem"
    path.write_bytes(KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    client = make_client(max_body_bytes=1000)
    client.app.state.auth = Authenticator(FileKey(path), ISSUER, AUDIENCE, 86_400)
    client.headers["Authorization"] = f"Bearer {make_token(KEY, 'EdDSA')}"
    return client


def assert_problem(response, status):
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]
    assert problem["request_id"] == response.headers["x-request-id"]
    return problem


@pytest.mark.parametrize(("method", "path"), OWNED)
def test_401_comes_before_the_body_is_parsed_and_says_how_to_authenticate(client, method, path):
    body = {} if method == "GET" else {"content": b'{"not json', "headers": {"Content-Type": "application/json"}}
    response = client.request(method, path, **body)

    assert assert_problem(response, 401)["type"] == "urn:clvlab:problem:invalid-token"
    assert response.headers["www-authenticate"] == 'Bearer realm="clvlab"'


def test_401_comes_before_an_oversized_body_is_read(client):
    assert_problem(client.post("/competitions", content=b"x" * 5000), 401)


def test_a_bad_token_is_named_as_such(client):
    response = client.post("/competitions", headers={"Authorization": "Bearer a.b.c"})

    assert_problem(response, 401)
    assert response.headers["www-authenticate"] == 'Bearer realm="clvlab", error="invalid_token"'


def test_every_operation_with_a_security_scheme_is_in_the_list_above(client):
    paths = client.get("/openapi.json").json()["paths"]
    secured = {(m.upper(), p) for p, methods in paths.items() for m, operation in methods.items() if operation.get("security")}

    assert {(method, re.sub(r"\{\w+\}", "x", path)) for method, path in secured} == {
        (method, re.sub(r"/[ci](?=/|$)", "/x", path)) for method, path in OWNED
    }


@pytest.mark.parametrize(
    ("content", "status"),
    [(b'{"not json', 400), (b"", 422), (b"[]", 422), (b'"\xff"', 400), (b"[" * 490 + b"]" * 490, 422), (b"9" * 990, 422)],
)
def test_a_body_that_is_no_json_object_is_a_problem(trusting, content, status):
    assert_problem(trusting.post("/competitions", content=content, headers={"Content-Type": "application/json"}), status)


def test_422_names_every_bad_field_without_repeating_long_values(trusting):
    problem = assert_problem(trusting.post("/competitions", json={"roster_size": True, "source_mode": "x" * 500}), 422)

    fields = {entry["loc"][1]: entry for entry in problem["errors"]}
    assert {"competition_type", "roster_size", "source_mode", "market_scope"} <= set(fields)
    assert len(fields["source_mode"]["input"]) < 210


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_over_the_limit_is_413(trusting, chunked):
    body = (b"x" * 100 for _ in range(20)) if chunked else b"x" * 1001
    problem = assert_problem(trusting.post("/competitions", content=body), 413)

    assert "1000 bytes" in problem["detail"]


def test_a_body_at_the_limit_is_read(trusting):
    body = b'{"competition_type": "' + b"x" * 976 + b'"}'
    assert len(body) == 1000

    assert_problem(trusting.post("/competitions", content=body, headers={"Content-Type": "application/json"}), 422)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nothing", 404), ("DELETE", "/leaderboard", 405), ("GET", "/leaderboard/", 404), ("POST", "/replay-packs", 405)],
)
def test_errors_of_the_framework_are_problems(client, method, path, status):
    assert_problem(client.request(method, path), status)


def test_an_unexpected_error_is_a_problem_that_gives_nothing_away(client):
    problem = assert_problem(client.get("/leaderboard"), 500)  # no application was started

    assert "application" not in problem["detail"]
    assert "Error" not in problem["detail"]


def test_the_log_of_an_unexpected_error_has_its_traceback_and_no_values(capfd):
    make_client().get("/leaderboard", headers={"Authorization": "Bearer secret-token", "X-Request-ID": "mine"})

    logged = capfd.readouterr().err
    assert '"request_id":"mine"' in logged
    assert "AttributeError" in logged
    assert "secret-token" not in logged


def test_every_error_class_has_a_status_of_an_error_and_exit_codes():
    for found in ERRORS:
        assert 400 <= HTTPStatus(found.http_status) < 600, found
        assert (found.exit_code, found.service_exit_code) in {(2, 2), (2, 3)}, found


def test_a_plain_request_id_is_kept_and_another_is_replaced(client):
    assert client.get("/healthz", headers={"X-Request-ID": "mine-1"}).headers["x-request-id"] == "mine-1"
    assert client.get("/healthz", headers={"X-Request-ID": 'a"b c'}).headers["x-request-id"] != 'a"b c'


@pytest.mark.parametrize("encoding", ["zstd", "gzip"])
def test_large_answers_are_compressed_as_asked(client, encoding):
    with client.stream("GET", "/openapi.json", headers={"Accept-Encoding": encoding}) as response:
        packed = b"".join(response.iter_raw())
    unpack = {"gzip": gzip.decompress, "zstd": lambda content: zstandard.ZstdDecompressor().decompressobj().decompress(content)}

    assert response.headers["content-encoding"] == encoding
    assert json.loads(unpack[encoding](packed))["openapi"].startswith("3.1")
    assert "content-encoding" not in client.get("/openapi.json", headers={"Accept-Encoding": "identity"}).headers


def test_other_origins_are_not_let_in_unless_configured(client):
    asked = {"Origin": "https://a.example", "Access-Control-Request-Method": "GET"}

    assert "access-control-allow-origin" not in client.get("/healthz", headers=asked).headers
    allowed = make_client(cors_origins="https://a.example").get("/healthz", headers=asked)
    assert allowed.headers["access-control-allow-origin"] == "https://a.example"
    assert {"Link", "Retry-After"} <= set(allowed.headers["access-control-expose-headers"].split(", "))
    removing = asked | {"Access-Control-Request-Method": "DELETE"}
    assert make_client(cors_origins="https://a.example").options("/competitions/c", headers=removing).status_code == 200


def test_the_documentation_page_asks_nobody_else(client):
    page = client.get("/docs")
    assert '<html lang="en">' in page.text
    assert '<main id="swagger-ui">' in page.text

    assert "'self'" in page.headers["content-security-policy"]
    links = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert links
    assert all(link.startswith("/docs/assets/") and client.get(link).status_code == 200 for link in links)
    assert "http://" not in page.text
    assert "https://" not in page.text


def test_behind_a_proxy_the_page_finds_what_it_needs_under_its_path(client):
    behind = TestClient(client.app, root_path="/clvlab")
    page = behind.get("/docs")

    assert re.findall(r'(?:src|href)="([^"]+)"', page.text)[0].startswith("/clvlab/docs/assets/")
    assert "'/clvlab/openapi.json'" in page.text
    assert behind.get("/openapi.json").json()["servers"] == [{"url": "/clvlab"}]


def test_openapi_names_every_operation_its_tag_and_its_errors(client):
    document = client.get("/openapi.json").json()
    tags = {tag["name"] for tag in document["tags"]}
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]

    assert len({operation["operationId"] for operation in operations}) == len(operations)
    for operation in operations:
        assert set(operation["tags"]) <= tags
        assert operation["description"]
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                assert list(response["content"]) == ["application/problem+json"], operation["operationId"]


def test_bodies_have_examples(client):
    document = client.get("/openapi.json").json()

    for path in ("/competitions", "/competitions/{competition_id}/agents", "/agents/deploy", "/backtests"):
        content = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        assert content.get("example") or content.get("examples") or content["schema"].get("examples")


def test_importing_the_application_does_no_work():
    import subprocess
    import sys

    code = "import clvlab_service.app, sys; print('uvicorn' in sys.modules, 'clvlab.cli' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["False", "False"]
    assert done.stderr == ""


@few(6)
@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("10.1.2.3", ["203.0.113.7"], "203.0.113.7"),
        ("10.1.2.3", ["192.0.2.9, 203.0.113.7"], "203.0.113.7"),  # the client chose the first
        ("10.1.2.3", ["192.0.2.9, 203.0.113.7, 192.168.0.5"], "203.0.113.7"),
        ("10.1.2.3", ["203.0.113.7", "192.168.0.5"], "203.0.113.7"),
        ("10.1.2.3", ["203.0.113.7:4711"], "203.0.113.7"),
        ("10.1.2.3", ["10.9.9.9, 10.8.8.8"], "10.9.9.9"),
        ("10.1.2.3", ["2001:db8::7"], "2001:db8::7"),
        ("10.1.2.3", ["[2001:db8::7]:4711"], "2001:db8::7"),
        ("10.1.2.3", [], "10.1.2.3"),
        ("192.168.0.5", ["203.0.113.7"], "203.0.113.7"),
        ("192.168.0.6", ["203.0.113.7"], "192.168.0.6"),
        ("11.1.2.3", ["203.0.113.7"], "11.1.2.3"),
        ("::ffff:10.1.2.3", ["203.0.113.7"], "203.0.113.7"),
        ("::ffff:11.1.2.3", ["203.0.113.7"], "::ffff:11.1.2.3"),
        ("fd00::5", ["203.0.113.7, ::ffff:192.168.0.5"], "203.0.113.7"),
        ("fd01::5", ["203.0.113.7"], "fd01::5"),
    ],
)
def test_the_client_is_whom_trusted_proxies_name_and_else_who_connected(peer, forwarded, client, capsysbinary):
    settings = Settings(trusted_proxies="10.0.0.0/8, 192.168.0.5, fd00::/16")
    asking = TestClient(create_app(settings), client=(peer, 1))

    asking.get("/nothing", headers=[("X-Forwarded-For", line) for line in forwarded])

    line = json.loads(capsysbinary.readouterr().err)
    assert (line["event"], line["client"]) == ("request", client)


def test_without_trusted_proxies_nobody_names_another_client(capsysbinary):
    TestClient(create_app(Settings()), client=("127.0.0.1", 1)).get("/nothing", headers={"X-Forwarded-For": "203.0.113.7"})

    assert json.loads(capsysbinary.readouterr().err)["client"] == "127.0.0.1"
