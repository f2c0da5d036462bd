"""Bodies and headers that no honest client sends: a clear refusal or an ordinary answer, never an error of the service."""

import json
import socket

import pytest

from tests.length import any_store, few
from tests.service.serving import BACKTEST, BOUND, CONFIG, DEPLOY, assert_problem, make_entry

NESTED = "[" * 400 + "]" * 400
VALUES = {
    "NUL": '"a\\u0000b"',
    "lone surrogate": '"\\ud800"',
    "NaN": "NaN",
    "infinity": "-Infinity",
    "huge float": "1e400",
    "huge integer": "9" * 400,
    "nested": NESTED,
    "nested object": '{"a":' * 300 + "1" + "}" * 300,
    "long text": json.dumps("x" * 50_000),
    "bidirectional": '"\\u202e\\u0000"',
    "duplicate keys": '{"a": 1, "a": 2}',
    "prototype": '{"__proto__": {"a": 1}, "constructor": 1}',
}
STORED = {"NUL", "lone surrogate", "huge integer", "long text"}  # readers let them pass, or stores have other limits
EACH_VALUE = [pytest.param(name, marks=() if name in STORED else any_store) for name in VALUES]
BODIES = [
    ("/competitions", "alice", CONFIG,
        ["market_scope", "division", "roster_size", "pack_id", "fixture_id", "scoring_window", "other"]),
    ("/competitions/{}/agents", "alice", make_entry(), ["agent_id", "strategy", "config", "proof_mode", "instance_id"]),
    ("/agents/deploy", "alice", DEPLOY,
        ["strategy", "agent_id", "params", "pack_id", "fixture_id", "market_allowlist", "stake", "other"]),
    ("/backtests", "nobody", BACKTEST,
        ["pack_id", "fixture_id", "window_id", "market_allowlist", "end_rule", "min_clv_horizon_s"]),
]  # fmt: skip
JSON = {"Content-Type": "application/json"}


def body_with(body, field, value):
    """The body as JSON text, with the field set to a raw JSON value."""
    return json.dumps(body | {field: "@here@"}).replace('"@here@"', value)


def refused_or_answered(response):
    assert response.status_code < 500, response.text[:500]
    if response.status_code >= 400:
        assert response.headers["content-type"] == "application/problem+json"
        assert len(response.content) < 20_000


@few(24)
@pytest.mark.parametrize("value", EACH_VALUE)
@pytest.mark.parametrize(("path", "by", "body", "fields"), BODIES, ids=[path for path, *_ in BODIES])
def test_a_body_of_strange_values(api, subtests, path, by, body, fields, value):
    for field in fields:
        with subtests.test(field=field):
            place = path.format(api.competition(agents=())) if "{}" in path else path
            content = body_with(body, field, VALUES[value])
            refused_or_answered(getattr(api, by).post(place, content=content, headers=JSON))


@few(5)
@pytest.mark.parametrize("value", EACH_VALUE)
def test_an_entry_whose_config_holds_strange_values_still_runs_or_is_refused(api, value):
    created = api.competition(config=BOUND, agents=("cumulative-drift",))
    entry = body_with(make_entry(), "config", '{"other": ' + VALUES[value] + "}")

    refused_or_answered(api.alice.post(f"/competitions/{created}/agents", content=entry, headers=JSON))
    refused_or_answered(api.alice.post(f"/competitions/{created}/start"))
    assert api.get(f"/competitions/{created}")["status"] == "finalized"


@pytest.mark.parametrize("field", ["fixture_id", "min_clv_horizon_s", "duration_s"])
def test_a_backtest_of_large_integers(api, subtests, field):
    rule = {"end_rule": "fixed_duration"} if field == "duration_s" else {}

    for number in (2**31, 2**53, 2**63, 2**64, -(2**63)):
        with subtests.test(number=number):
            refused_or_answered(api.nobody.post("/backtests", json=BACKTEST | rule | {field: number}))


@any_store
@pytest.mark.parametrize("value", ["application/xml", "text/plain", "application/json; charset=utf-16", "x" * 4000, ""])
def test_a_body_of_another_content_type(api, value):
    refused_or_answered(api.nobody.post("/backtests", content=json.dumps(BACKTEST), headers={"Content-Type": value}))


@any_store
def test_a_body_that_never_comes_holds_no_place(api):
    host, port = "127.0.0.1", int(api.url.rpartition(":")[2])
    waiting = []
    for _ in range(20):
        sock = socket.create_connection((host, port))
        sock.sendall(b"POST /backtests HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
        waiting.append(sock)

    assert api.post("/backtests", BACKTEST, by=api.nobody)["mode_label"] == "Backtest"
    for sock in waiting:
        sock.close()


def test_a_cursor_of_another_list_or_of_garbage_is_no_error_of_the_service(api):
    api.post("/backtests", BACKTEST, by=api.nobody)
    api.post("/backtests", BACKTEST | {"window_id": "another"}, by=api.nobody)
    cursor = api.get("/runs", limit=1)["next_cursor"]

    for path in ("/runs", "/backtests"):
        for value in (cursor, "AAAA", "\x00", "💣", "0" * 400, "-1"):
            refused_or_answered(api.nobody.get(path, params={"cursor": value}))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/backtests/{}"),
        ("GET", "/replay-packs/{}"),
        ("GET", "/runs/{}"),
        ("POST", "/runs/{}/verify"),
        ("GET", "/runs/{}/actions/1"),
        ("GET", "/runs/{}/evidence"),
        ("GET", "/competitions/{}"),
        ("GET", "/competitions/{}/events"),
    ],
)
def test_404_unknown_whatever_the_id_looks_like(api, subtests, method, path):
    for identifier in ("no-such-thing", "..%2Fx", "%00", "a" * 5000, "%F0%9F%8E%B2", "' OR 1=1"):
        with subtests.test(identifier=identifier[:20]):
            assert_problem(api.nobody.request(method, path.format(identifier)), 404)
