"""Every alert of the operator's guide fires by the fault that it is for, over scrapes of a real service, and no other does."""

import os
import re
import shutil
import sqlite3
import time
from collections import namedtuple
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest
import yaml
from clvlab_service.telemetry import RequestMetrics

from clvlab.arena.leaderboard import GlobalLeaderboard
from clvlab.log.note import Signer, write_signer
from tests.commands import clvlab
from tests.promql import Scrapes
from tests.service.serving import BACKTEST, DEPLOY, api, assert_problem
from tests.waiting import until

PAGE = Path(__file__).parents[2].joinpath("docs", "how-to", "operate.md").read_text(encoding="utf-8")
[GROUP] = yaml.safe_load(re.search(r"```yaml\n(groups:.*?)```", PAGE, re.DOTALL)[1])["groups"]
ALERTS = {rule["alert"]: rule["expr"] for rule in GROUP["rules"]}
LOG_KEY = Signer("log.example", 1, bytes(range(32)))
HOUR_S = 3600


@pytest.fixture
def file(tmp_path):
    return tmp_path / "store.db"


@pytest.fixture
def serve(keys, file, tmp_path):
    """A service over a file, with a key of its log and a file of checkpoints."""
    write_signer(LOG_KEY, tmp_path / "log.key")
    (tmp_path / "checkpoints").mkdir()
    kept = {"log_key_file": tmp_path / "log.key", "checkpoint_file": tmp_path / "checkpoints" / "newest"}
    return partial(api, keys, f"sqlite:///{file}", **kept)


@pytest.fixture
def scrapes():
    return Scrapes()


def scrape(scrapes, served, time_s):
    scrapes.add(time_s, served.nobody.get("/metrics").text)


def firing(scrapes):
    return {name for name, expression in ALERTS.items() if scrapes.ask(expression)}


def age(file, seconds):
    """Have the jobs of a store wait for longer, as if so much time had passed."""
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE jobs SET created_ts_ms = created_ts_ms - ?", (1000 * seconds,))


def test_each_alert_has_a_paragraph_that_says_what_to_do_and_no_paragraph_is_left_over():
    runbook = PAGE.partition("## Remedies")[2].partition("\n## ")[0]
    paragraphs = dict(re.findall(r"\n### (\w+)\n\n(.+?)(?=\n### |\Z)", runbook, re.DOTALL))

    assert list(paragraphs) == list(ALERTS)
    assert all(len(text.split()) > 10 for text in paragraphs.values())


def test_each_alert_names_metrics_that_exist():
    measured = {family.name for family in RequestMetrics().registry.collect()}

    for name, expression in ALERTS.items():
        named = {re.sub("_(total|bucket|count)$", "", metric) for metric in re.findall(r"clvlab_\w+", expression)}
        assert named, name
        assert named <= measured, name


def test_no_alert_fires_at_a_service_that_works(serve, scrapes, tmp_path):
    (tmp_path / "backups").mkdir()
    (tmp_path / "backups" / "store.db").write_bytes(b"a copy")
    with serve(backups=tmp_path / "backups") as served:
        for time_s in (0, 60, 120):
            served.post("/backtests", BACKTEST | {"window_id": str(time_s)})
            served.get("/leaderboard")
            served.get("/log")
            assert_problem(served.nobody.get("/runs/run_unknown"), 404)
            scrape(scrapes, served, time_s)
        ready = served.get("/readyz")

    assert firing(scrapes) == set()
    assert (ready["status"], ready["log"]) == ("ok", "ok")
    assert scrapes.ask('clvlab_problems_total{cause="unknown-run",method="GET",route="/runs/{run_id}"}')


def test_store_that_is_damaged_while_it_serves(serve, file, scrapes):
    with serve() as served:
        kept = served.post("/backtests", BACKTEST)["run_id"]
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        size = file.stat().st_size
        scrape(scrapes, served, 0)
        with file.open("r+b") as opened:
            opened.write(b"\xff" * size)

        problems = [assert_problem(served.nobody.get(path), 503) for path in ("/readyz", "/leaderboard", f"/runs/{kept}")]
        scrape(scrapes, served, 60)
        served.nobody.get("/leaderboard")
        scrape(scrapes, served, 120)

    assert {problem["reason"] for problem in problems} == {"damaged"}
    assert {problem["type"] for problem in problems} == {"urn:clvlab:problem:store-unreachable"}
    assert str(file.parent) not in str(problems), "a problem names no path of the service"
    assert {"StoreAway", "ErrorsServed"} <= firing(scrapes)
    assert file.stat().st_size == size


def test_store_that_became_read_only(serve, scrapes):
    with serve() as served:
        scrape(scrapes, served, 0)
        with patch.object(os, "access", return_value=False):  # at the boundary of the system, which refuses root nothing
            problem = assert_problem(served.nobody.get("/readyz"), 503)
            scrape(scrapes, served, 60)
        assert served.get("/readyz")["status"] == "ok"

    assert problem["reason"] == "read_only"
    assert "StoreAway" in firing(scrapes)


