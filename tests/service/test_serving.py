"""``clvlab service serve`` and ``clvlab service dev-token``, as a user runs them."""

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import contextmanager

import httpx2
import jwt
import pytest

import clvlab
from clvlab.client import ApiError
from tests.commands import apart
from tests.commands import clvlab as command
from tests.service.serving import BACKTEST, BOUND, CONFIG
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.long

CLVLAB = [sys.executable, "-m", "clvlab"]


@contextmanager
def serving(folder, *arguments, wait=True, **environment):
    """``clvlab service serve`` on a free port: its URL, its process, and what it says."""
    log = folder / "serve.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*CLVLAB, "service", "serve", "--port", "0", *arguments], cwd=folder, env=os.environ | environment, stderr=output
        )
        try:
            served = r"clvlab serves (http://\S+),"
            until(lambda: re.search(served, log.read_text()) or process.poll() is not None)
            found = re.search(served, log.read_text())
            assert found, log.read_text()
            if wait:
                wait_until_ready(found[1])
            yield found[1], process, log
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(timeout=PATIENCE_S)


def wait_until_ready(url):
    def is_ready():
        try:
            return httpx2.get(f"{url}/healthz", timeout=PATIENCE_S).is_success
        except httpx2.HTTPError:
            return False

    until(is_ready)


def clvlab_prints(folder, *arguments):
    code, printed, said = command(folder, *arguments)
    assert code == 0, said
    return printed.strip()


@pytest.fixture(scope="module")
def dev(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dev")
    with serving(folder, "--dev") as (url, _, log):
        yield url, folder, log


@pytest.mark.parametrize(("more", "said"), [((), "at 5,039 times"), (("--speed", "2e6"), "at 2,000,000 times")])
def test_a_made_up_feed_says_how_fast_it_is(tmp_path, more, said):
    with serving(tmp_path, "--dev", "--devfeed", *more) as (_, _, log):
        until(lambda: said in log.read_text())


def test_the_whole_walk_with_a_token_of_dev_token(dev):
    url, folder, _ = dev

    with clvlab.Client(url, clvlab_prints(folder, "service", "dev-token")) as client:
        created = client.create_competition(BOUND)["competition_id"]
        client.register(created, "one", "baseline")
        client.register(created, "two", "cumulative-drift", {"warmup_ticks": 3})
        started = client.start(created)
        state = client.competition(created)
        deployed = client.deploy(strategy="baseline", source_mode="replay", pack_id="starter", idempotency_key="k")
        report = client.report(client.backtest("starter", BACKTEST["fixture_id"])["backtest_id"])

        assert started["run_id"] == state["run_id"]
        assert client.verify(started["run_id"])["verified"]
        assert client.events(created, since_seq=-1)[0]["seq"] == 0
        assert client.decision(started["run_id"], 1)["agent_id"] in ("one", "two")
        assert client.instance(deployed["instance_id"])["owner"] == "did:key:dev"
        assert client.runtime_events(deployed["instance_id"], limit=1)["events"]
        assert report["pack_id"] == "starter"
        assert client.evidence(started["run_id"]).endswith(b"\n")
        assert {row["agent_id"] for row in client.leaderboard()["rows"]} >= {"one", "two"}
        assert client.demo()["proof_card"]["checks"]["evidence_integrity"] == "pass"
        assert created in [entry["competition_id"] for entry in client.competitions("FINALIZED")]
        assert client.complete_competition(created)["status"] == "completed"
        assert client.runs(limit=1)["next_cursor"]
        assert client.backtests()["backtests"]
        assert client.pack("starter")["pack_id"] == "starter"
        assert url in repr(client)


def test_the_client_raises_the_problem(dev):
    with clvlab.Client(dev[0]) as client:
        with pytest.raises(ApiError, match="401 Unauthorized: a bearer token is required") as error:
            client.create_competition(CONFIG)
        with pytest.raises(ApiError, match="404 Not Found") as unknown:
            client.run("a?b#c")

    assert error.value.status == 401
    assert unknown.value.problem["type"] == "urn:clvlab:problem:unknown-run"


def test_the_client_says_what_a_stranger_answered(dev):
    with clvlab.Client(dev[0] + "/nothing/here") as client, pytest.raises(ApiError, match="404"):
        client.leaderboard()


def test_dev_token_names_who_and_how_long_and_keeps_its_key_to_itself(tmp_path):
    token = clvlab_prints(tmp_path, "service", "dev-token", "--did", "did:key:me", "--lifetime-s", "60", "--keys", "k")
    claims = jwt.decode(token, options={"verify_signature": False})

    assert (claims["sub"], claims["exp"] - claims["iat"]) == ("did:key:me", 60)
    assert stat.S_IMODE((tmp_path / "k" / "dev-key.pem").stat().st_mode) == 0o600
    assert (tmp_path / "k" / ".gitignore").read_text() == "*\n"


def test_without_configuration_it_says_how_to_get_a_token_and_refuses_all(tmp_path):
    with serving(tmp_path) as (url, _, log), clvlab.Client(url, clvlab_prints(tmp_path, "service", "dev-token")) as client:
        assert "clvlab service serve --dev" in log.read_text()
        assert "in memory" in log.read_text()
        assert client.leaderboard() == {"rows": []}
        with pytest.raises(ApiError, match="401"):
            client.create_competition(CONFIG)


def test_what_a_file_holds_is_there_after_a_restart(tmp_path):
    store = {"CLVLAB_DATABASE_URL": f"sqlite:///{tmp_path / 'store.db'}"}
    with serving(tmp_path, **store) as (url, _, _), clvlab.Client(url) as client:
        made = client.backtest("starter", BACKTEST["fixture_id"])
        report = client.report(made["backtest_id"])

    with serving(tmp_path, **store) as (url, _, _), clvlab.Client(url) as client:
        assert client.report(made["backtest_id"]) == report
        assert client.verify(made["run_id"])["verified"]


def test_it_serves_when_it_says_so_and_says_that_it_stopped(tmp_path):
    with serving(tmp_path, wait=False) as (url, process, log):
        assert httpx2.get(f"{url}/readyz", timeout=PATIENCE_S).status_code == 200
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=PATIENCE_S)

    assert '"event":"stopped"' in log.read_text()


