"""``clvlab service worker`` beside services that only answer."""

import json
import os
import re
import signal
import subprocess
import sys

import httpx2
import pytest
from clvlab_service.server import create_worker

from clvlab.cli import main
from tests.service.serving import BACKTEST, BOUND, PLAIN, api, make_settings, running
from tests.waiting import PATIENCE_S, until

LIVE = {"competition_type": "arena", "source_mode": "live", "market_scope": "all", "roster_size": 3, "fixture_id": 90000000}
ADDRESS = "postgresql://me:{}@127.0.0.1:1/none"


@pytest.fixture
def shared(postgres_url, local, tmp_path, monkeypatch):
    """Settings of all processes of one database, with a chain and a feed."""
    monkeypatch.setenv("CLVLAB_REPLAY_SPEED", "400000")
    return {
        "database_url": postgres_url,
        "devfeed": True,
        "live_folder": tmp_path / "live",
        "anchor": {
            "rpc_url": local.url, "cluster": "localnet", "genesis_hash": local.settings.genesis_hash,
            "keypair": local.settings.keypair,
        },
    }  # fmt: skip


def test_a_worker_performs_all_that_services_without_workers_are_asked_for(keys, shared):
    with (
        api(keys, **shared, job_workers=0) as answering,
        api(keys, **shared, job_workers=0) as other,
        running(create_worker(make_settings(keys, **shared))) as worker,
        httpx2.Client(base_url=worker, **PLAIN) as asked,
    ):
        backtest = answering.post("/backtests", BACKTEST, by=answering.nobody)
        _, started = answering.started(config=BOUND)
        live = other.competition(LIVE)
        other.post(f"/competitions/{live}/start", expect=202)
        anchored = until(lambda: other.get(f"/runs/{started['run_id']}")["anchor"]["status"] == "anchored")
        followed = until(lambda: answering.get(f"/competitions/{live}")["status"] == "finalized")
        ready, measured = asked.get("/readyz").json(), asked.get("/metrics").text
        head, options = asked.head("/healthz"), asked.options("/healthz")
        unknown = [asked.get(path).status_code for path in ("/leaderboard", "/docs", "/openapi.json")]
        idle = answering.nobody.get("/metrics").text

    assert (started["status"], anchored, followed) == ("finalized", True, True)
    assert backtest["backtest_id"]
    assert (ready["status"], ready["store"], ready["feed"]["error"]) == ("ok", "postgresql", None)
    assert unknown == [404, 404, 404]
    assert (head.status_code, head.content, options.status_code) == (200, b"", 204)
    assert options.headers["allow"] == "GET, HEAD, OPTIONS"
    for of, count in (("jobs", 2), ("anchors", 1), ("live", 8)):
        assert f'clvlab_job_lanes{{of="{of}"}} {count}.0' in measured
        assert f'clvlab_job_lanes{{of="{of}"}} 0.0' in idle


@pytest.mark.long
def test_a_worker_says_in_one_line_what_it_does_and_ends_when_it_is_told_to(postgres_url, tmp_path):
    command = [sys.executable, "-m", "clvlab", "service", "worker", "--health-port", "0"]
    environment = os.environ | {"CLVLAB_DATABASE_URL": postgres_url, "CLVLAB_JOB_WORKERS": "3"}
    with subprocess.Popen(command, env=environment, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        said = next(line for line in process.stderr if not line.startswith("{"))
        asked = re.fullmatch(
            r"clvlab works for postgresql:///test_\w+\?host=\S+: 3 jobs at once, asked at (http://\S+)\n", said
        )
        healthy = httpx2.get(f"{asked[1]}/healthz", timeout=PATIENCE_S).status_code
        process.send_signal(signal.SIGTERM)
        logged = [json.loads(line)["event"] for line in process.stderr]

    assert (healthy, process.returncode, logged) == (200, -signal.SIGTERM, ["stopping", "stopped"])


@pytest.mark.parametrize(
    ("command", "environment", "code", "says"),
    [
        ("worker", {}, 2, "needs PostgreSQL in CLVLAB_DATABASE_URL"),
        ("worker", {"CLVLAB_DATABASE_URL": "sqlite:///store.db"}, 2, "over SQLite the service performs its jobs itself"),
        ("worker", {"CLVLAB_DATABASE_URL": ADDRESS.format("QZXJ"), "CLVLAB_JOB_WORKERS": "0"}, 2, "at least one job"),
        ("worker", {"CLVLAB_DATABASE_URL": ADDRESS.format("QZXJ@VXQZ")}, 2, "can't be read"),
        ("worker", {"CLVLAB_DATABASE_URL": ADDRESS.format("QZXJ")}, 3, "does not answer"),
        ("serve", {"CLVLAB_JOB_WORKERS": "0"}, 2, "which needs PostgreSQL"),
        ("serve", {"CLVLAB_DATABASE_URL": "sqlite:///store.db", "CLVLAB_JOB_WORKERS": "0"}, 2, "which needs PostgreSQL"),
    ],
)
def test_a_start_that_cannot_be_is_one_line_without_the_password(
    command, environment, code, says, monkeypatch, capfd, tmp_path
):
    monkeypatch.chdir(tmp_path)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["clvlab", "service", command])

    with pytest.raises(SystemExit) as end:
        main()

    said = capfd.readouterr()
    assert (end.value.code, said.out) == (code, "")
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    assert says in said.err
    assert "QZXJ" not in said.err
    assert list(tmp_path.iterdir()) == []
