"""The life of every kind of job over HTTP: asked for, watched, cancelled at each stage, deleted, and raced for."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from unittest.mock import patch

import pytest

from clvlab.packs.synthetic import Recipe, build
from clvlab.runs.progress import Stage
from tests.arena.archives import files_of, zipped
from tests.length import few
from tests.service import serving
from tests.service.serving import BACKTEST, BOUND, DEPLOY, assert_problem, make_entry
from tests.service.tokens import ALICE
from tests.waiting import until

ASYNC = {"Prefer": "respond-async"}
LIVE = {"competition_type": "arena", "source_mode": "live", "market_scope": "all", "roster_size": 2}
LIVE_DEPLOY = {"strategy": "cumulative-drift", "source_mode": "live"}
STATE = {"run_id", "status", "cause", "stage", "done", "total", "mode_label"}
COMPETITIONS = ("competition", "live-competition")
DEPLOYS = ("deploy", "live-deploy")
KINDS = ("backtest", *COMPETITIONS, *DEPLOYS)


class Slow:
    """In place of a replay: it reports progress until it is let go, and then replays."""

    def __init__(self, perform):
        self.perform, self.let_go = perform, Event()

    def __call__(self, spec, commitment, tell):
        tell(Stage.OPENING)
        while not self.let_go.wait(0.02):
            tell(Stage.DECIDING, 1, 2)
        return self.perform(spec, commitment, tell)


@pytest.fixture(params=["memory", "postgresql"])
def store(request):
    return None if request.param == "memory" else request.getfixturevalue("emptied_postgres_url")


@pytest.fixture
def served(store, keys, tmp_path, monkeypatch):
    """A service with a store of its own and a feed of a match that lasts for hours."""
    monkeypatch.setenv("CLVLAB_REPLAY_SPEED", "1")
    with serving.api(keys, store, devfeed=True, live_folder=tmp_path / "live", shutdown_s=1) as found:
        yield found


@pytest.fixture
def idle(served):
    """The service while it performs nothing."""
    jobs = served.app.state.application.jobs
    jobs.stop()
    jobs.workers = 0
    return served


@pytest.fixture
def slow(monkeypatch):
    """Replays that last until they are let go."""
    from clvlab.arena import run_jobs

    made = Slow(run_jobs.perform)
    monkeypatch.setattr(run_jobs, "perform", made)
    yield made
    made.let_go.set()


class Job:
    """A job that was asked for, and how its author cancels it."""

    def __init__(self, api, kind, root=""):
        self.api, self.kind = api, kind
        self.answer = self._ask()
        assert self.answer.status_code == 202, self.answer.text
        self.body = self.answer.json()
        self.at = self.answer.headers["location"].removeprefix(root)
        self.cancel_headers = {"Idempotency-Key": self.body["key"]} if kind == "backtest" else {}

    def _ask(self):
        api = self.api
        if self.kind == "backtest":
            return api.nobody.post("/backtests", json=BACKTEST, headers=ASYNC)
        if self.kind in DEPLOYS:
            body = DEPLOY if self.kind == "deploy" else LIVE_DEPLOY
            return api.alice.post("/agents/deploy", json=body, headers=ASYNC)
        created = api.competition(BOUND if self.kind == "competition" else LIVE, ("baseline",))
        return api.alice.post(f"/competitions/{created}/start", headers=ASYNC if self.kind == "competition" else {})

    @property
    def state(self):
        return self.api.get(f"/runs/{self.body['run_id']}/progress")

    def cancel(self, by=None):
        return (by or self.api.alice).post(f"{self.at}/cancel", headers=self.cancel_headers)

    def runs(self):
        until(lambda: self.state["status"] == "running" and self.state["stage"] == "deciding")
        return self


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def owners(api):
    return {owner.pop("owner"): owner for owner in api.get("/log")["owners"]}


def test_every_job_is_accepted_with_one_model_that_knows_its_run(idle, kind):
    job = Job(idle, kind)

    assert int(job.answer.headers["retry-after"]) >= 1
    own = {"backtest": {"backtest_id", "key"}, "competition": {"competition_id"}, "deploy": {"instance_id"}}
    assert job.body.keys() == STATE | own[kind.removeprefix("live-")]
    assert (job.body["status"], job.body["cause"]) == ("queued", None)
    assert {**job.state, "key": job.body.get("key")} == {"key": None} | job.body
    assert idle.get(f"/runs/{job.body['run_id']}")["run"]["status"] == "queued"
    found = idle.alice.get(job.at)
    assert found.status_code == (202 if kind == "backtest" else 200)
    assert idle.alice.get(job.at).json().get("run_status", "queued") == "queued"


@few(2)
def test_a_queued_job_is_cancelled_once(idle, kind):
    job = Job(idle, kind)

    ended, again = job.cancel(), job.cancel()

    assert ended.status_code == 200, ended.text
    assert_problem(again, 409)
    assert (job.state["status"], job.state["cause"]) == ("failed", "cancelled")
    if kind in COMPETITIONS:
        assert ended.json() == {"competition_id": job.body["competition_id"], "status": "draft"}
        assert idle.get(job.at)["cause"] == "cancelled"
    else:
        assert {**ended.json(), "key": job.body.get("key")} == {"key": None} | job.body | {
            "status": "failed", "cause": "cancelled",
        }  # fmt: skip
    assert owners(idle)["anonymous" if kind == "backtest" else ALICE] == {
        "committed": 1, "sealed": 0, "abandoned": 1, "open": 0,
    }  # fmt: skip


@few(2)
def test_a_running_job_is_cancelled_and_its_worker_stores_nothing(served, slow, kind):
    job = Job(served, kind).runs()

    ended = job.cancel()

    assert ended.status_code == 200, ended.text
    slow.let_go.set()
    application = served.app.state.application
    until(lambda: not application.jobs._attempts._in_hand)  # the worker has let go of it
    assert (job.state["status"], job.state["cause"]) == ("failed", "cancelled")
    assert served.get("/log")["owners"][0]["abandoned"] == 1
    assert_problem(served.nobody.get(f"/runs/{job.body['run_id']}/evidence"), 404)
    assert_problem(job.cancel(), 409)


@pytest.mark.parametrize("kind", ["backtest", "competition", "deploy"])
def test_a_job_that_is_done_can_not_be_cancelled(served, kind):
    job = Job(served, kind)
    until(lambda: job.state["status"] == "sealed")

    problem = assert_problem(job.cancel(), 409)

    assert "nothing to cancel" in problem["detail"]
    assert job.state["status"] == "sealed"


@few(2)
def test_another_owner_and_a_caller_without_a_token_cancel_nothing(idle, kind):
    job = Job(idle, kind)
    job.cancel_headers = {"Idempotency-Key": "a guess"} if kind == "backtest" else {}

    assert_problem(job.cancel(by=idle.bob), 404 if kind in DEPLOYS else 403)
    assert_problem(job.cancel(by=idle.nobody), 403 if kind == "backtest" else 401)
    assert job.state["status"] == "queued"


@few(1)
@pytest.mark.parametrize("kind", ["backtest", "competition", "deploy"])
def test_of_a_cancel_and_a_finish_one_wins(served, kind):
    for _ in range(4):
        job = Job(served, kind)
        ended = job.cancel()
        until(lambda job=job: job.state["status"] in ("sealed", "failed"))
        expected = {200: "failed", 409: "sealed"}

        assert job.state["status"] == expected[ended.status_code]
        assert (served.nobody.get(f"/runs/{job.body['run_id']}/evidence").status_code == 200) == (ended.status_code == 409)
        if ended.status_code == 409 and kind == "backtest":
            return  # the same request is answered from now on


@few(2)
def test_of_many_cancels_one_is_taken(idle, kind):
    job = Job(idle, kind)

    with ThreadPoolExecutor(4) as pool:
        statuses = sorted(answer.status_code for answer in pool.map(lambda _: job.cancel(), range(4)))

    assert statuses == [200, 409, 409, 409]
    assert sum(owner["abandoned"] for owner in owners(idle).values()) == 1


def test_a_cancelled_start_begins_again_under_a_new_commitment(served, slow):
    job = Job(served, "competition").runs()
    job.cancel()
    slow.let_go.set()

    started = served.post(f"{job.at}/start")

    assert (started["status"], started["run_id"]) == ("finalized", job.body["run_id"])
    assert owners(served)[ALICE] == {"committed": 2, "sealed": 1, "abandoned": 1, "open": 0}


def test_a_cancelled_backtest_is_performed_again_while_its_first_worker_hangs(keys, monkeypatch):
    from clvlab.arena import run_jobs

    let_go, begun, perform = Event(), [], run_jobs.perform

    def hanging(spec, commitment, tell):
        begun.append(spec.run_id)
        if len(begun) == 1:
            let_go.wait()
        return perform(spec, commitment, tell)

    monkeypatch.setattr(run_jobs, "perform", hanging)
    with serving.api(keys, public_workers=2) as served:
        job = Job(served, "backtest")
        until(lambda: begun)
        job.cancel()

        again = served.nobody.post("/backtests", json=BACKTEST, headers={"Prefer": "wait=20"})

        let_go.set()
    assert again.status_code == 201, again.text
    assert len(begun) == 2


def test_an_owner_with_four_live_runs_cancels_one_and_starts_another(served):
    jobs = [Job(served, "live-deploy") for _ in range(3)] + [Job(served, "live-competition")]
    refused = served.alice.post("/agents/deploy", json=LIVE_DEPLOY)
    assert "4 live runs" in assert_problem(refused, 429)["detail"]
    for job in jobs:
        until(lambda job=job: job.state["status"] == "running")

    assert jobs[0].cancel().status_code == 200

    another = served.post("/agents/deploy", LIVE_DEPLOY)
    assert_problem(served.alice.post("/agents/deploy", json=LIVE_DEPLOY), 429)
    assert jobs[3].cancel().json()["status"] == "draft"
    assert served.alice.post(f"{jobs[3].at}/start").status_code == 202
    told = served.get(f"/agents/instances/{jobs[0].body['instance_id']}/runtime-events", by=served.alice)["events"]
    assert (told[-1]["type"], told[-1]["payload"]) == ("RUN_FAILED", {"cause": "cancelled"})
    for instance_id in (another["instance_id"], *(job.body["instance_id"] for job in jobs[1:3])):
        assert served.alice.post(f"/agents/instances/{instance_id}/cancel").status_code == 200
    assert served.alice.post(f"{jobs[3].at}/cancel").status_code == 200


@pytest.mark.parametrize("kind", DEPLOYS)
def test_an_instance_is_deleted_when_its_run_is_over_and_its_run_stays(served, slow, kind):
    job = Job(served, kind).runs()
    refused = served.alice.delete(job.at)
    assert assert_problem(refused, 409)["reason"] == "in_use"
    assert int(refused.headers["retry-after"]) >= 1
    if kind == "deploy":
        slow.let_go.set()
        until(lambda: job.state["status"] == "sealed")
    else:
        job.cancel()

    assert_problem(served.nobody.delete(job.at), 401)
    assert_problem(served.bob.delete(job.at), 404)
    answer = served.alice.delete(job.at)

    assert (answer.status_code, answer.content) == (204, b"")
    for gone in (
        served.alice.get(job.at), served.alice.get(f"{job.at}/runtime-events"), job.cancel(), served.alice.delete(job.at)
    ):  # fmt: skip
        assert_problem(gone, 404)
    assert served.get("/agents/instances", by=served.alice)["instances"] == []
    assert served.get("/me", by=served.alice)["instances"] == 0
    assert job.state["status"] == ("sealed" if kind == "deploy" else "failed")
    if kind == "deploy":
        assert served.post(f"/runs/{job.body['run_id']}/verify")["verified"]


def test_the_key_of_a_deleted_or_cancelled_deploy_launches_nothing(idle):
    for number, end in enumerate(("cancel", "delete")):
        key = {"Idempotency-Key": f"key-{number}"}
        deployed = idle.alice.post("/agents/deploy", json=DEPLOY, headers=key).json()
        at = f"/agents/instances/{deployed['instance_id']}"
        idle.post(f"{at}/cancel")
        if end == "delete":
            assert idle.alice.delete(at).status_code == 204

        problem = assert_problem(idle.alice.post("/agents/deploy", json=DEPLOY, headers=key), 409)

        assert problem["reason"] == "prior_attempt"


def test_an_instance_on_a_roster_may_go_because_the_roster_has_its_config(idle):
    deployed = idle.post("/agents/deploy", DEPLOY)
    created = idle.competition(BOUND, ())
    idle.post(f"/competitions/{created}/agents", make_entry("cumulative-drift", instance_id=deployed["instance_id"]))
    idle.post(f"/agents/instances/{deployed['instance_id']}/cancel")
    assert idle.alice.delete(f"/agents/instances/{deployed['instance_id']}").status_code == 204

    begun = idle.alice.post(f"/competitions/{created}/start", headers=ASYNC)

    assert begun.status_code == 202
    assert idle.app.state.application.jobs.run_one()
    assert idle.get(f"/competitions/{created}")["status"] == "finalized"


def test_a_deploy_answers_as_the_specification_says_unless_it_is_told_not_to_wait(idle):
    plain = idle.post("/agents/deploy", DEPLOY | {"colour": 1})
    waited = idle.alice.post("/agents/deploy", json=DEPLOY, headers={"Prefer": "wait=9"})
    accepted = idle.alice.post("/agents/deploy", json=DEPLOY | {"colour": 1}, headers=ASYNC)

    assert plain.keys() == {
        "instance_id", "config_hash", "policy_hash", "run_id", "owner", "replay_binding", "ignored",
    }  # fmt: skip
    assert waited.status_code == 201
    assert (accepted.status_code, accepted.json()["ignored"]) == (202, ["colour"])
    assert accepted.headers["preference-applied"] == "respond-async"
    record = idle.get(accepted.headers["location"], by=idle.alice)
    assert (record["run_id"], record["run_status"]) == (accepted.json()["run_id"], "queued")


def test_a_conflict_with_a_running_job_says_when_to_ask_again(idle):
    job = Job(idle, "competition")

    for action in ("start", "complete"):
        refused = idle.alice.post(f"{job.at}/{action}")
        assert_problem(refused, 409)
        assert int(refused.headers["retry-after"]) >= 1
    job.cancel()
    assert "retry-after" not in idle.alice.post(f"{job.at}/complete").headers


@few(2)
def test_behind_a_root_path_every_location_has_it(idle, kind):
    with patch.object(idle.app, "root_path", "/clvlab"):
        job = Job(idle, kind, "/clvlab")

    assert job.answer.headers["location"].startswith("/clvlab/")
    assert not job.at.startswith("/clvlab")


def test_a_live_start_that_is_told_to_wait_does_not_say_that_it_did(idle):
    created = idle.competition(LIVE, ("baseline",))

    begun = idle.alice.post(f"/competitions/{created}/start", headers={"Prefer": "wait=5"})

    assert begun.status_code == 202
    assert "preference-applied" not in begun.headers


def test_a_job_of_a_killed_process_is_cancelled_by_another(keys, emptied_postgres_url, slow):
    with serving.api(keys, emptied_postgres_url, shutdown_s=1) as first, serving.api(keys, emptied_postgres_url) as second:
        job = Job(first, "deploy").runs()
        first.app.state.application.jobs.stop(0)  # as if its process had gone

        assert second.alice.post(f"{job.at}/cancel").status_code == 200
        slow.let_go.set()

        assert second.get(f"/runs/{job.body['run_id']}/progress")["cause"] == "cancelled"
        assert not second.app.state.application.jobs.run_one()


@few(1)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_of_a_kill_and_a_cancel_every_job_has_one_end(request, keys, tmp_path, kind):
    url = f"sqlite:///{tmp_path / 'store.db'}" if kind == "sqlite" else request.getfixturevalue("emptied_postgres_url")
    with serving.api(keys, url) as first:
        created = first.competition(BOUND, ("baseline",))
    command = [sys.executable, "-m", "tests.arena.crashing", url, created, ALICE]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.15)  # in the midst of the start, on most machines
        process.kill()

    with serving.api(keys, url) as second:
        jobs = second.app.state.application.jobs
        jobs.stop()
        ended = second.alice.post(f"/competitions/{created}/cancel")
        status = second.get(f"/competitions/{created}")["status"]
        log = second.get(f"/competitions/{created}/events", since_seq=-1)

        assert (ended.status_code, status) in ((200, "draft"), (409, "draft"), (409, "finalized"))
        assert not jobs.run_one()
        if log:
            assert second.get(f"/runs/{log[0]['run_id']}/progress")["status"] == ("failed" if status == "draft" else "sealed")
        if status == "draft":
            assert second.post(f"/competitions/{created}/start")["status"] == "finalized"


# Uploads, which have no run.


def send(api, archive, prefer="respond-async", **about):
    return api.alice.post("/me/packs", content=archive, params=about, headers={"Prefer": prefer})


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packs") / "mine"
    build(Recipe(seed=7, fixtures=1, messages=40), folder)
    return zipped(files_of(folder))


@pytest.fixture
def taking(store, keys, tmp_path):
    with serving.api(keys, store, uploads=tmp_path / "uploads", upload_workers=1) as found:
        yield found


@pytest.fixture
def held(monkeypatch):
    """Verifications that last until they are let go."""
    from clvlab.arena.uploads import uploads

    let_go, verify = Event(), uploads.verified_upload

    def verified(folder, request, limits, tell):
        while not let_go.wait(0.02):
            tell()
        return verify(folder, request, limits, tell)

    monkeypatch.setattr(uploads, "verified_upload", verified)
    yield let_go
    let_go.set()


def received(folder):
    return [*(folder / "uploads").glob(".received-*")]


def test_an_upload_is_accepted_watched_and_kept(taking, held, archive, tmp_path):
    accepted = send(taking, archive)

    assert accepted.status_code == 202, accepted.text
    state, at = accepted.json(), accepted.headers["location"]
    assert state.keys() == (STATE - {"mode_label"}) | {"upload_id"}
    assert (at, state["run_id"]) == (f"/me/uploads/{state['upload_id']}", None)
    assert (accepted.headers["retry-after"], accepted.headers["preference-applied"]) == ("1", "respond-async")
    until(lambda: taking.get(at, by=taking.alice)["stage"] == "opening")
    assert taking.get("/me/packs", by=taking.alice)["packs"] == []
    held.set()
    until(lambda: taking.get(at, by=taking.alice)["status"] == "sealed")
    assert taking.get(at, by=taking.alice)["pack_id"] == "mine"
    assert taking.get("/me/packs/mine", by=taking.alice)["fixtures"]
    until(lambda: received(tmp_path) == [])
    assert_problem(taking.alice.post(f"{at}/cancel"), 409)
    assert taking.alice.delete("/me/packs/mine").status_code == 204


def test_an_upload_is_cancelled_running_and_queued(taking, held, archive, tmp_path):
    running, queued = send(taking, archive), send(taking, archive)
    ats = [answer.headers["location"] for answer in (running, queued)]
    until(lambda: taking.get(ats[0], by=taking.alice)["status"] == "running")
    assert taking.get(ats[1], by=taking.alice)["status"] == "queued"

    for at in reversed(ats):
        for who, status in ((taking.nobody, 401), (taking.bob, 404)):
            assert_problem(who.get(at), status)
            assert_problem(who.post(f"{at}/cancel"), status)
        ended = taking.post(f"{at}/cancel")
        assert (ended["status"], ended["cause"]) == ("failed", "cancelled")
        assert_problem(taking.alice.post(f"{at}/cancel"), 409)

    held.set()
    until(lambda: not taking.app.state.application.jobs._attempts._in_hand)
    assert taking.get("/me/packs", by=taking.alice)["packs"] == []
    assert received(tmp_path) == []
    until(lambda: send(taking, archive, "wait=60").status_code == 201)  # the places of its owner become free


def test_an_upload_that_is_waited_for_is_answered_as_without_a_preference(taking, archive):
    made, again = send(taking, archive, "wait=60"), send(taking, archive, "wait=60")
    named, damaged = send(taking, archive, "wait=60", pack_id="other"), send(taking, b"hello", "wait=60")

    assert (made.status_code, again.status_code) == (201, 200)
    assert made.headers["location"] == again.headers["location"] == "/me/packs/mine"
    assert made.json() == again.json() == taking.get("/me/packs/mine", by=taking.alice)
    for refused in (named, damaged):
        assert assert_problem(refused, 400)["type"] == "urn:clvlab:problem:upload-refused"


def test_an_upload_that_can_not_be_kept_says_why_in_its_state(taking, archive, tmp_path):
    build(Recipe(seed=8, fixtures=1, messages=40), tmp_path / "mine")
    send(taking, archive, "wait=60")
    other = zipped(files_of(tmp_path / "mine"))

    accepted = send(taking, other)
    at = accepted.headers["location"]
    until(lambda: taking.get(at, by=taking.alice)["status"] == "failed")

    assert "another pack 'mine'" in taking.get(at, by=taking.alice)["cause"]
    assert assert_problem(send(taking, other, "wait=60"), 409)["reason"] == "id_taken"


def test_an_upload_of_a_process_that_ended_is_verified_by_the_next(keys, emptied_postgres_url, held, archive, tmp_path):
    settings = {"uploads": tmp_path / "uploads", "shutdown_s": 1}
    with serving.api(keys, emptied_postgres_url, **settings) as first:
        at = send(first, archive).headers["location"]
        until(lambda: first.get(at, by=first.alice)["status"] == "running")
        first.app.state.application.jobs.stop(0)
        held.set()
        assert len(received(tmp_path)) == 1

        with serving.api(keys, emptied_postgres_url, **settings) as second:
            assert second.app.state.application.jobs.run_one(("upload",))
            assert second.get(at, by=second.alice)["pack_id"] == "mine"
    assert received(tmp_path) == []