def test_service_that_is_gone(serve, scrapes):
    with serve() as served:
        scrape(scrapes, served, 0)
        assert firing(scrapes) == set()
    scrapes.add(60, None)

    assert "StoreAway" in firing(scrapes)


def test_service_over_a_damaged_database_does_not_start_and_says_why(file, tmp_path):
    file.write_bytes(b"")

    with patch.dict(os.environ, {"CLVLAB_DATABASE_URL": f"sqlite:///{file}"}):
        code, _, err = clvlab(tmp_path, "service", "serve", "--port", "0")

    assert code == 2
    assert err.startswith(f"error: the database '{file}' can't be used: it is empty")
    assert err.count("\n") == 1
    assert file.read_bytes() == b""


def test_errors_of_the_service(serve, scrapes):
    with serve() as served:
        served.get("/leaderboard")
        served.app.state.application.leaderboard = SimpleNamespace()
        served.nobody.get("/leaderboard")
        scrape(scrapes, served, 0)
        assert served.nobody.get("/leaderboard").status_code == 500
        scrape(scrapes, served, 60)

    assert firing(scrapes) == {"ErrorsServed"}
    assert scrapes.ask('clvlab_problems_total{cause="500",route="/leaderboard"} == 2')


def test_slow_answers(serve, scrapes):
    revision = GlobalLeaderboard.revision

    def slow(board):
        time.sleep(2.6)
        return revision(board)

    with serve() as served, patch.object(GlobalLeaderboard, "revision", slow):
        for time_s in (0, 60):
            served.get("/leaderboard", limit=time_s + 1)
            scrape(scrapes, served, time_s)

    assert firing(scrapes) == {"SlowAnswers"}


def test_refusals_and_the_room_that_has_run_out(serve, scrapes):
    with serve(max_public_run_bytes=6000) as served:
        for number in range(2):
            served.post("/backtests", BACKTEST | {"window_id": f"w{number}"}, by=served.nobody)
        for time_s in (0, 60):
            for number in range(5):
                assert_problem(served.nobody.post("/backtests", json=BACKTEST | {"window_id": f"n{number}"}), 507)
            scrape(scrapes, served, time_s)

    assert "WritesRefused" in firing(scrapes)
    assert scrapes.ask(ALERTS["WritesRefused"]) == {frozenset({("cause", "storage-spent")}): pytest.approx(5 / 60)}


def test_room_that_runs_out_within_a_day_by_the_setting_of_the_service(serve, scrapes):
    with serve(max_public_run_bytes=100_000) as served:
        for hour in range(3):
            served.post("/backtests", BACKTEST | {"window_id": f"w{hour}"}, by=served.nobody)
            scrape(scrapes, served, hour * HOUR_S)

    assert firing(scrapes) == {"RoomRunsOut"}
    with serve(max_public_run_bytes=1 << 30) as served:
        scrape(scrapes, served, 3 * HOUR_S)
    assert firing(scrapes) == set()


def test_log_that_is_behind_refuses_writes_and_is_told_by_readiness(serve, file, scrapes, tmp_path):
    with serve() as served:
        served.post("/backtests", BACKTEST)
    shutil.copy(file, tmp_path / "backup.db")
    with serve() as served:
        served.post("/backtests", BACKTEST | {"window_id": "lost"})
        assert served.nobody.get("/log/checkpoint").status_code == 200
    shutil.copy(tmp_path / "backup.db", file)

    with serve() as served:
        ready = served.get("/readyz")
        for time_s in (0, 60):
            for number in range(5):
                problem = assert_problem(served.nobody.post("/backtests", json=BACKTEST | {"window_id": f"n{number}"}), 503)
            scrape(scrapes, served, time_s)
        served.get("/leaderboard")

    assert problem["type"] == "urn:clvlab:problem:log-behind"
    assert (ready["status"], ready["log"]) == ("reads_only", "behind")
    assert {"LogBehind", "WritesRefused"} <= firing(scrapes)


@pytest.mark.parametrize("fault", ["missing", "a file", "a folder under the name"])
def test_checkpoints_that_can_not_be_stored(serve, scrapes, tmp_path, fault):
    folder = tmp_path / "checkpoints"
    with serve() as served:
        scrape(scrapes, served, 0)
        assert firing(scrapes) == set()
        if fault == "a folder under the name":
            (folder / "newest").mkdir()
        else:
            folder.rmdir()
        if fault == "a file":
            folder.write_text("in the place of the folder")
        ready = served.get("/readyz")
        assert_problem(served.nobody.get("/log/checkpoint"), 503)
        scrape(scrapes, served, 60)

    assert "CheckpointsStop" in firing(scrapes)
    assert ready["log"] in ("unpublished", "behind")