def test_lines_of_the_server_beneath_are_lines_of_the_log(dev):
    url, _, log = dev
    said = log.read_text()

    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as client:
        client.sendall(b"NO HTTP\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 400")

    lines = [json.loads(line) for line in log.read_text().removeprefix(said).splitlines()]
    refused = {"event": "Invalid HTTP request received.", "level": "warning", "logger": "uvicorn.error"}
    assert any(refused.items() <= line.items() for line in lines)


NO_SETTINGS = {
    "key on this disk": (["--dev", "--host", "0.0.0.0"], {}, "--dev trusts a key on this disk"),
    "keys of nobody": ([], {"CLVLAB_JWKS_URL": "https://a.example/jwks"}, "CLVLAB_JWT_ISSUER"),
    "two kinds of keys": (["--dev"], {"CLVLAB_JWKS_URL": "https://a.example/jwks"}, "not both"),
    "word for a number": ([], {"CLVLAB_PUBLIC_WORKERS": "many"}, "public_workers"),
    "key that is not there": (
        [],
        {"CLVLAB_JWT_PUBLIC_KEY_FILE": "gone.pem", "CLVLAB_JWT_ISSUER": "i", "CLVLAB_JWT_AUDIENCE": "a"},
        "gone.pem",
    ),
    "empty catalog": ([], {"CLVLAB_PACKS": "."}, "admits no pack"),  # before the store is opened
}
NOBODY_THERE = {"CLVLAB_DATABASE_URL": "postgresql+psycopg://nobody:secret@127.0.0.1:1/none"}


@pytest.fixture(scope="module")
def refusals(tmp_path_factory):
    """What ``clvlab service serve`` says where it can't begin: exit code, output and errors."""
    given = {name: (environment, arguments) for name, (arguments, environment, _) in NO_SETTINGS.items()}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        given |= {"nobody there": (NOBODY_THERE, []), "port": ({}, ["--port", port])}
        calls = [(environment, ["service", "serve", "--port", "0", *arguments]) for environment, arguments in given.values()]
        answers = apart(tmp_path_factory.mktemp("refusals"), calls)
    return dict(zip(given, answers, strict=True)), port


@pytest.mark.parametrize("name", NO_SETTINGS)
def test_settings_that_cannot_be_used_exit_2_with_one_error(refusals, name):
    code, _, said = refusals[0][name]

    assert code == 2
    assert NO_SETTINGS[name][2] in " ".join(said.split())
    assert "Traceback" not in said


def test_a_configured_database_that_cannot_be_reached_keeps_it_from_starting(refusals):
    code, _, said = refusals[0]["nobody there"]

    assert code == 3
    assert said.startswith("error: the database does not answer")
    assert "secret" not in said
    assert "serves" not in said


def test_a_port_that_is_taken_is_named(refusals):
    answers, port = refusals
    code, _, said = answers["port"]

    assert code == 2
    assert f"port {port}: Address already in use" in " ".join(said.split())


def test_a_catalog_of_ones_own_is_served_and_the_only_pack_of_it_is_bound_at_start(tmp_path):
    clvlab_prints(tmp_path, "packs", "build", "--out", "mine/only", "--fixtures", "2", "--messages", "40")
    clvlab_prints(tmp_path, "packs", "admit", "only", "--catalog", "mine")

    with (
        serving(tmp_path, "--dev", CLVLAB_PACKS="mine") as (url, _, _),
        clvlab.Client(url, clvlab_prints(tmp_path, "service", "dev-token")) as client,
    ):
        fixtures = client.packs()["packs"][0]["fixtures"]
        created = client.create_competition(CONFIG)["competition_id"]
        client.register(created, "one", "baseline")
        bound = client.start(created)["replay_binding"]

    assert bound["pack_id"] == "only"
    assert bound["fixture_id"] == min(fixtures)


def test_answers_do_not_wait_for_acknowledgements(dev):
    with httpx2.Client(base_url=dev[0], timeout=PATIENCE_S) as client:
        client.get("/healthz")
        took_s = []
        for _ in range(50):
            started = time.perf_counter()
            client.get("/healthz")
            took_s.append(time.perf_counter() - started)

    assert min(took_s) < 0.04, "each waited for the acknowledgement of its headers"


def test_uvicorn_serves_it_by_name():
    load = "config = uvicorn.Config('clvlab_service.main:app'); config.load(); print(type(config.loaded_app).__name__)"
    code = f"import uvicorn; {load}"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip().endswith("Middleware") or done.stdout.strip() == "FastAPI"