def test_work_that_waits(serve, file, scrapes):
    with serve() as served:
        served.app.state.application.jobs.stop()
        served.post("/agents/deploy", DEPLOY)
        scrape(scrapes, served, 0)
        assert firing(scrapes) == set()
        age(file, 400)
        scrape(scrapes, served, 60)

    assert firing(scrapes) == {"WorkWaits"}


def test_services_without_a_worker(keys, emptied_postgres_url, scrapes):
    with api(keys, emptied_postgres_url, job_workers=0) as served:
        scrape(scrapes, served, 0)

    assert firing(scrapes) == {"NobodyWorks"}


def test_job_that_fails_as_its_pack_was_cut_short(serve, scrapes, tmp_path):
    packs = shutil.copytree(Path(__file__).parents[2] / "packs", tmp_path / "packs")
    ticks = packs / "starter" / "ticks.parquet"
    with serve(packs=packs) as served:
        jobs = served.app.state.application.jobs
        jobs.stop()
        served.post("/agents/deploy", DEPLOY)
        scrape(scrapes, served, 0)
        os.truncate(ticks, ticks.stat().st_size // 2)
        jobs.start()
        until(lambda: 'clvlab_jobs{status="failed"} 1.0' in served.nobody.get("/metrics").text)
        scrape(scrapes, served, 60)

    assert firing(scrapes) == {"JobsFail"}
    assert scrapes.ask('clvlab_jobs_failed{kind="deploy"} == 1')


def test_what_its_requester_cancels_or_gets_refused_is_no_fault(serve, scrapes, tmp_path):
    with serve(uploads=tmp_path / "uploads") as served:
        served.app.state.application.jobs.stop()
        scrape(scrapes, served, 0)
        deployed = served.post("/agents/deploy", DEPLOY)
        served.post(f"/agents/instances/{deployed['instance_id']}/cancel")
        no_pack = served.alice.post("/me/packs", content=b"no pack", headers={"Prefer": "wait=60"})
        scrape(scrapes, served, 60)

    assert_problem(no_pack, 400)
    assert firing(scrapes) == set()
    assert all(scrapes.ask(f'clvlab_jobs{{status="{status}"}} == 1') for status in ("cancelled", "refused"))


def test_anchor_that_never_succeeds(serve, file, scrapes, local):
    chain = local.settings
    gone = {
        "rpc_url": "http://127.0.0.1:1", "cluster": "localnet", "genesis_hash": chain.genesis_hash, "keypair": chain.keypair,
        "timeout_s": 0.2, "patience_s": 0.2,
    }  # fmt: skip
    with serve(anchor=gone) as served:
        served.started()
        scrape(scrapes, served, 0)
        assert firing(scrapes) == set()
        age(file, 2 * HOUR_S)
        scrape(scrapes, served, 60)

    assert firing(scrapes) == {"AnchorsStuck"}


def test_disk_that_fills(serve, scrapes):
    usage = namedtuple("usage", "total used free")
    with serve() as served:
        scrape(scrapes, served, 0)
        assert firing(scrapes) == set()
        with patch.object(shutil, "disk_usage", lambda folder: usage(1 << 40, 1 << 40, 1 << 20)):  # noqa: ARG005
            scrape(scrapes, served, 60)

    assert firing(scrapes) == {"DiskFills"}
    assert set(scrapes.ask(ALERTS["DiskFills"])) == {
        frozenset({("of", "store")}), frozenset({("of", "checkpoints")})
    }  # fmt: skip


def test_backup_that_is_missing_empty_or_old(serve, file, scrapes, tmp_path):
    backups = tmp_path / "backups"
    with serve(backups=backups) as served:
        scrape(scrapes, served, 0)
        assert firing(scrapes) == {"BackupOld"}, "there is no folder"
        backups.mkdir()
        (backups / "failed.dump").touch()
        scrape(scrapes, served, 60)
        assert firing(scrapes) == {"BackupOld"}, "an empty file is no backup"

        code, out, _ = clvlab(
            tmp_path, "service", "backup", "--out", backups / "copy.db", "--database-url", f"sqlite:///{file}"
        )
        scrape(scrapes, served, 120)
        assert (code, firing(scrapes)) == (0, set()), out

        yesterday = time.time() - 37 * HOUR_S
        os.utime(backups / "copy.db", (yesterday, yesterday))
        scrape(scrapes, served, 180)
    assert firing(scrapes) == {"BackupOld"}


def test_feed_that_is_silent(serve, scrapes):
    silent = {"runs": 1, "connected": 1, "quota_left": None, "data_age_s": 700.0, "error": None}
    with serve() as served:
        scrape(scrapes, served, 0)
        served.app.state.application.live = SimpleNamespace(health=lambda: silent, end=lambda: None)
        scrape(scrapes, served, 60)

    assert firing(scrapes) == {"FeedSilent"}
